"""Which session a conversation is (mapping: windie, "Ids"): an alias per user, made when it first speaks.

The name of a session of any other kind, or of another dialect, is that session too, for callers who may see it: so a
client of this protocol can watch and drive an agent that was begun elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from weakref import WeakValueDictionary

from dragoman.hub.errors import Gone, UnknownSession, Unsupported
from dragoman.hub.events import Json
from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import LOCAL
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session

from .callers import Caller
from .settings import WindieSettings

DIALECT = "windie"

REF = "conversation_ref"
"""The session's setting that says what its user calls it. Lists show it."""


class Conversations:
    """``folder`` is where they work for whom no other is configured. Where none may be made (``makes_sessions``), a
    client names the session that there is."""

    def __init__(
        self, registry: Registry, settings: WindieSettings, folder: Path, *, makes_sessions: bool = True
    ) -> None:
        self._registry = registry
        self._workspaces = tuple(Path(each).expanduser().resolve() for each in settings.workspaces)
        self._folder = folder
        self._makes_sessions = makes_sessions
        self._naming: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def find(self, caller: Caller, ref: str) -> Session | None:
        """The open session that the caller calls so; None where there is none that they may see."""
        principal = caller.principal
        named = await self._registry.alias(DIALECT, principal, ref)
        if named is None and self._may_name(caller, ref):
            named = ref
        if named is None:
            return None
        try:
            session = await self._registry.get(LOCAL, named)
        except (Gone, UnknownSession):
            return None
        return session if session.state.closed is None else None

    def name(self, caller: Caller, ref: str) -> str:
        """The one name of a conversation: the id of one of the caller's own means the name that it was given."""
        try:
            row = self._registry.row(LOCAL, ref)
        except (Gone, UnknownSession):
            return ref
        if not self.is_users(caller, row):
            return ref
        given = row.detail.get(REF)
        return given if isinstance(given, str) else ref

    async def open(self, caller: Caller, ref: str, settings: Mapping[str, Json], workspace: str | None) -> Session:
        """That session, made with these settings when there is none. Raises what the hub refuses."""
        async with self._naming.setdefault((caller.user_id, ref), asyncio.Lock()):
            found = await self.find(caller, ref)
            if found is not None:
                return found
            if not self._makes_sessions:
                raise Unsupported("this server makes no conversations: name its session as conversation_ref")
            session = await self._registry.create(
                caller.principal,
                kind="native",
                cwd=str(self.workspace(workspace) or self._folder),
                agent="native",
                title=ref,
                settings={**settings, REF: ref},
            )
            await self._registry.bind_alias(DIALECT, caller.principal, ref, session.id)
            return session

    def workspace(self, path: str | None) -> Path | None:
        """The folder that a client's path is, if it lies under a configured workspace; None: it is only a text."""
        if path is None or not self._workspaces or not Path(path).is_absolute():
            return None
        try:
            real = Path(path).resolve()
            allowed = any(real == each or each in real.parents for each in self._workspaces)
            return real if allowed and real.is_dir() else None
        except (OSError, RuntimeError, ValueError):
            return None  # too long, links that lead in a circle, a NUL: no path of this machine

    def is_users(self, caller: Caller, row: SessionRow) -> bool:
        """Whether this session was made by the caller here."""
        return row.owner == caller.principal.id

    def _may_name(self, caller: Caller, ref: str) -> bool:
        try:
            row = self._registry.row(LOCAL, ref)
        except (Gone, UnknownSession):
            return False
        return caller.trusted or self.is_users(caller, row)


def ref_of(session: Session) -> str:
    """What its user calls a session: its own id, where it was not made here."""
    given = session.state.settings.get(REF)
    return given if isinstance(given, str) else session.id

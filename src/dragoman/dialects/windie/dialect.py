"""The windie dialect as the server mounts it: the agent channel ``/ws``, and ``/api/...`` beside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Container
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from starlette.types import ASGIApp

from dragoman.dialects.base import Upgrade, Wire
from dragoman.dialects.frame_cache import FrameCache
from dragoman.hub.previews import Previews
from dragoman.hub.providers import Providers
from dragoman.hub.registry import Registry
from dragoman.hub.tasks import TaskOwner
from dragoman.services.artifacts import OwnedArtifacts
from dragoman.services.installs import Access, Installs, InstallsUnavailable, InvalidToken, MissingToken
from dragoman.services.runs import Runs
from dragoman.services.user_settings import UserSettings

from .callers import Caller
from .conversations import Conversations
from .denials import Denials
from .following import Frames
from .host import Host
from .link import WindieLink
from .routes import make_routes
from .settings import WindieSettings
from .users import User

T = TypeVar("T")

ROOM = 2
"""How many times as long as its limit a message may be before the socket itself refuses it; less is answered."""


class WindieDialect:
    """``folder`` is the server's workplace; the services are opened and closed by who made them.

    ``makes_sessions``: a conversation that is not there is made. ``search_problem`` says why the web cannot be searched
    now, or None.
    """

    name = "windie"
    websocket = "/ws"
    more_websockets: Container[str] = ()

    def __init__(
        self,
        registry: Registry,
        *,
        settings: WindieSettings,
        access: Access,
        installs: Installs,
        artifacts: OwnedArtifacts,
        runs: Runs,
        users: UserSettings,
        providers: Providers,
        previews: Previews,
        folder: Path,
        makes_sessions: bool = True,
        search_problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.settings = settings
        self.message_limit = ROOM * settings.handshake_limit
        self.tasks = TaskOwner("windie")
        self.closing = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="windie")
        self.frames: Frames = FrameCache(settings.shared_frames, settings.shared_bytes)
        self.host = Host(
            registry=registry,
            settings=settings,
            clock=registry.clock,
            folder=folder,
            access=access,
            installs=installs,
            artifacts=artifacts,
            runs=runs,
            users=users,
            providers=providers,
            previews=previews,
            conversations=Conversations(registry, settings, folder, makes_sessions=makes_sessions),
            revoked=self._revoked,
            search_problem=search_problem,
        )
        self.http: ASGIApp = make_routes(self.host)
        self._users: dict[Caller, User] = {}
        self._denials = Denials(registry, self.tasks, settings.decision_seconds)

    async def open(self, upgrade: Upgrade, wire: Wire) -> WindieLink:
        """Every upgrade is taken: who it is, the handshake says, and a token is looked at after it (spec §2)."""
        shown = upgrade.bearer if upgrade.bearer is not None else upgrade.query.get("token")
        # What comes right behind a handshake is measured before that was read.
        with contextlib.suppress(MissingToken, InvalidToken, InstallsUnavailable):
            await self.host.access.identify(shown)
            wire.set_message_limit(ROOM * self.settings.message_limit)
        return WindieLink(self, shown, wire)

    async def close(self, budget: float) -> None:
        self.closing = True
        self._denials.close()
        await self.tasks.close(budget)
        self._thread.shutdown(wait=False)

    # For links

    def user(self, caller: Caller) -> User:
        """What is shared by the links of this caller, made for the first one."""
        user = self._users.get(caller)
        if user is None:
            user = self._users[caller] = User(caller, self.host, self.tasks, ended=self._ended)
        return user

    async def aside(self, work: Callable[[], T]) -> T:
        """Take a large message apart in a thread, one at a time: more would neither be quicker nor leave others more
        turns, and each thread keeps the memory that its largest one took."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # Inside

    def _ended(self, user: User) -> None:
        if self._users.get(user.caller) is user:
            del self._users[user.caller]

    def _revoked(self, install_id: str) -> None:
        for user in list(self._users.values()):
            if user.caller.install_id == install_id:
                for link in list(user.links.values()):
                    link.revoked()

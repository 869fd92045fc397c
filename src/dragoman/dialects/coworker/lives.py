"""Sessions that coworker links made, and when they end: with their last view (seed: Session = connection)."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from dragoman.hub.errors import Gone, HubError, UnknownSession
from dragoman.hub.permissions import LOCAL
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.hub.tasks import TaskOwner

log = logging.getLogger("dragoman.links")

DISPOSED = "websocket closed"
"""Why such a session was closed."""

OF_LINKS = "ends_with_links"
"""Setting of a session that a link made: by it the next server knows those that a lost one left open."""

LOOK_AGAIN = 5.0
"""Seconds between two looks at whether anybody else still views a session whose own links are gone."""


class _Life(msgspec.Struct):
    """One session that a link made. ``grace`` is how many seconds it outlives its links."""

    session: Session
    grace: float
    links: int = 0
    ending: asyncio.TimerHandle | None = None


class Lives:
    """See the module. Sessions that were made elsewhere are none of its business.

    Links of a server before this one are gone with it, but one that resumes may come back: what they made has ``grace``
    seconds for that.
    """

    def __init__(self, tasks: TaskOwner, *, grace: float) -> None:
        self._tasks = tasks
        self._grace = grace
        self._lives: dict[str, _Life] = {}

    def made(self, session: Session) -> None:
        """A link made this session."""
        self._lives[session.id] = _Life(session, 0.0)

    def joined(self, session: Session, grace: float) -> None:
        """A link views it; one that may come back asks for ``grace`` seconds."""
        life = self._lives.get(session.id)
        if life is None and _of_links(session):
            life = self._lives[session.id] = _Life(session, self._grace)
        if life is not None:
            life.links += 1
            life.grace = max(life.grace, grace)
            self._stay(life)

    def wants(self, session: Session, grace: float) -> None:
        """A link that views it may come back after all."""
        life = self._lives.get(session.id)
        if life is not None:
            life.grace = max(life.grace, grace)

    def left(self, session: Session) -> None:
        """A link is gone."""
        life = self._lives.get(session.id)
        if life is None:
            return
        life.links -= 1
        if life.links == 0:
            self._end_later(life, life.grace)

    async def end_left_open(self, registry: Registry) -> None:
        """Wait, then end what a lost server left open, unless somebody has come back to it.

        One after the other, and nothing is looked at before its time: there may be thousands, and they are loaded for
        it, which costs the start of a server nothing and its memory little.
        """
        left = [row.session for row in registry.rows(LOCAL) if row.kind == "native" and row.status != "closed"]
        await asyncio.sleep(self._grace)
        for name in left:
            if name in self._lives:
                continue
            try:
                session = await registry.get(LOCAL, name)
            except (Gone, UnknownSession):
                continue
            except HubError as problem:
                log.warning("session %s is left open: %s", name, problem)
                continue
            if name not in self._lives and _of_links(session):
                await self._end_left(session)

    async def _end_left(self, session: Session) -> None:
        if session.watched:
            life = self._lives[session.id] = _Life(session, self._grace)
            self._end_later(life, LOOK_AGAIN)
        else:
            await _close(session)

    async def close(self, budget: float) -> None:
        """The server stops: what no link may come back to is over."""
        ending = [life for life in self._lives.values() if life.grace <= 0]
        for life in self._lives.values():
            self._stay(life)
        self._lives.clear()
        if ending:
            tasks = [self._tasks.start(_close(life.session, budget), "end") for life in ending]
            await asyncio.wait(tasks, timeout=budget)

    def _stay(self, life: _Life) -> None:
        if life.ending is not None:
            life.ending.cancel()
            life.ending = None

    def _end_later(self, life: _Life, seconds: float) -> None:
        life.ending = asyncio.get_running_loop().call_later(seconds, self._end, life)

    def _end(self, life: _Life) -> None:
        life.ending = None
        if life.session.watched:
            self._end_later(life, LOOK_AGAIN)
            return
        self._lives.pop(life.session.id, None)
        self._tasks.start(_close(life.session), f"end:{life.session.id}")


def _of_links(session: Session) -> bool:
    return session.state.closed is None and session.state.settings.get(OF_LINKS) is True


async def _close(session: Session, budget: float = 2.0) -> None:
    try:
        await session.close(DISPOSED, budget=budget)
    except HubError as problem:
        log.warning("session %s could not be closed: %s", session.id, problem)

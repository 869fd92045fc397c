"""Sessions that coworker links made, and when they end: with their last view (seed: Session = connection)."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from dragoman.hub.errors import HubError
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
    """See the module. Sessions that were made elsewhere are none of its business."""

    def __init__(self, tasks: TaskOwner) -> None:
        self._tasks = tasks
        self._lives: dict[str, _Life] = {}

    def made(self, session: Session) -> None:
        """A link made this session."""
        self._lives[session.id] = _Life(session, 0.0)

    def left_open(self, session: Session, grace: float) -> None:
        """Links of a server before this one made it: in ``grace`` seconds it ends, unless somebody comes back to it."""
        if session.id not in self._lives:
            life = self._lives[session.id] = _Life(session, grace)
            self._end_later(life, grace)

    def joined(self, session: Session, grace: float) -> None:
        """A link views it; one that may come back asks for ``grace`` seconds."""
        life = self._lives.get(session.id)
        if life is not None:
            life.links += 1
            life.grace = max(life.grace, grace)
            self._stay(life)

    def wants(self, session: Session, grace: float) -> None:
        """A link that views it may come back after all."""
        life = self._lives.get(session.id)
        if life is not None:
            life.grace = max(life.grace, grace)

    def forsaken(self, session: Session) -> None:
        """A link to it has not come about: if no other views it, it ends as if that one had left."""
        life = self._lives.get(session.id)
        if life is not None and life.links == 0 and life.ending is None:
            self._end_later(life, life.grace)

    def left(self, session: Session) -> None:
        """A link is gone."""
        life = self._lives.get(session.id)
        if life is None:
            return
        life.links -= 1
        if life.links == 0:
            self._end_later(life, life.grace)

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


async def _close(session: Session, budget: float = 2.0) -> None:
    try:
        await session.close(DISPOSED, budget=budget)
    except HubError as problem:
        log.warning("session %s could not be closed: %s", session.id, problem)

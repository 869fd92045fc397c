"""What the links of one user share: they see the same conversations, and when the last one is gone the turns end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.hub.errors import HubError
from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.tasks import TaskOwner

from .callers import Caller
from .conversations import DIALECT
from .host import Host
from .lanes import Lanes

if TYPE_CHECKING:
    from .link import WindieLink

log = logging.getLogger("dragoman.windie")


class User:
    """Made with the first link of a caller, ``ended`` after the last one, once their turns are.

    ``lanes`` are the queries that wait or run, by conversation.
    """

    def __init__(self, caller: Caller, host: Host, tasks: TaskOwner, *, ended: Callable[[User], None]) -> None:
        self.caller = caller
        self.links: dict[str, WindieLink] = {}
        self.lanes = Lanes()
        self._host = host
        self._tasks = tasks
        self._ended = ended
        self._ending: asyncio.Task[None] | None = None
        self._left: dict[str, Session] = {}
        """What links that are gone were told of, and is under way."""
        self._heads: dict[str, int] = {}
        """The user's own sessions that no link follows, each with its newest event when that was so last."""
        self._stop = host.registry.watch(self._changed)
        for row in host.registry.rows(LOCAL):
            if host.conversations.is_users(caller, row):
                self._note(row)

    # Links

    def join(self, link: WindieLink) -> None:
        """One more link: it is told of whatever runs now, from the turn's beginning."""
        self.links[link.id] = link
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        for row in self._host.registry.rows(LOCAL):
            if row.unsettled and self._host.conversations.is_users(self.caller, row):
                self._tasks.start(self._show(row.session, None), "show")

    def leave(self, link: WindieLink) -> None:
        """The link is gone; with the last one the user's turns end, after ``linger_seconds``."""
        self.links.pop(link.id, None)
        seen = (*self._left.values(), *link.sessions())
        self._left = {session.id: session for session in seen if session.state.unsettled}
        if not self.links:
            self._ending = self._tasks.start(self._end(), "end")

    def released(self, session: Session, cursor: int) -> None:
        """A link follows this conversation no more."""
        if session.state.owner == self.caller.principal.id:
            self._heads[session.id] = cursor

    # Inside

    async def _end(self) -> None:
        await asyncio.sleep(self._host.settings.linger_seconds)
        for session in self._left.values():
            await self._cancel(session)
        self._stop()
        self._ended(self)

    async def _cancel(self, session: Session) -> None:
        """End what this user has begun here and what they wait for: nobody is left who would hear of it."""
        principal = self.caller.for_session(session.id)
        try:
            for waiting in list(session.state.queue):
                if (waiting.via, waiting.by) == (DIALECT, principal.id):
                    await session.withdraw(principal, waiting.prompt)
            turn = session.state.turn
            prompt = turn.submitted if turn is not None else None
            if turn is not None and prompt is not None and (prompt.via, prompt.by) == (DIALECT, principal.id):
                await session.cancel(principal, turn.turn, via=DIALECT)
        except HubError as problem:
            log.info("a turn of session %s could not be ended with its user's last link: %s", session.id, problem)

    def _changed(self, row: SessionRow) -> None:
        if not self.links or not self._host.conversations.is_users(self.caller, row):
            return
        if all(link.follows(row.session) for link in self.links.values()):
            self._heads.pop(row.session, None)
            return
        since = self._note(row)
        if row.unsettled and row.dropped_at is None:
            self._tasks.start(self._show(row.session, since), "show")

    def _note(self, row: SessionRow) -> int | None:
        """Where the session stood when it was at rest last; then, if it is so now, that it stands here."""
        since = self._heads.get(row.session)
        if row.dropped_at is not None:
            self._heads.pop(row.session, None)
        elif not row.unsettled:
            self._heads[row.session] = row.head
        return since

    async def _show(self, name: str, since: int | None) -> None:
        """Let all links follow it, from ``since`` or its open turn on."""
        try:
            session = await self._host.registry.get(LOCAL, name)
        except HubError:
            return  # it went meanwhile
        for link in self.links.values():
            link.follow(session, since)

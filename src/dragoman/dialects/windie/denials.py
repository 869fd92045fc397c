"""Decisions of turns that were begun here: nobody can take them in this protocol, so they do not wait for ever.

Whoever watches with another client has ``decision_seconds`` to answer. Then it is a denial.
"""

from __future__ import annotations

import asyncio
import logging

from dragoman.hub.errors import HubError
from dragoman.hub.events import Answer, DecisionOpened
from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import LOCAL
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.hub.tasks import TaskOwner

from .conversations import DIALECT

log = logging.getLogger("dragoman.windie")

TOO_LATE = "nobody answered in time"


class Denials:
    """Of all sessions of a server; one task for each in which something is asked.

    It looks at rows first: a witness of the hub would make every session one that somebody attends, and hooked agents
    would wait for an answer from nobody.
    """

    def __init__(self, registry: Registry, tasks: TaskOwner, seconds: float) -> None:
        self._registry = registry
        self._tasks = tasks
        self._seconds = seconds
        self._looked_after: set[str] = set()
        self._stop = registry.watch(self._changed)

    def close(self) -> None:
        """Look at no more sessions."""
        self._stop()

    def _changed(self, row: SessionRow) -> None:
        if row.asks is not None and row.dropped_at is None and row.session not in self._looked_after:
            self._looked_after.add(row.session)
            self._tasks.start(self._look_after(row.session), "denials")

    async def _look_after(self, name: str) -> None:
        try:
            session = await self._registry.get(LOCAL, name)
            await self._until_answered(session)
        except HubError as problem:
            log.info("the decisions of session %s are not looked after: %s", name, problem)
        finally:
            self._looked_after.discard(name)

    async def _until_answered(self, session: Session) -> None:
        """Deny what is open for too long, as long as a turn from here asks."""
        loop, changed, ends = asyncio.get_running_loop(), asyncio.Event(), dict[str, float]()
        stop = session.watch(changed.set)
        try:
            while opened := _asked(session):
                now = loop.time()
                ends = {it.decision: ends.get(it.decision, now + self._seconds) for it in opened}
                for it in opened:
                    if ends[it.decision] <= now:
                        ends[it.decision] = await self._denied(session, it)
                changed.clear()
                await _first(changed, min(ends.values()) - loop.time())
        finally:
            stop()

    async def _denied(self, session: Session, opened: DecisionOpened) -> float:
        """When to look at it again, if it is open by then."""
        log.info("decision %s of session %s is denied: %s", opened.decision, session.id, TOO_LATE)
        try:
            if opened.kind == "permission":
                answer = Answer(accept=False, text=TOO_LATE)
                await session.answer(LOCAL, opened.decision, answer, via=DIALECT)
            else:
                session.cancel_decision(opened.decision, TOO_LATE)
        except HubError as problem:
            log.info("decision %s of session %s: %s", opened.decision, session.id, problem)
        return asyncio.get_running_loop().time() + self._seconds


async def _first(changed: asyncio.Event, seconds: float) -> None:
    """Wait for a change, or so long."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await changed.wait()
    except TimeoutError:
        return


def _asked(session: Session) -> list[DecisionOpened]:
    """The open decisions of a turn whose prompt came here."""
    turn = session.state.turn
    if turn is None or turn.submitted is None or turn.submitted.via != DIALECT:
        return []
    return [opened for opened in session.state.decisions.values() if opened.turn in (None, turn.turn)]

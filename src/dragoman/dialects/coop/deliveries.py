"""``nudge`` and ``respond``: text and answers for an agent whose TUI is known, the same for WebSocket and HTTP.

Each returns its result; what the seed answers with an error is raised as the hub's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from dragoman.hub.errors import (
    AlreadyResolved,
    AnsweredAlready,
    Busy,
    InputRefused,
    InvalidAnswer,
    NotReady,
    UnknownDecision,
    Unsupported,
)
from dragoman.hub.events import DecisionRevised, Event
from dragoman.hub.permissions import Principal
from dragoman.hub.ports import Driver
from dragoman.hub.session import Session
from dragoman.hub.state import SessionState
from dragoman.hub.turns import Receipt

from . import messages as wire
from .binding import Asked
from .prompts import Said, as_answer

AT_REST = ("idle", "error")
"""States in which an agent takes a nudge: after a failure it stands at its input box."""

TURN_END = 1.5
"""Seconds that the turn of an agent which is at rest may take to end."""

VIA = "coop"
"""How this dialect names itself in the log."""


def is_ready(state: SessionState) -> bool:
    """True from the first state after ``starting`` on, for good."""
    return state.status.seq > 0


async def nudge(
    session: Session, principal: Principal, message: str, *, limit: float, client_message_id: str | None = None
) -> wire.NudgeResult:
    """Seed: ``nudge``. Raises ``NotReady``, ``Unsupported`` (no driver), and what ``submit`` raises.

    With a client message id it can be sent again: the repeat has the outcome of the first one, whatever the agent does.
    """
    driver = _driver(session)
    before = session.state.status.state
    if before not in AT_REST and not (
        client_message_id is not None and await session.accepted(principal, client_message_id, via=VIA)
    ):
        return wire.NudgeResult(delivered=False, state_before=before, reason=f"agent is {before}")

    async def submit() -> Receipt:
        return await session.submit(
            principal, message, via=VIA, client_message_id=client_message_id, when_busy="refuse"
        )

    try:
        try:
            receipt = await submit()
        except Busy:
            if not await _ends_now(session):
                raise
            receipt = await submit()
    except Busy:
        now = session.state.status.state
        now = now if now in ("working", "prompt") else "working"
        return wire.NudgeResult(delivered=False, state_before=now, reason=f"agent is {now}")
    except InputRefused as problem:
        return wire.NudgeResult(delivered=False, state_before=before, reason=str(problem))
    reason = await _within(limit, driver.taken(receipt.prompt))
    return wire.NudgeResult(
        delivered=reason is None, state_before=before if before in AT_REST else "idle", reason=reason
    )


async def _ends_now(session: Session) -> bool:
    """Whether an open turn, whose agent is at rest again, ends while it is at rest: its last facts are on their way."""
    changed = asyncio.Event()
    stop = session.watch(changed.set)
    try:
        async with asyncio.timeout(TURN_END):
            while session.state.turn is not None and session.state.status.state in AT_REST:
                changed.clear()
                await changed.wait()
    except TimeoutError:
        return False
    finally:
        stop()
    return session.state.turn is None


async def respond(
    session: Session, principal: Principal, asked: Asked | None, said: Said, *, limit: float
) -> tuple[wire.RespondResult, Asked | None]:
    """Seed: ``respond``, to what the client was ``asked``; also returns what it knows to be asked after the result.

    Raises ``NotReady``, ``Unsupported`` (no driver), and what ``answer`` raises but does not mean for the client.
    """
    driver = _driver(session)
    if asked is None:
        return wire.RespondResult(delivered=False, prompt_type=None, reason="no prompt active"), None
    try:
        event = await _answer(session, principal, asked, said)
    except AlreadyResolved as problem:
        return _refused(asked, f"the prompt is already {problem.outcome}"), None
    except UnknownDecision:
        return _refused(asked, "the prompt is gone"), None
    except (AnsweredAlready, InvalidAnswer, InputRefused) as problem:
        return _refused(asked, str(problem)), asked
    reason = await _within(limit, driver.carried_out(asked.decision))
    result = wire.RespondResult(delivered=reason is None, prompt_type=asked.type, reason=reason)
    fact = event.fact
    if isinstance(fact, DecisionRevised) and fact.question_current is not None:
        return result, asked._replace(question=fact.question_current)
    return result, None


async def _answer(session: Session, principal: Principal, asked: Asked, said: Said) -> Event:
    opened = session.state.decisions.get(asked.decision)
    if opened is None:
        raise await session.no_longer_open(asked.decision)
    question = asked.question if opened.questions else None
    return await session.answer(principal, asked.decision, as_answer(opened, said), via=VIA, question=question)


def _refused(asked: Asked, reason: str) -> wire.RespondResult:
    return wire.RespondResult(delivered=False, prompt_type=asked.type, reason=reason)


def _driver(session: Session) -> Driver:
    if not is_ready(session.shown):
        raise NotReady
    driver = session.driver
    if driver is None:
        raise Unsupported("no agent driver configured")
    return driver


async def _within(limit: float, outcome: Awaitable[str | None]) -> str | None:
    """The driver's word, or that it has none in time: it has limits of its own, this one is for when they fail."""
    try:
        async with asyncio.timeout(limit):
            return await outcome
    except TimeoutError:
        return f"the agent was not seen to take it within {limit:g} s"

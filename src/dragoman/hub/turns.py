"""Running turns: one at a time in a session, cancellable, with a true end in every case (invariants 6 and 9)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from .events import (
    Answer,
    AnyFact,
    DecisionOpened,
    DecisionResolved,
    Outcome,
    Problem,
    PromptSubmitted,
    PromptTaken,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)

if TYPE_CHECKING:
    from .session import Session
    from .state import SessionState

log = logging.getLogger("dragoman.turns")


class TurnFailed(Exception):
    """Raised by an agent to fail its turn with a problem that clients may see."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class TurnContext:
    """What an agent holds while it runs one turn: its prompt, and the only ways to report and to ask."""

    def __init__(self, session: Session, turn: str, prompt: PromptSubmitted) -> None:
        self.session = session
        self.turn = turn
        self.prompt = prompt

    def record(self, fact: AnyFact) -> None:
        """Append a fact to the session's log."""
        self.session.record(fact)

    async def recorded(self) -> None:
        """Wait until everything recorded so far is durable. An agent that produces fast calls it now and then."""
        await self.session.durable(self.session.head)

    async def decide(self, opened: DecisionOpened) -> Answer:
        """Open a decision and wait for its answer. Raises ``DecisionClosed`` when it ends without one."""
        return await self.session.decide(opened)

    def take_steering(self) -> list[PromptSubmitted]:
        """Prompts that came in for this turn since the last call; taking them is recorded."""
        taken = [prompt for prompt in self.session.state.queue if prompt.steer]
        for prompt in taken:
            self.record(PromptTaken(prompt=prompt.prompt, turn=self.turn))
        return taken


class TurnRunner:
    """Starts the turns of one session one after the other and records how each one ended."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None

    def start_next(self) -> str | None:
        """Start a turn with the first waiting prompt, if none runs; returns its id."""
        session = self._session
        if session.state.turn is not None or session.closing or not session.state.queue:
            return None
        prompt, turn = session.state.queue[0], session.ids()
        started = session.record(TurnStarted(turn=turn, prompt=prompt.prompt))
        self._task = session.tasks.start(self._run(turn, prompt, started.seq), f"turn:{turn}")
        return turn

    def cancel(self) -> None:
        """Ask the turn to end. What follows is recorded by the turn itself."""
        if self._task is not None:
            self._task.cancel()

    async def stopped(self, budget: float | None = None) -> None:
        """Wait until the turn that runs has ended; ``budget`` seconds at most."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=budget)

    async def _run(self, turn: str, prompt: PromptSubmitted, seq: int) -> None:
        session = self._session
        began = session.clock.monotonic()
        outcome: Outcome = "completed"
        result: str | None = None
        problem: Problem | None = None
        try:
            await session.durable(seq)
            agent = session.ensure_agent()
            result = await agent.run_turn(TurnContext(session, turn, prompt))
        except asyncio.CancelledError:
            cancelled = session.state.turn is not None and session.state.turn.cancelling
            outcome = "cancelled" if cancelled else "interrupted"
        except TurnFailed as failure:
            outcome, problem = "failed", failure.problem
        except Exception:
            log.exception("turn %s of session %s failed", turn, session.id)
            outcome, problem = "failed", Problem(code="internal", message="the agent failed unexpectedly")
        for fact in settle_turn(session.state, reason=outcome):
            session.record(fact, settling=True)
        duration = round((session.clock.monotonic() - began) * 1000)
        ended = TurnEnded(turn=turn, outcome=outcome, result=result, problem=problem, duration_ms=duration)
        session.record(ended, settling=True)
        self._task = None
        self.start_next()


def settle_turn(state: SessionState, *, reason: str) -> list[AnyFact]:
    """The facts that close what the open turn leaves behind: its decisions, then its dangling tool calls."""
    turn = state.turn.turn if state.turn is not None else None
    decisions: list[AnyFact] = [
        DecisionResolved(decision=opened.decision, outcome="cancelled", reason=reason)
        for opened in state.decisions.values()
        if turn is not None and opened.turn == turn
    ]
    problem = Problem(code="interrupted", message=f"the turn was {reason}")
    calls: list[AnyFact] = [
        ToolEnded(call=open_.call, tool=open_.tool, status="interrupted", turn=open_.turn, problem=problem)
        for open_ in state.calls.values()
        if open_.turn == turn
    ]
    return decisions + calls


class Receipt(msgspec.Struct, frozen=True):
    """What became of a submission. ``disposition``: ``started``, ``queued`` or ``steering``.

    ``duplicate`` is true when the same client message id was accepted before: nothing new was recorded.
    """

    prompt: str
    seq: int
    disposition: str
    turn: str | None = None
    duplicate: bool = False

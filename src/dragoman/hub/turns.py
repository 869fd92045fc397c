"""Running turns: one at a time in a session, cancellable, with a true end in every case (invariants 6 and 9)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from .errors import InvalidRequest, UnknownTurn
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
    TurnSettled,
    TurnStarted,
)
from .ports import ReadsAhead

if TYPE_CHECKING:
    from .session import Session
    from .state import SessionState

log = logging.getLogger("dragoman.turns")


class TurnFailed(Exception):
    """Raised by an agent to fail its turn with a problem that clients may see."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class TurnBrokenOff(Exception):
    """Raised by an agent whose turn a person ended at the agent's own terminal: it is ``cancelled``."""


class TurnContext:
    """What an agent holds while it runs one turn: its prompt, and the only ways to report and to ask."""

    def __init__(self, session: Session, turn: str, prompt: PromptSubmitted) -> None:
        self.session = session
        self.turn = turn
        self.prompt = prompt

    def record(self, fact: AnyFact) -> None:
        """Append a fact to the session's log. Raises ``UnknownTurn`` once the turn is over for everyone else."""
        open_ = self.session.state.turn
        if open_ is None or open_.turn != self.turn:
            raise UnknownTurn(self.turn)
        self.session.record(fact)

    async def recorded(self, *, but: int = 0) -> None:
        """Wait until everything recorded so far is durable, ``but`` for so many of the newest events.

        An agent that produces fast calls it now and then, with some left: so it need not stand still for the disk.
        """
        await self.session.durable(self.session.head - but)

    async def decide(self, opened: DecisionOpened) -> Answer:
        """Open a decision and wait for its answer. Raises ``DecisionClosed`` when it ends without one."""
        return await self.session.decide(opened)

    def take_steering(self) -> list[PromptSubmitted]:
        """Prompts that came in for this turn since the last call; taking them is recorded.

        Only durable ones: what a crash could still take back must not have been acted on (invariant 3).
        """
        durable = {prompt.prompt for prompt in self.session.shown.queue}
        taken = [prompt for prompt in self.session.state.queue if prompt.steer and prompt.prompt in durable]
        for prompt in taken:
            self.record(PromptTaken(prompt=prompt.prompt, turn=self.turn))
        return taken


class _End(msgspec.Struct, frozen=True):
    """How a turn came out."""

    outcome: Outcome
    result: str | None = None
    problem: Problem | None = None


_UNEXPECTED = _End("failed", problem=Problem(code="internal", message="the agent failed unexpectedly"))


class _Running(msgspec.Struct, frozen=True):
    """The turn that runs now. ``over`` resolves once its end is recorded."""

    turn: str
    began: float
    task: asyncio.Task[_End]
    over: asyncio.Future[None]


class _Saving(msgspec.Struct, frozen=True):
    """The workspace is being saved as a turn left it, whose end is known already."""

    task: asyncio.Task[None]
    end: _End


class TurnRunner:
    """Starts the turns of one session one after the other and records how each one ended."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._running: _Running | None = None
        self._saving: _Saving | None = None

    @property
    def running(self) -> bool:
        return self._running is not None

    def start_next(self) -> str | None:
        """Start a turn with the first waiting prompt, if none runs; returns its id."""
        session, state = self._session, self._session.state
        if state.turn is not None or session.closing or state.closed is not None or not state.queue:
            return None
        prompt, turn = state.queue[0], session.ids()
        # Taken by a full journal too: nothing else would ever start what waits. The turn itself waits for the disk.
        started = session.record(TurnStarted(turn=turn, prompt=prompt.prompt), settling=True)
        task = session.tasks.start(self._run(turn, prompt, started.seq), f"turn:{turn}")
        over = asyncio.get_running_loop().create_future()
        self._running = _Running(turn, session.clock.monotonic(), task, over)
        # Not the task's own last words: one that is cancelled before its first step never speaks.
        task.add_done_callback(self._task_ended)
        return turn

    def cancel(self) -> None:
        """Ask the turn to end. What follows is recorded when it has."""
        if self._running is not None:
            self._running.task.cancel()

    async def stopped(self, budget: float | None = None) -> None:
        """Wait until the end of the turn that runs is recorded; ``budget`` seconds at most."""
        if self._running is not None:
            await asyncio.wait({self._running.over}, timeout=budget)

    def abandon(self) -> None:
        """Record the end of a turn whose agent does not let itself be stopped; nothing it reports later counts.

        One that is over, and whose workspace is still being saved, came out as it did.
        """
        if self._running is None:
            return
        if self._saving is not None:
            self._saving.task.cancel()
            self._end(self._running, self._saving.end)
            return
        log.warning("turn %s of session %s does not stop", self._running.turn, self._session.id)
        self._end(self._running, _End("interrupted"))

    async def _run(self, turn: str, prompt: PromptSubmitted, seq: int) -> _End:
        session = self._session
        try:
            agent = session.ensure_agent()
            if isinstance(agent, ReadsAhead):
                agent.read_ahead()
            await session.durable(seq)
            if session.recovering is not None:
                # What a lost server left running is ended first: it is told from what this turn starts by time alone.
                await asyncio.wait({session.recovering})
            await session.workspace_ready()
            return _End("completed", result=await agent.run_turn(TurnContext(session, turn, prompt)))
        except TurnFailed as failure:
            return _End("failed", problem=failure.problem)
        except TurnBrokenOff:
            return _End("cancelled")
        except Exception:
            log.exception("turn %s of session %s failed", turn, session.id)
            return _UNEXPECTED

    def _task_ended(self, task: asyncio.Task[_End]) -> None:
        running = self._running
        if running is None or running.task is not task:
            return  # abandoned
        if task.cancelled():
            end = self._cancelled(task)
        elif task.exception() is not None:  # a panic of a foreign library: its owner logs it
            end = _UNEXPECTED
        else:
            end = task.result()
        if self._session.wants_checkpoints:
            self._save(running, end)
        else:
            self._finish(running, end)

    def _save(self, running: _Running, end: _End) -> None:
        """The turn is over, and nothing of it runs. Its session is busy until what it left is saved."""
        self._settle(end)
        try:
            self._session.record(_settled(running.turn, end), settling=True)
        except InvalidRequest:
            log.exception("turn %s of session %s ended with what no disk can hold", running.turn, self._session.id)
            end = _UNEXPECTED
            self._session.record(_settled(running.turn, end), settling=True)
        task = self._session.tasks.start(self._session.checkpoint_turn(), f"checkpoint:{running.turn}")
        self._saving = _Saving(task, end)
        task.add_done_callback(lambda _: self._finish(running, end))

    def _finish(self, running: _Running, end: _End) -> None:
        if self._running is running:
            self._end(running, end)
            self.start_next()

    def _cancelled(self, task: asyncio.Task[_End]) -> _End:
        """Cancelled by a command, by the end of the server, or by the agent's own mistake."""
        turn = self._session.state.turn
        if turn is not None and turn.cancelling:
            return _End("cancelled")
        return _End("interrupted") if task.cancelling() else _UNEXPECTED

    def _end(self, running: _Running, end: _End) -> None:
        session = self._session
        self._running = self._saving = None
        try:
            self._settle(end)
            duration = round((session.clock.monotonic() - running.began) * 1000)
            self._record_end(running.turn, end, duration)
        finally:
            if not running.over.done():
                running.over.set_result(None)

    def _settle(self, end: _End) -> None:
        session = self._session
        for fact in settle_turn(session.state, reason=end.outcome, now=session.clock.now()):
            session.record(fact, settling=True)

    def _record_end(self, turn: str, end: _End, duration: int) -> None:
        ended = TurnEnded(turn=turn, outcome=end.outcome, result=end.result, problem=end.problem, duration_ms=duration)
        try:
            self._session.record(ended, settling=True)
        except InvalidRequest:
            # What the agent said cannot be written down. That the turn is over can.
            log.exception("turn %s of session %s ended with what no disk can hold", turn, self._session.id)
            ended = msgspec.structs.replace(ended, outcome="failed", result=None, problem=_UNEXPECTED.problem)
            self._session.record(ended, settling=True)


def _settled(turn: str, end: _End) -> TurnSettled:
    return TurnSettled(turn=turn, outcome=end.outcome, problem=end.problem)


def settle_turn(state: SessionState, *, reason: str, now: int) -> list[AnyFact]:
    """The facts that close what the open turn leaves behind at ``now``: its decisions, then its dangling calls."""
    if state.turn is None:
        return []
    turn = state.turn.turn
    decisions: list[AnyFact] = [
        DecisionResolved(decision=opened.decision, outcome="cancelled", reason=reason)
        for opened in state.decisions.values()
        if opened.turn == turn
    ]
    return decisions + [end for end in dangling_calls(state, f"the turn was {reason}", now=now) if end.turn == turn]


def dangling_calls(state: SessionState, why: str, *, now: int) -> list[ToolEnded]:
    """The one marked result of every call that will get no other. ``now`` is when it ended, in Unix milliseconds."""
    problem = Problem(code="interrupted", message=why)
    return [
        ToolEnded(
            call=open_.call,
            tool=open_.tool,
            status="interrupted",
            turn=open_.turn,
            problem=problem,
            duration_ms=max(0, now - open_.at),
        )
        for open_ in state.calls.values()
    ]


class Receipt(msgspec.Struct, frozen=True):
    """What became of a submission. ``disposition``: ``started``, ``queued`` or ``steering``.

    ``duplicate`` is true when the same client message id was accepted before: nothing new was recorded.
    """

    prompt: str
    seq: int
    disposition: str
    turn: str | None = None
    duplicate: bool = False

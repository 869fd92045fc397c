"""What sessions did, each thing told once it is over: the fold of their events that spans and figures are made of.

Nothing of what was said, asked or given is in it, and no more is kept than what is open in sessions now.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.hub.events import (
    DecisionOpened,
    DecisionOutcome,
    DecisionResolved,
    Event,
    Fact,
    Outcome,
    Problem,
    SessionClosed,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from dragoman.hub.events.tools import Executor, ToolStatus
from dragoman.hub.state import SessionState

USAGE_KEPT = 4096
"""Newest reports of tokens that are kept: one for the same message takes the place of an earlier one."""

TOKENS = ("input_tokens", "output_tokens", "reasoning_tokens", "cached_tokens")
"""What a report of tokens counts. Reasoning is part of the output, what was cached part of the input."""

Tokens = dict[str, int]
"""Tokens by their name in ``TOKENS``, those that are known."""


class Where(msgspec.Struct, frozen=True):
    """The session that something happened in."""

    session: str
    kind: str
    agent: str
    cwd: str


class Model(msgspec.Struct, frozen=True):
    """Who answered. None where nobody says."""

    provider: str | None = None
    model: str | None = None


class TurnBegan(msgspec.Struct, frozen=True, kw_only=True):
    """A turn began. Times are milliseconds since 1970, here and below."""

    where: Where
    turn: str
    model: Model
    began: int


class TurnDone(msgspec.Struct, frozen=True, kw_only=True):
    """A turn with its outcome; ``model`` is the last that answered, ``tokens`` those of all its model calls."""

    where: Where
    turn: str
    model: Model
    began: int
    ended: int
    outcome: Outcome
    problem: Problem | None
    tokens: Tokens


class ModelCallDone(msgspec.Struct, frozen=True, kw_only=True):
    """A model call (a step). ``finish`` is its reason to end: ``unfinished`` when the turn ended first."""

    where: Where
    turn: str
    step: int
    model: Model
    began: int
    ended: int
    finish: str
    problem: Problem | None
    tokens: Tokens


class ToolDone(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call with its result. ``parent`` is the call of the sub-agent that made it.

    ``own`` says that the name is one of ours, and not whatever a client, an MCP server, a program or a model came up
    with.
    """

    where: Where
    turn: str | None
    call: str
    parent: str | None
    tool: str
    own: bool
    executor: Executor
    began: int
    ended: int
    status: ToolStatus
    problem: Problem | None


class DecisionDone(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that was waited for."""

    where: Where
    turn: str | None
    call: str | None
    decision: str
    kind: str
    began: int
    ended: int
    outcome: DecisionOutcome


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and US dollars that were not told before."""

    where: Where
    model: Model
    tokens: Tokens
    cost: float


Activity = TurnBegan | TurnDone | ModelCallDone | ToolDone | DecisionDone | Spent

UNKNOWN_TOOL = "unknown"
"""A tool that a model called and that there is not: its name may be anything."""


class _Step(msgspec.Struct):
    model: Model
    began: int
    tokens: Tokens = {}


class _Turn(msgspec.Struct):
    turn: str
    model: Model
    began: int
    steps: dict[int, _Step] = {}
    tokens: Counter[str] = msgspec.field(default_factory=Counter)


class _Opened(msgspec.Struct, frozen=True):
    """A call or a decision that is open: what was said of it, when, and in which turn."""

    fact: ToolCalled | DecisionOpened
    turn: str | None
    at: int


class _Open(msgspec.Struct):
    """What is open in one session."""

    turn: _Turn | None = None
    calls: dict[str, _Opened] = {}
    decisions: dict[str, _Opened] = {}


class Activities:
    """See the module."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._usage: OrderedDict[tuple[str, str], UsageReported] = OrderedDict()
        self._folds: dict[type[Fact], Callable[[Where, _Open, SessionState, Any, int], list[Activity]]] = {
            TurnStarted: self._turn_started,
            TurnEnded: self._turn_ended,
            StepStarted: self._step_started,
            StepEnded: self._step_ended,
            ToolCalled: self._tool_called,
            ToolEnded: self._tool_ended,
            DecisionOpened: self._decision_opened,
            DecisionResolved: self._decision_resolved,
            UsageReported: self._usage_reported,
        }

    def take(self, state: SessionState, event: Event) -> list[Activity]:
        """What is over with this event of the session whose ``state`` it is."""
        if type(event.fact) is SessionClosed:
            self._open.pop(state.session, None)
            return []
        fold = self._folds.get(type(event.fact))
        if fold is None:
            return []
        open_ = self._open.get(state.session) or _Open()
        where = Where(state.session, state.kind, state.agent, state.cwd)
        told = fold(where, open_, state, event.fact, event.at)
        if open_.turn or open_.calls or open_.decisions:
            self._open[state.session] = open_
        else:
            self._open.pop(state.session, None)
        return told

    @property
    def turns_open(self) -> int:
        """Turns that run now."""
        return sum(open_.turn is not None for open_ in self._open.values())

    def decisions_open(self) -> Counter[str]:
        """Decisions that somebody must answer, by kind."""
        waiting = (opened.fact for open_ in self._open.values() for opened in open_.decisions.values())
        return Counter(fact.kind for fact in waiting if isinstance(fact, DecisionOpened))

    # Turns and steps

    def _turn_started(
        self, where: Where, open_: _Open, state: SessionState, fact: TurnStarted, at: int
    ) -> list[Activity]:
        model = Model(_text(state.settings.get("provider")), _text(state.settings.get("model")))
        open_.turn = _Turn(fact.turn, model, at)
        return [TurnBegan(where=where, turn=fact.turn, model=model, began=at)]

    def _turn_ended(self, where: Where, open_: _Open, _: SessionState, fact: TurnEnded, at: int) -> list[Activity]:
        turn = _turn_in(open_, fact.turn) or _Turn(fact.turn, Model(), at - (fact.duration_ms or 0))
        cut_off = [_step_done(where, turn, number, step, at, "unfinished") for number, step in turn.steps.items()]
        open_.turn = None
        done = TurnDone(
            where=where,
            turn=turn.turn,
            model=turn.model,
            began=turn.began,
            ended=at,
            outcome=fact.outcome,
            problem=fact.problem,
            tokens=dict(turn.tokens),
        )
        return [*cut_off, done]

    def _step_started(self, _: Where, open_: _Open, __: SessionState, fact: StepStarted, at: int) -> list[Activity]:
        turn = _turn_in(open_, fact.turn)
        if turn is not None:
            turn.model = Model(fact.provider or turn.model.provider, fact.model or turn.model.model)
            turn.steps[fact.step] = _Step(turn.model, at)
        return []

    def _step_ended(self, where: Where, open_: _Open, _: SessionState, fact: StepEnded, at: int) -> list[Activity]:
        turn = _turn_in(open_, fact.turn)
        step = turn.steps.pop(fact.step, None) if turn is not None else None
        if turn is None or step is None:
            return []
        return [_step_done(where, turn, fact.step, step, at, fact.finish_reason, fact.problem)]

    # Calls and decisions

    def _tool_called(self, _: Where, open_: _Open, __: SessionState, fact: ToolCalled, at: int) -> list[Activity]:
        # What it was given is of no use here, and may be large.
        kept = ToolCalled(
            call=fact.call,
            tool=UNKNOWN_TOOL if fact.dynamic and fact.invalid else fact.tool,
            executor=fact.executor,
            parent=fact.parent,
            dynamic=fact.dynamic,
        )
        open_.calls[fact.call] = _Opened(kept, fact.turn or _name(open_), at)
        return []

    def _tool_ended(self, where: Where, open_: _Open, _: SessionState, fact: ToolEnded, at: int) -> list[Activity]:
        opened = open_.calls.pop(fact.call, None)
        called = opened.fact if opened is not None else ToolCalled(call=fact.call, tool=fact.tool, executor="agent")
        assert isinstance(called, ToolCalled)
        done = ToolDone(
            where=where,
            turn=fact.turn or (opened.turn if opened is not None else _name(open_)),
            call=fact.call,
            parent=called.parent,
            tool=called.tool,
            own=called.executor == "server" and not called.dynamic,
            executor=called.executor,
            began=opened.at if opened is not None else at - (fact.duration_ms or 0),
            ended=at,
            status=fact.status,
            problem=fact.problem,
        )
        return [done]

    def _decision_opened(
        self, _: Where, open_: _Open, __: SessionState, fact: DecisionOpened, at: int
    ) -> list[Activity]:
        kept = DecisionOpened(decision=fact.decision, kind=fact.kind, text="", call=fact.call)
        open_.decisions[fact.decision] = _Opened(kept, fact.turn or _name(open_), at)
        return []

    def _decision_resolved(
        self, where: Where, open_: _Open, _: SessionState, fact: DecisionResolved, at: int
    ) -> list[Activity]:
        opened = open_.decisions.pop(fact.decision, None)
        if opened is None:  # opened before the server started
            return []
        asked = opened.fact
        assert isinstance(asked, DecisionOpened)
        done = DecisionDone(
            where=where,
            turn=opened.turn,
            call=asked.call,
            decision=fact.decision,
            kind=asked.kind,
            began=opened.at,
            ended=at,
            outcome=fact.outcome,
        )
        return [done]

    # Tokens

    def _usage_reported(
        self, where: Where, open_: _Open, state: SessionState, fact: UsageReported, _: int
    ) -> list[Activity]:
        tokens, cost = self._news(where.session, fact)
        turn = _turn_in(open_, fact.turn or _name(open_))
        step = turn.steps.get(fact.step) if turn is not None and fact.step is not None else None
        if turn is not None:
            turn.tokens.update(tokens)
        if step is not None:
            step.tokens = {**step.tokens, **_counted(fact)}
        model = step.model if step is not None else turn.model if turn is not None else Model()
        named = Model(model.provider or _text(state.settings.get("provider")), fact.model or model.model or None)
        return [Spent(where=where, model=named, tokens=tokens, cost=cost)]

    def _news(self, session: str, fact: UsageReported) -> tuple[Tokens, float]:
        """What this report adds to an earlier one for the same message."""
        before = self._usage.pop((session, fact.message), None)
        self._usage[session, fact.message] = fact
        if len(self._usage) > USAGE_KEPT:
            self._usage.popitem(last=False)
        now, then = _counted(fact), _counted(before) if before is not None else {}
        tokens = {name: count - then.get(name, 0) for name, count in now.items() if count > then.get(name, 0)}
        cost = (fact.cost_usd or 0.0) - (before.cost_usd or 0.0 if before is not None else 0.0)
        return tokens, max(0.0, cost)


def _counted(fact: UsageReported) -> Tokens:
    return {name: count for name in TOKENS if (count := getattr(fact, name)) is not None}


def _step_done(
    where: Where, turn: _Turn, number: int, step: _Step, at: int, finish: str, problem: Problem | None = None
) -> ModelCallDone:
    return ModelCallDone(
        where=where,
        turn=turn.turn,
        step=number,
        model=step.model,
        began=step.began,
        ended=at,
        finish=finish,
        problem=problem,
        tokens=step.tokens,
    )


def _turn_in(open_: _Open, turn: str | None) -> _Turn | None:
    """The open turn, if it is the one that is meant."""
    return open_.turn if open_.turn is not None and open_.turn.turn == turn else None


def _name(open_: _Open) -> str | None:
    return open_.turn.turn if open_.turn is not None else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def tag_of(kind: type[Fact]) -> str:
    """The name of a kind of fact, as it stands on disk."""
    return str(kind.__struct_config__.tag)

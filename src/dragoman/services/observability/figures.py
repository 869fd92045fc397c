"""What is counted of sessions: the fold of their activities to numbers that only grow, and how they are labelled.

A label takes few values: what somebody else may name (tools, models, agents) is told apart up to a limit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import msgspec

from .activity import Activity, DecisionDone, Model, ModelCallDone, Spent, ToolDone, TurnDone, Where

OTHER = "other"
"""What names beyond the limit count as."""

UNKNOWN = "unknown"
"""What nobody has named."""

LONGEST = 80
"""Characters of a label."""

FROM_MS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
FROM_TENTHS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
FROM_SECONDS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0)
"""Upper bounds, in seconds, of the classes that durations are counted in."""


Values = dict[tuple[str, ...], float]
"""A number for each combination of labels."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """A number for each combination of labels. ``grows`` tells a count from a level."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    grows: bool = True
    values: Values = msgspec.field(default_factory=dict)

    def add(self, amount: float, *labels: str) -> None:
        """Add to the number of these labels."""
        self.values[labels] = self.values.get(labels, 0) + amount


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """How many values lie in which class, for each combination of labels, and their sum."""

    name: str
    help: str
    bounds: tuple[float, ...]
    labels: tuple[str, ...] = ()
    counts: dict[tuple[str, ...], list[int]] = msgspec.field(default_factory=dict)
    sums: dict[tuple[str, ...], float] = msgspec.field(default_factory=dict)

    def observe(self, value: float, *labels: str, times: int = 1) -> None:
        """Count one value, or as many that are equal."""
        counts = self.counts.get(labels)
        if counts is None:
            counts = self.counts[labels] = [0] * (len(self.bounds) + 1)
        counts[bisect_left(self.bounds, value)] += times
        self.sums[labels] = self.sums.get(labels, 0.0) + value * times


Family = Counted | Distribution


class Names:
    """At most ``most`` different names; further ones are ``other``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, name: str | None) -> str:
        """The label for this name."""
        if not name:
            return UNKNOWN
        name = name[:LONGEST]
        if name not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(name)
        return name


class Figures:
    """See the module. ``most_names`` is the limit of each kind of name: others' tools never crowd out our own."""

    def __init__(self, *, most_names: int) -> None:
        self._tools = Names(most_names)
        self._own_tools = Names(most_names)
        self._models = Names(most_names)
        self._providers = Names(most_names)
        self._agents = Names(most_names)
        self._turns = Counted(name="dragoman_turns", help="Turns that ended.", labels=("kind", "agent", "outcome"))
        self._turn_seconds = Distribution(
            name="dragoman_turn_duration_seconds", help="How long turns took.", labels=("kind",), bounds=FROM_TENTHS
        )
        self._model_calls = Counted(
            name="dragoman_model_calls", help="Model calls that ended.", labels=("provider", "model", "outcome")
        )
        self._model_seconds = Distribution(
            name="dragoman_model_call_duration_seconds",
            help="How long model calls took.",
            labels=("provider",),
            bounds=FROM_TENTHS,
        )
        self._tool_calls = Counted(name="dragoman_tool_calls", help="Tool calls that ended.", labels=("tool", "status"))
        self._tool_seconds = Distribution(
            name="dragoman_tool_call_duration_seconds",
            help="How long tool calls took, waiting for a permission included.",
            labels=("tool",),
            bounds=FROM_TENTHS,
        )
        self._decisions = Counted(name="dragoman_decisions", help="Decisions that ended.", labels=("kind", "outcome"))
        self._decision_seconds = Distribution(
            name="dragoman_decision_wait_seconds",
            help="How long decisions were waited for.",
            labels=("kind",),
            bounds=FROM_SECONDS,
        )
        self._tokens = Counted(
            name="dragoman_tokens",
            help="Tokens by type; reasoning is part of output, cached part of input.",
            labels=("provider", "model", "type"),
        )
        self._cost = Counted(
            name="dragoman_cost_usd", help="Cost of model calls in US dollars.", labels=("provider", "model")
        )
        self._events = Counted(name="dragoman_events", help="Events recorded.", labels=("type",))
        self._latency = Distribution(
            name="dragoman_journal_latency_seconds",
            help="From an event's recording until it was durable; to the millisecond.",
            bounds=FROM_MS,
        )

    @property
    def families(self) -> Sequence[Family]:
        """Everything that is counted, to be read only."""
        return (
            self._turns,
            self._turn_seconds,
            self._model_calls,
            self._model_seconds,
            self._tool_calls,
            self._tool_seconds,
            self._decisions,
            self._decision_seconds,
            self._tokens,
            self._cost,
            self._events,
            self._latency,
        )

    def recorded(self, tags: Mapping[str, int], times: Mapping[int, int], now: int) -> None:
        """Events became durable at ``now``: how many of each kind, and of each time they were recorded at (ms)."""
        for tag, count in tags.items():
            self._events.add(count, tag)
        for at, count in times.items():
            self._latency.observe(max(0.0, (now - at) / 1000), times=count)

    def take(self, activity: Activity) -> None:
        """Count one activity."""
        match activity:
            case TurnDone():
                self._turn(activity)
            case ModelCallDone():
                self._model_call(activity)
            case ToolDone():
                self._tool(activity)
            case DecisionDone():
                self._decisions.add(1, activity.kind, activity.outcome)
                self._decision_seconds.observe(_seconds(activity), activity.kind)
            case Spent():
                self._spent(activity)

    def _turn(self, it: TurnDone) -> None:
        self._turns.add(1, it.where.kind, self._agents.of(it.where.agent), it.outcome)
        self._turn_seconds.observe(_seconds(it), it.where.kind)

    def _model_call(self, it: ModelCallDone) -> None:
        provider, model = self._answered(it.where, it.model)
        outcome = "error" if it.problem is not None else "unfinished" if it.finish == "unfinished" else "ok"
        self._model_calls.add(1, provider, model, outcome)
        self._model_seconds.observe(_seconds(it), provider)

    def _tool(self, it: ToolDone) -> None:
        name = (self._own_tools if it.own else self._tools).of(it.tool)
        self._tool_calls.add(1, name, it.status)
        self._tool_seconds.observe(_seconds(it), name)

    def _spent(self, it: Spent) -> None:
        provider, model = self._answered(it.where, it.model)
        for name, count in it.tokens.items():
            self._tokens.add(count, provider, model, name.removesuffix("_tokens"))
        if it.cost:
            self._cost.add(it.cost, provider, model)

    def _answered(self, where: Where, model: Model) -> tuple[str, str]:
        """Who answered: an agent that drives its own model where nobody else is named."""
        return self._providers.of(model.provider or where.agent), self._models.of(model.model)


def _seconds(it: TurnDone | ModelCallDone | ToolDone | DecisionDone) -> float:
    return max(0, it.ended - it.began) / 1000

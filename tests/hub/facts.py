"""Any fact there can be, and logs that make sense: strategies made from the types themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec
from hypothesis import strategies as st

from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    Answer,
    AnyFact,
    CancelRequested,
    DecisionOpened,
    DecisionResolved,
    DecisionRevised,
    Event,
    HookAnswered,
    LogWritten,
    MessageAdded,
    Notified,
    Option,
    Origin,
    PromptSubmitted,
    PromptTaken,
    PromptWithdrawn,
    SessionClosed,
    SessionCreated,
    SettingsChanged,
    StateChanged,
    TerminalReserved,
    TerminalResized,
    TerminalTitled,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)

KINDS: tuple[type[msgspec.Struct], ...] = get_args(AnyFact)
"""Every fact type."""

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


def tag(kind: type[msgspec.Struct]) -> str:
    """The name of a fact on disk."""
    return str(kind.__struct_config__.tag)


def any_of(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Any value of that struct, every field tried."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    fields = {field.name: _strategy(field.type) for field in info.fields}
    return st.builds(kind, **fields)


any_fact: st.SearchStrategy[Any] = st.one_of([st.deferred(lambda kind=kind: any_of(kind)) for kind in KINDS])


def _strategy(info: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    make = _MAKERS.get(type(info))
    assert make is not None, f"no values for {info}"
    return make(info)


_MAKERS: dict[type, Callable[[Any], st.SearchStrategy[Any]]] = {
    msgspec.inspect.AnyType: lambda _: json_values,
    msgspec.inspect.NoneType: lambda _: st.none(),
    msgspec.inspect.BoolType: lambda _: st.booleans(),
    msgspec.inspect.IntType: lambda _: st.integers(-(2**53), 2**53),
    msgspec.inspect.FloatType: lambda _: st.floats(allow_nan=False, allow_infinity=False),
    msgspec.inspect.StrType: lambda _: text,
    msgspec.inspect.LiteralType: lambda info: st.sampled_from(info.values),
    msgspec.inspect.UnionType: lambda info: st.one_of([_strategy(kind) for kind in info.types]),
    msgspec.inspect.VarTupleType: lambda info: st.lists(_strategy(info.item_type), max_size=2).map(tuple),
    msgspec.inspect.DictType: lambda info: st.dictionaries(text, _strategy(info.value_type), max_size=2),
    msgspec.inspect.StructType: lambda info: _struct(info.cls),
}

_DEPTH = 3


def _struct(kind: type[msgspec.Struct], depth: int = _DEPTH) -> st.SearchStrategy[Any]:
    """A struct inside another one. ``Answer`` holds itself: it ends after a few levels."""
    if kind is Answer:
        flat = st.builds(
            Answer, accept=st.none() | st.booleans(), option=st.none() | st.integers(), text=st.none() | text
        )
        if depth == 0:
            return flat
        return flat | st.builds(Answer, answers=st.lists(_struct(kind, depth - 1), max_size=2).map(tuple))
    return any_of(kind)


# Logs


CREATED = SessionCreated(kind="scripted", agent="unknown", cwd="/", title="t", owner="local", options={"a": [1]})


_own_names = st.sampled_from([None, "own-1", "own-2"])


@st.composite
def logs(draw: st.DrawFn, max_size: int = 40) -> list[Event]:
    """A log that a hub could have written: facts of every kind that the fold knows, in an order that makes sense."""
    writer = _Writer(draw)
    for _ in range(draw(st.integers(0, max_size))):
        if writer.closed:
            break
        writer.step()
    return writer.events


class _Writer:
    """Knows just enough of what is open to write on."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.events: list[Event] = []
        self.closed = False
        self._names = 0
        self._at = 1_700_000_000_000
        self._waiting: list[PromptSubmitted] = []
        self._turn: str | None = None
        self._cancelled: set[str] = set()
        self._calls: list[ToolCalled] = []
        self._decisions: list[str] = []
        self._run = 0
        self._live = False
        self._offset = 0
        self._state = "starting"
        self.write(CREATED)

    def write(self, fact: AnyFact) -> None:
        self._at += self.draw(st.integers(0, 1000))
        self.events.append(Event(len(self.events) + 1, self._at, "epoch", fact))

    def name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def step(self) -> None:
        choices: list[Callable[[], None]] = [self.submit, self.call, self.ask, self.settings, self.say, self.hook]
        choices += [self.start_turn] if self._waiting and self._turn is None else []
        choices += [self.end_turn, self.cancel] if self._turn is not None else []
        choices += [self.withdraw] if self._waiting else []
        choices += [self.take] if self._turn and any(prompt.steer for prompt in self._waiting) else []
        choices += [self.end_call] if self._calls else []
        choices += [self.resolve, self.revise] if self._decisions else []
        choices += [self.exit, self.resize, self.move, self.title, self.reserve] if self._live else [self.start]
        if self._turn is None and not self._live and self.draw(st.integers(0, 20)) == 0:
            choices = [self.close]
        self.draw(st.sampled_from(choices))()

    def submit(self) -> None:
        prompt = PromptSubmitted(
            prompt=self.name(), text=self.draw(text), by="local", via="x", steer=self.draw(st.booleans())
        )
        self._waiting.append(prompt)
        self.write(prompt)

    def start_turn(self) -> None:
        self._turn = self.name()
        self.write(TurnStarted(turn=self._turn, prompt=self._waiting.pop(0).prompt))

    def end_turn(self) -> None:
        turn, self._turn = self._turn, None
        assert turn is not None
        for call in [call for call in self._calls if call.turn == turn]:
            self._calls.remove(call)
            self.write(ToolEnded(call=call.call, tool=call.tool, status="interrupted", turn=turn))
        self.write(TurnEnded(turn=turn, outcome="completed"))

    def cancel(self) -> None:
        assert self._turn is not None
        if self._turn not in self._cancelled:
            self._cancelled.add(self._turn)
            self.write(CancelRequested(turn=self._turn, by="local", via="x"))

    def withdraw(self) -> None:
        prompt = self.draw(st.sampled_from(self._waiting))
        self._waiting.remove(prompt)
        self.write(PromptWithdrawn(prompt=prompt.prompt, reason="withdrawn"))

    def take(self) -> None:
        prompt = next(prompt for prompt in self._waiting if prompt.steer)
        self._waiting.remove(prompt)
        self.write(PromptTaken(prompt=prompt.prompt, turn=self._turn or ""))

    def call(self) -> None:
        subagent = self.draw(st.none() | st.just(Origin("hook", subagent="sub")))
        tool = self.draw(st.sampled_from(["tool", "other"]))
        call = ToolCalled(call=self.name(), tool=tool, turn=self._turn, input=self.draw(json_values), origin=subagent)
        self._calls.append(call)
        self.write(call)

    def end_call(self) -> None:
        call = self.draw(st.sampled_from(self._calls))
        self._calls.remove(call)
        self.write(ToolEnded(call=call.call, tool=call.tool, status="ok", turn=call.turn))

    def ask(self) -> None:
        decision = self.name()
        self._decisions.append(decision)
        kinds: list[Literal["permission", "question", "plan"]] = ["permission", "question", "plan"]
        kind = self.draw(st.sampled_from(kinds))
        self.write(DecisionOpened(decision=decision, kind=kind, text=self.draw(text), ready=False))

    def revise(self) -> None:
        options = (Option(self.draw(text)),) if self.draw(st.booleans()) else None
        decision = self.draw(st.sampled_from(self._decisions))
        self.write(DecisionRevised(decision=decision, options=options, ready=True, text=self.draw(st.none() | text)))

    def resolve(self) -> None:
        decision = self.draw(st.sampled_from(self._decisions))
        self._decisions.remove(decision)
        self.write(DecisionResolved(decision=decision, outcome="answered", answer=Answer(accept=True)))

    def settings(self) -> None:
        names = st.sampled_from(["title", "mode", "zone", "auto_accept", "suggestion"])
        self.write(SettingsChanged(changes=self.draw(st.dictionaries(names, json_values))))

    def say(self) -> None:
        said: list[AnyFact] = [MessageAdded(message="m", role="assistant", text="hi"), LogWritten(line="x")]
        self.write(self.draw(st.sampled_from([*said, Notified(message="x")])))

    def hook(self) -> None:
        hooks: list[Literal["stop", "start", "end"]] = ["stop", "start", "end"]
        hook = self.draw(st.sampled_from(hooks))
        verdict = self.draw(st.sampled_from([None, "allowed", "blocked"])) if hook == "stop" else None
        self.write(HookAnswered(hook=hook, verdict=verdict, agent_session=self.draw(_own_names)))

    def start(self) -> None:
        self._live, self._state, self._run = True, "starting", self._run + 1
        self.write(
            AgentStarted(
                pid=7,
                cols=80,
                rows=24,
                tape_offset=self._offset,
                tape_reserved=2**40,
                run=self._run,
                agent_session=self.draw(_own_names),
            )
        )

    def exit(self) -> None:
        self._live = False
        self._offset += self.draw(st.integers(0, 100))
        self.write(AgentExited(cause="exit", code=0, tape_offset=self._offset))

    def resize(self) -> None:
        self.write(TerminalResized(cols=self.draw(st.integers(1, 99)), rows=5, tape_offset=self._offset))

    def title(self) -> None:
        self.write(TerminalTitled(title=self.draw(text), tape_offset=self._offset))

    def reserve(self) -> None:
        self.write(TerminalReserved(tape_reserved=2**40 + len(self.events)))

    def move(self) -> None:
        state = self.draw(st.sampled_from([name for name in ("working", "idle", "prompt") if name != self._state]))
        self._offset += self.draw(st.integers(0, 100))
        self.write(StateChanged(prev=self._state, next=state, cause="x", tape_offset=self._offset))
        self._state = state

    def close(self) -> None:
        for prompt in self._waiting:
            self.write(PromptWithdrawn(prompt=prompt.prompt, reason="closed"))
        for decision in self._decisions:
            self.write(DecisionResolved(decision=decision, outcome="cancelled"))
        for call in self._calls:
            self.write(ToolEnded(call=call.call, tool=call.tool, status="interrupted"))
        self.write(SessionClosed(reason="test"))
        self.closed = True

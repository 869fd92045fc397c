"""A turn's log as a transcript in no provider's words, which two ways to reach a model can be compared by.

Ids are named after their places, times left out, deltas joined for each part. What happens at once is put in order: a
step's parts and messages as the model began them, then its calls, each with all that became of it, then the rest.
A text that ended empty is left out: only some APIs announce one before they say any of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.hub.events import (
    AnyFact,
    CancelRequested,
    ClientToolsDeclared,
    Compacted,
    ContextReported,
    DecisionOpened,
    DecisionResolved,
    Event,
    LogWritten,
    MessageAdded,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptSubmitted,
    PromptTaken,
    RawPart,
    SettingsChanged,
    SourceCited,
    StepEnded,
    StepStarted,
    SubagentEnded,
    SubagentStarted,
    TodosChanged,
    ToolCalled,
    ToolEnded,
    ToolProgressed,
    TurnEnded,
    TurnStarted,
    UsageReported,
    encode_fact,
)

Line = dict[str, Any]
"""One thing that happened: ``what`` says which, the other keys depend on it."""

_TIMED = {"duration_ms", "turn", "step"}


def shown(lines: Sequence[Line]) -> list[str]:
    """A transcript for people, one line of text for each."""
    return [_shown(line) for line in lines]


def _shown(line: Line) -> str:
    rest = " ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in line.items() if key != "what")
    return f"{line['what']} {rest}".rstrip()


def is_empty_text(line: Line) -> bool:
    """Whether it is a text that ended empty."""
    return line["what"] == "text" and line["ended"] and not line["text"]


def transcript(events: Sequence[Event], *, hide: Mapping[str, str]) -> list[Line]:
    """What a turn added to the log. ``hide`` has texts of this run, as patterns, and what stands for them."""
    return _Writer(hide).write([event.fact for event in events])


class _Step:
    """What happened from the start of one step to the start of the next."""

    def __init__(self) -> None:
        self.head: list[Line] = []
        self.parts: dict[str, Line] = {}
        self.said: list[Line] = []
        self.calls: dict[str, list[Line]] = {}
        self.rest: list[Line] = []
        self.spent: list[Line] = []
        """What its own model call cost: told when that is over, whatever its tools are at by then."""
        self.raw = False

    def lines(self) -> list[Line]:
        calls = [line for lines in sorted(self.calls.values(), key=_place) for line in lines]
        raw = [{"what": "raw"}] if self.raw else []
        parts = [part for part in self.parts.values() if not is_empty_text(part)]
        ends = [line["what"] for line in self.rest].index("step-ended") if self.ended else len(self.rest)
        rest = [*self.rest[:ends], *self.spent, *self.rest[ends:]]
        return [*self.head, *raw, *parts, *self.said, *calls, *rest]

    @property
    def ended(self) -> bool:
        return any(line["what"] == "step-ended" for line in self.rest)


def _place(lines: Sequence[Line]) -> list[int]:
    """Where a call stands: after its own number, those of a sub-agent's calls."""
    return [int(number) for number in lines[0]["call"].removeprefix("call-").split(".")]


class _Writer:
    def __init__(self, hide: Mapping[str, str]) -> None:
        self._hide = hide
        self._ids: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._call_of: dict[str, str] = {}
        """Calls by the decisions that they opened, and the sub-agents that they started."""
        self._steps = [_Step()]

    def write(self, facts: Sequence[AnyFact]) -> list[Line]:
        for fact in facts:
            self._take(fact)
        return [self._hidden(line) for step in self._steps for line in step.lines()]

    @property
    def _step(self) -> _Step:
        return self._steps[-1]

    def _take(self, fact: AnyFact) -> None:
        step = self._step
        if isinstance(fact, StepStarted):
            self._steps.append(step := _Step())
            step.head.append({"what": "step", "provider": fact.provider, "model": fact.model})
        elif isinstance(fact, PartStarted):
            step.parts[fact.part] = self._opened(fact)
        elif isinstance(fact, PartDelta):
            step.parts[fact.part]["text"] += fact.text
        elif isinstance(fact, PartEnded):
            step.parts[fact.part]["ended"] = True
        elif isinstance(fact, RawPart):
            step.raw = True
        elif isinstance(fact, MessageAdded):
            step.said.append(self._said(fact))
        elif isinstance(fact, ToolCalled):
            self._calls(fact.call, self._parent(fact)).append(self._called(fact))
        elif isinstance(fact, ToolEnded):
            self._calls(fact.call).append(self._ended(fact))
        elif not isinstance(fact, ToolProgressed):  # when it is given depends on time alone
            self._take_other(fact)

    def _take_other(self, fact: AnyFact) -> None:
        line = self._line(fact)
        if isinstance(fact, DecisionOpened | SubagentStarted):
            assert fact.call is not None
            self._call_of[fact.decision if isinstance(fact, DecisionOpened) else fact.subagent] = fact.call
        owner = self._owner(fact)
        if isinstance(fact, UsageReported) and fact.answered:
            self._step.spent.append(line)
            return
        (self._step.rest if owner is None else self._calls(owner)).append(line)

    def _owner(self, fact: AnyFact) -> str | None:
        """The call that this belongs to."""
        if isinstance(fact, DecisionOpened | SubagentStarted):
            return fact.call
        if isinstance(fact, DecisionResolved):
            return self._call_of.get(fact.decision)
        if isinstance(fact, SubagentEnded):
            return self._call_of.get(fact.subagent)
        return self._call_of.get(fact.message.partition(":")[0]) if isinstance(fact, UsageReported) else None

    def _calls(self, call: str, parent: str | None = None) -> list[Line]:
        """The lines of a call, in the step that made it; those of a sub-agent's calls are after its own."""
        for step in reversed(self._steps):
            if call in step.calls:
                return step.calls[call]
        return self._step.calls.setdefault(call, [])

    def _parent(self, fact: ToolCalled) -> str | None:
        return fact.parent

    # One line each

    def _opened(self, fact: PartStarted) -> Line:
        line: Line = {"what": fact.kind}
        if fact.kind == "tool_input":
            line |= {"call": self._call(fact.part), "tool": fact.tool, "executor": fact.executor}
        return {**line, "text": "", "ended": False}

    def _said(self, fact: MessageAdded) -> Line:
        signed = fact.provider_metadata is not None
        return {"what": "message", "role": fact.role, "text": fact.text, "kind": fact.kind, "signed": signed}

    def _called(self, fact: ToolCalled) -> Line:
        return {
            "what": "call",
            "call": self._call(fact.call, fact.parent),
            "tool": fact.tool,
            "input": fact.input,
            "executor": fact.executor,
            "problem": msgspec.to_builtins(fact.problem),
            "flags": [flag for flag in ("dynamic", "invalid") if getattr(fact, flag)],
            "bundle": [fact.position, fact.bundle_size] if fact.bundle is not None else None,
            "signed": fact.provider_metadata is not None,
        }

    def _ended(self, fact: ToolEnded) -> Line:
        return {
            "what": "result",
            "call": self._call(fact.call),
            "tool": fact.tool,
            "status": fact.status,
            "output": fact.output,
            "problem": msgspec.to_builtins(fact.problem),
            "detail": fact.detail,
        }

    def _line(self, fact: AnyFact) -> Line:
        if isinstance(fact, StepEnded):
            response = fact.response
            told = sorted(key for key in response if response[key]) if isinstance(response, dict) else response
            return {
                "what": "step-ended",
                "reason": fact.finish_reason,
                "raw": fact.raw_finish_reason,
                "response": told,
                "problem": msgspec.to_builtins(fact.problem),
            }
        if isinstance(fact, UsageReported):
            return self._usage(fact)
        if isinstance(fact, ContextReported):
            return {"what": "context", "part": fact.part, "content": _contents(fact)}
        if isinstance(fact, Compacted):
            return {"what": "compacted", "phase": fact.phase, "reason": fact.reason, "summary": fact.summary}
        return self._plain(fact)

    def _usage(self, fact: UsageReported) -> Line:
        names = ("input_tokens", "output_tokens", "reasoning_tokens", "cached_tokens", "estimated", "cost_usd")
        told = {name: getattr(fact, name) for name in names}
        if fact.estimated:  # by our own count, which the length of an id may change
            told |= {name: told[name] and "estimated" for name in ("input_tokens", "output_tokens")}
        return {"what": "usage", "own": fact.step is not None, **told}

    def _plain(self, fact: AnyFact) -> Line:
        """Any other fact, by its own names, with ids as places."""
        assert isinstance(fact, _PLAIN), f"nothing is known of {type(fact).__name__}"
        told = json.loads(encode_fact(fact))
        what = told.pop("type", None) or told.pop("tag", type(fact).__name__)
        for key in ("prompt", "decision", "subagent"):
            if key in told:
                told[key] = self._named(key, told[key])
        if told.get("call"):
            told["call"] = self._call(told["call"])
        return {"what": what, **{key: value for key, value in told.items() if key not in _TIMED}}

    # Names and texts

    def _call(self, call: str, parent: str | None = None) -> str:
        if call not in self._ids and parent is not None:
            owner = self._call(parent)
            self._counts[owner] = self._counts.get(owner, 0) + 1
            self._ids[call] = f"{owner}.{self._counts[owner]}"
        return self._named("call", call)

    def _named(self, kind: str, given: str) -> str:
        if given not in self._ids:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._ids[given] = f"{kind}-{self._counts[kind]}"
        return self._ids[given]

    def _hidden(self, value: Any) -> Any:
        if isinstance(value, str):
            for text, name in self._hide.items():
                value = re.sub(text, name, value)
            return value
        if isinstance(value, Mapping):
            return {self._hidden(key): self._hidden(inner) for key, inner in value.items()}
        return [self._hidden(inner) for inner in value] if isinstance(value, list | tuple) else value


_PLAIN = (
    CancelRequested,
    ClientToolsDeclared,
    DecisionOpened,
    DecisionResolved,
    LogWritten,
    PromptSubmitted,
    PromptTaken,
    SettingsChanged,
    SourceCited,
    SubagentEnded,
    SubagentStarted,
    TodosChanged,
    TurnEnded,
    TurnStarted,
)


def _contents(fact: ContextReported) -> Any:
    """Of schemas their names, for they are long; of a message what is new in it, without what got no answer before."""
    if fact.part == "user_message" and isinstance(fact.content, str):
        return fact.content.rpartition("\n\n")[2]
    if fact.part == "tool_schemas" and isinstance(fact.content, list):
        return [tool["name"] for tool in fact.content if isinstance(tool, dict)]
    return fact.content


# The order that recorders promise (docs/mapping.md, "Writing", 6)


def out_of_order(events: Sequence[Event]) -> list[str]:
    """Where a session's whole log breaks the promise."""
    return [f"seq {event.seq}: {complaint}" for event, complaint in _Order().read(events)]


class _Order:
    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._due: str | None = None
        self._step: int | None = None
        self._reported = False
        self._interrupted = False
        self._inputs: dict[str, bool] = {}

    def read(self, events: Sequence[Event]) -> Iterator[tuple[Event, str]]:
        for event in events:
            for complaint in self._take(event.fact):
                yield event, complaint

    def _take(self, fact: AnyFact) -> Iterator[str]:
        if self._due is not None and not isinstance(fact, MessageAdded):
            yield f"a text ended, and {type(fact).__name__} comes before its message"
        self._due = None
        if isinstance(fact, PartStarted):
            self._texts[fact.part] = ""
            if fact.kind == "tool_input":
                self._inputs[fact.part] = False
        elif isinstance(fact, PartDelta):
            self._texts[fact.part] += fact.text
        elif isinstance(fact, PartEnded):
            yield from self._part_ended(fact)
        elif isinstance(fact, ToolCalled):
            if not self._inputs.get(fact.call, True):
                yield "a call before the end of its input"
        elif isinstance(fact, ToolEnded):
            self._interrupted = self._interrupted or fact.status == "interrupted"
            if fact.duration_ms is None:
                yield "a result that does not say how long it took"
        elif isinstance(fact, DecisionResolved):
            if self._interrupted:
                yield "a decision is resolved after dangling calls have got their results"
        else:
            yield from self._bounds(fact)

    def _part_ended(self, fact: PartEnded) -> Iterator[str]:
        if fact.kind == "tool_input":
            self._inputs[fact.part] = True
        elif fact.kind == "text" and self._texts[fact.part]:
            self._due = fact.part
        yield from ()

    def _bounds(self, fact: AnyFact) -> Iterator[str]:
        if isinstance(fact, StepStarted):
            self._step, self._reported = fact.step, False
        elif isinstance(fact, UsageReported) and fact.step is not None:
            self._reported = True
            if fact.step != self._step:
                yield f"usage of step {fact.step} in step {self._step}"
        elif isinstance(fact, StepEnded):
            if self._reported != (fact.problem is None):
                yield "a step that ends well has told its usage before, and no other has"
            self._step = None
        elif isinstance(fact, PromptTaken) and self._step is not None:
            yield "a prompt is taken within a step"
        elif isinstance(fact, TurnEnded):
            if fact.duration_ms is None:
                yield "a turn's end that does not say how long it took"
            self._step, self._interrupted = None, False

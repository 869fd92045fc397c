"""The log as stream events: pure, fed every event in order (seed: Stream Events; spec §6; docs/mapping.md).

What one event says is a list of ``Said``: stream events as encoded, and what a link must know beside. How a turn ended
is said as ``Ended``; OUTPUT and ERROR, which that becomes, are the view's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.hub.events import (
    Compacted,
    DecisionOpened,
    DecisionResolved,
    DecisionRevised,
    Event,
    HistoryMerged,
    HistoryReset,
    Json,
    MessageAdded,
    Outcome,
    PartDelta,
    PartStarted,
    PromptSubmitted,
    PromptTaken,
    PromptWithdrawn,
    SessionClosed,
    SettingsChanged,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    UsageReported,
)

from . import messages as wire
from .asking import Ask, Asking
from .merging import Measure, measure_after
from .words import arguments, mode_word, question_shown, result_text

RESTARTED = "turn interrupted by a restart"
"""What is said of a turn that ended with its server."""

WHAT_NEXT = "What would you like me to do?"
"""The result of a turn that a person broke off (spec §6)."""

WITHDRAWN = "the session was closed before the prompt ran"


class Ended(msgspec.Struct, frozen=True):
    """A turn's end. ``problem`` is the text of its ERROR; without one there is an OUTPUT with ``result``."""

    turn: str
    outcome: Outcome
    result: str
    duration_ms: int
    problem: str | None


class Said(msgspec.Struct, frozen=True):
    """One thing that an event says: an encoded stream event (``body``, without its session), a turn's end, the ERROR
    about a prompt that will not run (``withdrawn``), or that the session is over for good (``closed``).

    ``id`` is that of the stream event. ``ask`` is what it asks, ``second`` whether it is the second with its id,
    ``traced`` whether it is part of a session's trace, ``tolerance`` what it needs to be sent at all.
    """

    id: str = ""
    body: bytes = b""
    ask: Ask | None = None
    second: bool = False
    traced: bool = False
    tolerance: str | None = None
    ended: Ended | None = None
    withdrawn: bool = False
    closed: bool = False


class _Step(msgspec.Struct):
    """A model call under way."""

    id: str
    at: int
    model: str
    calls: int = 0
    announced: int = 0
    """Calls whose arguments the model began to say: those that are made only once it has said all."""
    usage: UsageReported | None = None


class Projection:
    """The fold. ``project`` may be called with each event once; ``copy`` makes a twin that goes its own way."""

    def __init__(self) -> None:
        self.turns = 0
        """Turns since the conversation began, those of a history that was taken in and the open one counted."""
        self.asking = Asking()
        self._prompts: dict[str, PromptSubmitted] = {}
        self._steps: dict[int, _Step] = {}
        self._step = 0
        self._turn: str | None = None
        self._calls: dict[str, Json] = {}
        self._compactions: dict[str, str] = {}

    def copy(self) -> Projection:
        """The same, to be fed apart."""
        twin = Projection()
        twin.turns, twin._turn, twin._step = self.turns, self._turn, self._step
        twin.asking = self.asking.copy()
        twin._prompts, twin._calls = dict(self._prompts), dict(self._calls)
        twin._steps = {number: msgspec.structs.replace(step) for number, step in self._steps.items()}
        twin._compactions = dict(self._compactions)
        return twin

    def project(self, event: Event) -> list[Said]:
        """What this event says, in order."""
        make = _FACTS.get(type(event.fact))
        return [] if make is None else make(self, event, event.fact)

    # Prompts and turns

    def _submitted(self, event: Event, fact: PromptSubmitted) -> list[Said]:  # noqa: ARG002
        self._prompts[fact.prompt] = fact
        return []

    def _withdrawn(self, event: Event, fact: PromptWithdrawn) -> list[Said]:  # noqa: ARG002
        known = self._prompts.pop(fact.prompt, None)
        return [Said(withdrawn=True)] if known is not None and fact.reason == "closed" else []

    def _closed(self, event: Event, fact: SessionClosed) -> list[Said]:  # noqa: ARG002
        return [Said(closed=True)]

    def _started(self, event: Event, fact: TurnStarted) -> list[Said]:
        self.turns += 1
        self._turn, self._step = fact.turn, 0
        self._steps.clear()
        return self._user_input(event, fact.prompt, runtime=False)

    def _taken(self, event: Event, fact: PromptTaken) -> list[Said]:
        return self._user_input(event, fact.prompt, runtime=True)

    def _user_input(self, event: Event, prompt: str, *, runtime: bool) -> list[Said]:
        submitted = self._prompts.pop(prompt, None)
        if submitted is None:
            return []
        said = wire.UserInput(
            id=prompt,
            ts=_seconds(event),
            content=submitted.text,
            turn=self.turns,
            iteration=self._step + 1 if runtime else UNSET,
            runtime_input=True if runtime else UNSET,
        )
        found = [_said(said, traced=True)]
        files = tuple(
            wire.ReceivedFile(each.name, each.artifact.removeprefix("upload:"))
            for each in submitted.attachments
            if each.kind == "file"
        )
        if files:
            received = wire.FilesReceived(id=f"ev-{event.seq}", ts=_seconds(event), files=files, turn=self.turns)
            found.append(_said(received, traced=True))
        return found

    def _ended(self, event: Event, fact: TurnEnded) -> list[Said]:  # noqa: ARG002
        self._turn = None
        return [
            Said(
                ended=Ended(
                    turn=fact.turn,
                    outcome=fact.outcome,
                    result=WHAT_NEXT if fact.outcome == "cancelled" else fact.result or "",
                    duration_ms=fact.duration_ms or 0,
                    problem=_why(fact),
                )
            )
        ]

    def _reset(self, event: Event, fact: HistoryReset) -> list[Said]:  # noqa: ARG002
        self.turns = 0
        return []

    def _merged(self, event: Event, fact: HistoryMerged) -> list[Said]:  # noqa: ARG002
        after = measure_after(fact, Measure(self.turns))
        if after is not None:
            self.turns = after.turn
        return []

    # What the model does

    def _step_started(self, event: Event, fact: StepStarted) -> list[Said]:
        self._step = fact.step
        step = self._steps[fact.step] = _Step(id=f"ev-{event.seq}", at=event.at, model=fact.model or "")
        call = wire.LlmCall(id=step.id, ts=_seconds(event), model=step.model, iteration=fact.step)
        return [_said(call, traced=True)]

    def _usage(self, event: Event, fact: UsageReported) -> list[Said]:
        number = fact.step or self._step
        step = self._steps.get(number)
        if step is None:
            return []
        step.usage = fact
        return self._llm_result(event, number, "success") if fact.answered else []

    def _step_ended(self, event: Event, fact: StepEnded) -> list[Said]:
        return self._llm_result(event, fact.step, "success" if fact.problem is None else "error")

    def _llm_result(self, event: Event, number: int, status: str) -> list[Said]:
        """Once a step: when the model's answer is whole, or else when the step ends."""
        step = self._steps.pop(number, None)
        if step is None:
            return []
        result = wire.LlmResult(
            id=step.id,
            ts=_seconds(event),
            model=(step.usage.model if step.usage is not None else None) or step.model,
            iteration=number,
            duration_ms=float(event.at - step.at),
            tool_calls_count=max(step.calls, step.announced),
            usage=_usage(step.usage),
            context_percent=_context_percent(step.usage),
            status=status,
        )
        return [_said(result, traced=True, second=True)]

    def _part(self, event: Event, fact: PartStarted) -> list[Said]:  # noqa: ARG002
        step = self._steps.get(self._step)
        if step is not None and fact.kind == "tool_input":
            step.announced += 1
        return []

    def _delta(self, event: Event, fact: PartDelta) -> list[Said]:
        if fact.kind != "text":
            return []
        delta = wire.AssistantDelta(id=f"ev-{event.seq}", ts=_seconds(event), content=fact.text)
        return [Said(id=delta.id, body=wire.encode(delta), tolerance="assistant_delta")]

    def _message(self, event: Event, fact: MessageAdded) -> list[Said]:
        name, at = f"ev-{event.seq}", _seconds(event)
        if fact.role == "reasoning":
            return [_said(wire.Thinking(id=name, ts=at, kind=fact.kind or "reasoning", content=fact.text), traced=True)]
        if fact.turn is not None:
            return []  # what a turn says is its result, and its deltas
        if fact.role == "user":
            return [_said(wire.UserInput(id=name, ts=at, content=fact.text, turn=self.turns), traced=True)]
        if fact.role != "assistant":
            return []
        message = wire.Assistant(id=name, ts=at, content=fact.text)
        return [Said(id=name, body=wire.encode(message), tolerance="assistant")]

    def _compacted(self, event: Event, fact: Compacted) -> list[Said]:
        name = self._compactions.setdefault(fact.compaction, f"ev-{event.seq}")
        at, before = _seconds(event), _percent(fact.tokens_before, fact.context_window)
        if fact.phase == "started":
            return [_said(wire.Compact(id=name, ts=at, status="compacting", context_percent=before))]
        self._compactions.pop(fact.compaction, None)
        if fact.phase == "failed":
            why = fact.problem or "the context could not be shortened"
            return [_said(wire.Compact(id=name, ts=at, status="error", error=why), second=True)]
        done = wire.Compact(
            id=name,
            ts=at,
            status="done",
            context_before=before,
            context_after=_percent(fact.tokens_after, fact.context_window),
            message=f"{fact.messages_before or 0} → {fact.messages_after or 0} messages",
        )
        return [_said(done, second=True)]

    # Tools

    def _called(self, event: Event, fact: ToolCalled) -> list[Said]:
        step = self._steps.get(self._step)
        if step is not None and fact.parent is None:
            step.calls += 1
        args = self._calls[fact.call] = arguments(fact.input)
        if fact.problem is not None and fact.problem.code == "no_such_tool":
            return []  # it shows as its result alone (spec §6)
        call = wire.ToolCall(id=f"ev-{event.seq}", ts=_seconds(event), tool_id=fact.call, name=fact.tool, args=args)
        return [_said(call, traced=True)]

    def _tool_ended(self, event: Event, fact: ToolEnded) -> list[Said]:
        args = self._calls.pop(fact.call, None)
        code = fact.problem.code if fact.problem is not None else None
        why = fact.problem.message if fact.problem is not None else None
        status, result = "success", result_text(fact)
        if code == "no_such_tool":
            status, why = "not_found", f"Tool {fact.tool!r} not found"
            result = why
        elif fact.status != "ok":
            status, why = "error", why or result
            result = f"Error: {result or why}"
        ended = wire.ToolResult(
            id=f"ev-{event.seq}",
            ts=_seconds(event),
            tool_id=fact.call,
            name=fact.tool,
            args=args if args is not None else arguments(fact.input),
            status=status,
            result=result,
            timing_ms=float(fact.duration_ms or 0),
            error=why if why is not None and status != "success" else UNSET,
            error_type=code if code is not None and status == "error" else UNSET,
        )
        return [_said(ended, traced=True)]

    # Decisions and settings

    def _decision(self, event: Event, fact: DecisionOpened) -> list[Said]:
        return _asks(event, self.asking.opened(fact))

    def _revised(self, event: Event, fact: DecisionRevised) -> list[Said]:
        return _asks(event, self.asking.revised(fact))

    def _resolved(self, event: Event, fact: DecisionResolved) -> list[Said]:
        return _asks(event, self.asking.resolved(fact))

    def _settings(self, event: Event, fact: SettingsChanged) -> list[Said]:
        if "mode" not in fact.changes:
            return []
        changed = wire.ModeChanged(
            id=f"ev-{event.seq}",
            ts=_seconds(event),
            mode=mode_word(fact.changes["mode"]),
            triggered_by="agent" if fact.by is None else "user",
        )
        return [_said(changed)]


def _said(message: wire.StreamEvent, *, ask: Ask | None = None, second: bool = False, traced: bool = False) -> Said:
    return Said(id=message.id, body=wire.encode(message), ask=ask, second=second, traced=traced)


def _seconds(event: Event) -> float:
    return event.at / 1000


def _why(fact: TurnEnded) -> str | None:
    if fact.outcome == "interrupted":
        return RESTARTED
    if fact.outcome != "failed":
        return None
    return fact.problem.message if fact.problem is not None else "the turn failed"


def _usage(usage: UsageReported | None) -> wire.Usage | None:
    if usage is None:
        return None
    return wire.Usage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        cached_tokens=usage.cached_tokens or 0,
        cache_write_tokens=usage.cache_write_tokens or 0,
        cost=usage.cost_usd or 0.0,
    )


def _context_percent(usage: UsageReported | None) -> float:
    return 0.0 if usage is None else _percent(usage.input_tokens, usage.context_window)


def _percent(tokens: int | None, window: int | None) -> float:
    return 100 * tokens / window if tokens and window else 0.0


def _asks(event: Event, ask: Ask | None) -> list[Said]:
    return [] if ask is None else [_said(question_shown(f"ev-{event.seq}", _seconds(event), ask), ask=ask)]


_FACTS: dict[type, Callable[[Projection, Event, Any], list[Said]]] = {
    PromptSubmitted: Projection._submitted,
    PromptWithdrawn: Projection._withdrawn,
    SessionClosed: Projection._closed,
    PromptTaken: Projection._taken,
    TurnStarted: Projection._started,
    TurnEnded: Projection._ended,
    HistoryReset: Projection._reset,
    HistoryMerged: Projection._merged,
    StepStarted: Projection._step_started,
    UsageReported: Projection._usage,
    StepEnded: Projection._step_ended,
    PartStarted: Projection._part,
    PartDelta: Projection._delta,
    MessageAdded: Projection._message,
    Compacted: Projection._compacted,
    ToolCalled: Projection._called,
    ToolEnded: Projection._tool_ended,
    DecisionOpened: Projection._decision,
    DecisionRevised: Projection._revised,
    DecisionResolved: Projection._resolved,
    SettingsChanged: Projection._settings,
}

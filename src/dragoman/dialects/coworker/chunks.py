"""The chunks of one turn: its facts as ``model_stream_chunk`` (seed: Structured Stream Notes; docs/mapping.md).

A fold without I/O, begun where the turn begins, so that every link counts alike. What the SDK of the original says only
once it is sure (a step that began, a turn that is finished) is held here until it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.hub.events import (
    AnyFact,
    CancelRequested,
    Fact,
    Json,
    Outcome,
    PartDelta,
    PartEnded,
    PartStarted,
    Problem,
    RawPart,
    SourceCited,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolEnded,
    UsageReported,
)

from . import parts
from .messages import ModelStreamChunk
from .metadata import Metadata, metadata_of, thought_kind, thought_metadata
from .parts import Spelled
from .tool_lines import given_input

UNKNOWN = "part:"
"""How ``part.raw.sdk_type`` begins for a part of a stream that no fact says."""

_TOO_LONG = "provider_too_long"
_FAILED = Problem(code="internal", message="the turn failed")


class _Call(msgspec.Struct, frozen=True):
    """What an open call's end must say again."""

    given: Json
    dynamic: bool
    by_provider: bool
    invalid: bool
    metadata: Metadata | None


class TurnChunks:
    """One turn's chunks. ``project`` every fact from ``turn.started`` on, in order; then ``end``, once.

    ``provider`` and ``model`` are the session's; a step says its own. Raises nothing.
    """

    def __init__(self, session: str, turn: str, *, provider: str, model: str) -> None:
        self._session = session
        self._turn = turn
        self._provider = provider
        self._model = model
        self._step_said: tuple[bool, bool] = (False, False)
        """Whether a step said its provider, and its model."""
        self._index = 0
        self._started = False
        self._over = False
        self._held: list[Spelled] = [parts.start()]
        """What comes before the next chunk, if one comes."""
        self._kept: dict[str, Json] = {}
        """What the provider said of each part as it opened."""
        self._grows: dict[str, Metadata | None] = {}
        """What is said with more of a thought, by its part."""
        self._calls: dict[str, _Call] = {}
        self._cancelled = False
        self._inner: set[str] = set()
        """Calls of sub-agents that have not ended."""
        self._usage: dict[str, UsageReported] = {}
        """The steps' reports, by message: the last one counts."""
        self._ended: StepEnded | None = None
        self._failed = False
        """Whether a chunk said so."""
        self._overcome: Problem | None = None
        """Why a step failed that may yet be tried again with less."""

    @property
    def provider(self) -> str:
        """Whose the newest chunks are."""
        return self._provider

    def runs_on(self, provider: str, model: str) -> None:
        """What the session has now: it counts from here on, since whoever reads from here on knows no other."""
        knows_provider, knows_model = self._step_said
        self._provider = self._provider if knows_provider else provider
        self._model = self._model if knows_model else model

    def project(self, fact: AnyFact) -> list[ModelStreamChunk]:
        """The chunks that this fact brings out; none for a fact of another turn."""
        read = _READ.get(type(fact))
        return [] if read is None or self._over else read(self, fact)

    def end(self, outcome: Outcome, problem: Problem | None) -> list[ModelStreamChunk]:
        """The turn's last chunks. After them there are none."""
        if self._over:
            return []
        made = self._last(outcome, problem)
        self._over = True
        return made

    def _last(self, outcome: Outcome, problem: Problem | None) -> list[ModelStreamChunk]:
        if self._started:
            self._held = []  # a step that nobody answered
        if outcome == "completed":
            return self._say(parts.finish(self._ended, list(self._usage.values()))) if self._started else []
        if outcome == "failed":
            return [] if self._failed else self._say(parts.error(self._overcome or problem or _FAILED))
        return self._say(parts.abort(parts.CANCELLED if outcome == "cancelled" else parts.INTERRUPTED))

    # What becomes of each fact

    def _step_started(self, fact: StepStarted) -> list[ModelStreamChunk]:
        if fact.turn != self._turn:
            return []
        self._provider = fact.provider or self._provider
        self._model = fact.model or self._model
        self._step_said = (self._step_said[0] or bool(fact.provider), self._step_said[1] or bool(fact.model))
        self._overcome = None
        made = [] if self._started else self._shown()
        self._held = [parts.start_step(fact.request, fact.warnings)]
        return made

    def _step_ended(self, fact: StepEnded) -> list[ModelStreamChunk]:
        if fact.turn != self._turn:
            return []
        if fact.problem is None:
            self._ended = fact
            report = next((each for each in self._usage.values() if each.step == fact.step), None)
            return self._say(parts.finish_step(fact, report, self._provider))
        if self._started:
            self._held = []
        if fact.problem.code == _TOO_LONG:
            self._overcome = fact.problem
            return []
        self._failed = True
        return self._say(parts.error(fact.problem))

    def _part_started(self, fact: PartStarted) -> list[ModelStreamChunk]:
        if fact.turn != self._turn:
            return []
        part, kept = fact.part, fact.provider_metadata
        self._kept[part] = kept
        if fact.kind == "text":
            return self._say(parts.text_edge("text_start", part, metadata_of(self._provider, kept)))
        if fact.kind == "reasoning":
            self._grows[part] = metadata_of(self._provider, kept)
            metadata = thought_metadata(self._provider, kept)
            return self._say(parts.reasoning_edge("reasoning_start", part, self._mode(fact.mode), metadata))
        by_provider = fact.executor == "provider"
        spelled = parts.tool_input_start(
            part, fact.tool or "tool", dynamic=fact.dynamic, by_provider=by_provider, title=fact.title, metadata=None
        )
        return self._say(spelled)

    def _part_grew(self, fact: PartDelta) -> list[ModelStreamChunk]:
        if fact.turn != self._turn:
            return []
        kind, part = fact.kind, fact.part
        said = None if fact.provider_metadata is None else metadata_of(self._provider, fact.provider_metadata)
        if kind == "text":
            return self._say(parts.text_delta(part, fact.text, said))
        if kind == "reasoning":
            metadata = said or self._grows.get(part)
            return self._say(parts.reasoning_delta(part, self._mode(fact.mode), fact.text, metadata))
        return self._say(parts.tool_input_delta(part, fact.text, said))

    def _part_ended(self, fact: PartEnded) -> list[ModelStreamChunk]:
        if fact.turn != self._turn:
            return []
        part, kept = fact.part, fact.provider_metadata
        if fact.kind == "tool_input":
            return self._say(parts.text_edge("tool_input_end", part, metadata_of(self._provider, kept)))
        began = self._kept.pop(part, None)
        if fact.kind == "text":
            return self._say(parts.text_edge("text_end", part, metadata_of(self._provider, began, kept)))
        self._grows.pop(part, None)
        metadata = thought_metadata(self._provider, began, kept)
        return self._say(parts.reasoning_edge("reasoning_end", part, self._mode(fact.mode), metadata))

    def _raw(self, fact: RawPart) -> list[ModelStreamChunk]:
        if fact.turn != self._turn:
            return []
        if fact.sdk_type is not None and fact.sdk_type.startswith(UNKNOWN):
            return self._say(parts.unknown(fact.sdk_type.removeprefix(UNKNOWN), fact.raw))
        return self._say(parts.raw(fact.raw))

    def _cited(self, fact: SourceCited) -> list[ModelStreamChunk]:
        if fact.turn != self._turn:
            return []
        sources = [] if fact.source is None else self._say(parts.source(fact.source))
        return sources if fact.file is None else sources + self._say(parts.file(fact.file))

    def _reported(self, fact: UsageReported) -> list[ModelStreamChunk]:
        """What sub-agents use is not the turn's own, as the SDK counts."""
        if fact.turn == self._turn and fact.step is not None:
            self._usage[fact.message] = fact
        return []

    def _called(self, fact: ToolCalled) -> list[ModelStreamChunk]:
        if fact.turn != self._turn:
            return []
        if fact.parent is not None:
            self._inner.add(fact.call)
            return []
        invalid = (fact.problem or _FAILED) if fact.invalid else None
        call = self._calls[fact.call] = _Call(
            given=given_input(fact),
            dynamic=fact.dynamic or fact.invalid,
            by_provider=fact.executor == "provider",
            invalid=fact.invalid,
            metadata=metadata_of(self._provider, self._kept.pop(fact.call, None), fact.provider_metadata),
        )
        spelled = parts.tool_call(
            fact.call,
            fact.tool,
            call.given,
            dynamic=fact.dynamic,
            by_provider=call.by_provider,
            invalid=invalid,
            metadata=call.metadata,
        )
        return self._say(spelled)

    def _cancel_requested(self, fact: CancelRequested) -> list[ModelStreamChunk]:
        self._cancelled = self._cancelled or fact.turn == self._turn
        return []

    def _tool_ended(self, fact: ToolEnded) -> list[ModelStreamChunk]:
        if fact.turn != self._turn or (self._cancelled and fact.status == "interrupted"):
            return []  # what a cancel breaks off is told by the turn's one abort
        if fact.call in self._inner:
            self._inner.discard(fact.call)
            return []
        call = self._calls.pop(fact.call, None) or _Call(fact.input, False, False, False, None)
        return self._say(_result(fact, call, metadata_of(self._provider, fact.provider_metadata)))

    # Chunks

    def _mode(self, given: str | None) -> str:
        return given or thought_kind(self._provider)

    def _say(self, spelled: Spelled) -> list[ModelStreamChunk]:
        """The chunk, and what was held before it."""
        made = self._shown() if self._held else []
        made.append(self._chunk(spelled))
        return made

    def _shown(self) -> list[ModelStreamChunk]:
        held, self._held = self._held, []
        self._started = True
        return [self._chunk(spelled) for spelled in held]

    def _chunk(self, spelled: Spelled) -> ModelStreamChunk:
        index = self._index
        self._index = index + 1
        return ModelStreamChunk(
            session_id=self._session,
            turn_id=self._turn,
            index=index,
            provider=self._provider,
            model=self._model,
            part_type=spelled[0],
            part=spelled[1],
            raw_part=spelled[2],
        )


def _result(fact: ToolEnded, call: _Call, said: Metadata | None) -> Spelled:
    """How a call ended. A command that was denied has a result all the same, which says so; of other calls, what the
    model was told in place of a result is only the reason over again."""
    given = {} if call.given is None else call.given
    metadata = None if call.invalid else said or call.metadata
    if fact.status == "ok" or (fact.status == "denied" and isinstance(fact.output, dict)):
        return parts.tool_result(
            fact.call,
            fact.tool,
            given,
            fact.output,
            dynamic=call.dynamic,
            by_provider=call.by_provider,
            metadata=metadata,
        )
    if fact.status == "denied":
        reason = fact.problem.message if fact.problem is not None else None
        return parts.tool_output_denied(fact.call, fact.tool, reason, metadata)
    return parts.tool_error(
        fact.call,
        fact.tool,
        given,
        _wrong(fact, invalid=call.invalid),
        dynamic=call.dynamic,
        by_provider=call.by_provider,
        metadata=metadata,
    )


def _wrong(fact: ToolEnded, *, invalid: bool) -> Json:
    """Why it failed."""
    if fact.problem is None:
        return fact.output if fact.output is not None else "unknown_error"
    return fact.problem.message if invalid else parts.error_of(fact.problem)


_READ: dict[type[Fact], Callable[[TurnChunks, Any], list[ModelStreamChunk]]] = {
    StepStarted: TurnChunks._step_started,
    StepEnded: TurnChunks._step_ended,
    PartStarted: TurnChunks._part_started,
    PartDelta: TurnChunks._part_grew,
    PartEnded: TurnChunks._part_ended,
    RawPart: TurnChunks._raw,
    SourceCited: TurnChunks._cited,
    UsageReported: TurnChunks._reported,
    ToolCalled: TurnChunks._called,
    ToolEnded: TurnChunks._tool_ended,
    CancelRequested: TurnChunks._cancel_requested,
}

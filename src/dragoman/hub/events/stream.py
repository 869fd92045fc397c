"""What a model says while a turn runs: steps, streamed parts, whole messages, usage."""

from __future__ import annotations

from typing import Literal

from .base import Fact, Json, Problem

PartKind = Literal["text", "reasoning", "tool_input"]


class StepStarted(Fact, frozen=True, tag="step.started"):
    """One model call begins. ``request`` is what went out, sanitised and bounded."""

    turn: str
    step: int
    provider: str | None = None
    model: str | None = None
    request: Json = None
    warnings: tuple[Json, ...] = ()


class StepEnded(Fact, frozen=True, tag="step.ended"):
    """That model call ended, with the provider's own finish reason, or the problem that ended it."""

    turn: str
    step: int
    finish_reason: str
    raw_finish_reason: str | None = None
    response: Json = None
    problem: Problem | None = None
    provider_metadata: Json = None


class PartStarted(Fact, frozen=True, tag="part.started"):
    """A streamed part opens. ``part`` is unique within its turn; for ``tool_input`` it is the call's id."""

    turn: str
    part: str
    kind: PartKind
    tool: str | None = None
    mode: str | None = None
    title: str | None = None
    executor: str | None = None
    dynamic: bool = False
    provider_metadata: Json = None


class PartDelta(Fact, frozen=True, tag="part.delta"):
    """More text of an open part. Deltas of one part join into the whole, so a slow reader may get them joined."""

    turn: str
    part: str
    kind: PartKind
    text: str
    mode: str | None = None
    provider_metadata: Json = None


class PartEnded(Fact, frozen=True, tag="part.ended"):
    """A streamed part closed."""

    turn: str
    part: str
    kind: PartKind
    mode: str | None = None
    provider_metadata: Json = None


class RawPart(Fact, frozen=True, tag="part.raw"):
    """A provider's own event, sanitised and bounded, for dialects that show it.

    ``sdk_type`` is the event's own type. ``part:NAME`` says that it is no event, but a part of a program's stream that
    no other fact says.
    """

    turn: str
    raw: Json
    sdk_type: str | None = None


STREAMED: frozenset[type[Fact]] = frozenset({PartDelta, RawPart})
"""Facts that only grow what a model says. They change nothing of a session but its place in the log, nothing waits for
one of them, and there are more of them than of all others: each is to cost as little as can be."""


class SourceCited(Fact, frozen=True, tag="part.source"):
    """The model named a source (``source``) or produced a file (``file``)."""

    turn: str
    source: Json = None
    file: Json = None


class MessageAdded(Fact, frozen=True, tag="message.added"):
    """A whole message is known: the assistant's text, its reasoning, or text that reached the agent elsewhere.

    Once recorded it never changes role, place or text. ``provider_metadata`` is what the model's provider wants back
    with it in later calls.
    """

    message: str
    role: Literal["user", "assistant", "reasoning", "system"]
    text: str
    turn: str | None = None
    kind: str | None = None
    provider_metadata: Json = None


class UsageReported(Fact, frozen=True, tag="usage.reported"):
    """Tokens and cost of one provider message. The last report for a ``message`` id wins; sums go over ids.

    ``output_tokens`` includes ``reasoning_tokens``; ``input_tokens`` what was read from the provider's cache
    (``cached_tokens``) and what was written to it. ``context_window`` is what the conversation may grow to.
    ``answered`` says that the model's answer of that step is whole: what is left of the step are its tools.
    """

    message: str
    turn: str | None = None
    step: int | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    conversation_tokens: int | None = None
    context_window: int | None = None
    cost_usd: float | None = None
    estimated: bool = False
    answered: bool = False


class Compacted(Fact, frozen=True, tag="context.compacted"):
    """The context was shortened. The visible log is not (only what the model sees is).

    ``compaction`` pairs what started with how it ended.
    """

    compaction: str
    phase: Literal["started", "done", "failed"]
    turn: str | None = None
    reason: str | None = None
    strategy: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    messages_before: int | None = None
    messages_after: int | None = None
    context_window: int | None = None
    summary: str | None = None
    problem: str | None = None


class ContextReported(Fact, frozen=True, tag="context.reported"):
    """What the model was really shown, for dialects that make it visible.

    ``part`` is ``system_prompt``, ``user_message`` or ``tool_schemas``.
    """

    part: Literal["system_prompt", "user_message", "tool_schemas"]
    content: Json
    turn: str | None = None
    metadata: dict[str, Json] = {}


class LogWritten(Fact, frozen=True, tag="log.written"):
    """A line for the person watching: progress of a sign-in, a skipped skill, a retry."""

    line: str
    level: Literal["debug", "info", "warning", "error"] = "info"
    turn: str | None = None

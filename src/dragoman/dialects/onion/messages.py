"""What the server says in ConnectOnion's protocol, typed (seed: Server -> Client; spec §6).

*Control* messages answer or steer; they have neither ``id`` nor ``ts``. *Stream events* tell what happens in a
session: each has an ``id``, its time ``ts`` (seconds since 1970) and, on a socket, ``session_id`` last. It is encoded
once without its session, because the same bytes stand in a session's *trace*; ``addressed`` adds whose it is.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.hub.events import Json

Status = Literal["new", "connected", "running"]
"""What a session is when somebody connects to it (seed: CONNECTED)."""

Mode = Literal["safe", "plan", "accept_edits", "ulw"]
"""How much an agent may do unasked, in this protocol's words (spec §9)."""


class Control(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """A message that is no event of a session."""


class Connected(Control, frozen=True, tag="CONNECTED"):
    """The answer to CONNECT. The last three are there when the server knows more than the client."""

    session_id: str
    status: Status
    server_newer: bool | UnsetType = UNSET
    session: Raw | UnsetType = UNSET
    chat_items: Raw | UnsetType = UNSET


class Output(Control, frozen=True, tag="OUTPUT"):
    """A turn came to its end. ``session`` is the session object, ``chat_items`` what a chat shows of it."""

    result: str
    session_id: str
    duration_ms: int
    session: Raw
    chat_items: Raw


class Ping(Control, frozen=True, tag="PING"):
    """Still here; every thirty seconds."""


class RuntimeInputAck(Control, frozen=True, tag="RUNTIME_INPUT_ACK"):
    """An INPUT that came while the agent ran is kept; ``id`` is that of its ``user_input``."""

    session_id: str
    id: str


class Error(Control, frozen=True, tag="ERROR"):
    """Something was refused, or a turn failed. ``received`` is what was no JSON; the rest is beyond the seed."""

    message: str
    received: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    request_id: str | UnsetType = UNSET
    session_id: str | UnsetType = UNSET
    retryable: bool | UnsetType = UNSET


class SessionStatus(Control, frozen=True, tag="SESSION_STATUS"):
    """The answer to SESSION_STATUS: ``running``, ``connected`` or ``not_found``."""

    session_id: str | None
    status: str


class OnboardRequired(Control, frozen=True, tag="ONBOARD_REQUIRED"):
    """The caller is a stranger; the CONNECT waits until one of ``methods`` has been gone through."""

    identity: str | None
    methods: tuple[str, ...]
    payment_amount: int | float | UnsetType = UNSET
    payment_address: str | UnsetType = UNSET


class OnboardSuccess(Control, frozen=True, tag="ONBOARD_SUCCESS"):
    """The caller is no stranger any more."""

    identity: str
    level: str
    message: str


class AdminResult(Control, frozen=True, tag="ADMIN_RESULT"):
    """What came of an ADMIN_ message."""

    action: str
    client_id: str | UnsetType = UNSET
    success: bool | UnsetType = UNSET
    message: str | UnsetType = UNSET
    level: str | UnsetType = UNSET
    error: str | UnsetType = UNSET


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Something that happened in a session. ``ts`` is in seconds since 1970."""

    id: str
    ts: float


class UserInput(StreamEvent, frozen=True, tag="user_input"):
    """A prompt reached the agent: the first of a turn, or (``runtime_input``) one that came while it ran."""

    content: str
    turn: int
    iteration: int | UnsetType = UNSET
    runtime_input: bool | UnsetType = UNSET


class ReceivedFile(msgspec.Struct, frozen=True):
    """``name`` as it is stored; ``path`` relative to the session's folder."""

    name: str
    path: str


class FilesReceived(StreamEvent, frozen=True, tag="files_received"):
    """Files that came with the prompt lie in the session's folder."""

    files: tuple[ReceivedFile, ...]
    turn: int


class LlmCall(StreamEvent, frozen=True, tag="llm_call"):
    """A model call begins."""

    model: str
    iteration: int
    status: str = "running"


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one model call, and what they cost in dollars."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    cost: float


class LlmResult(StreamEvent, frozen=True, tag="llm_result"):
    """That call ended; the ``id`` is the call's."""

    model: str
    iteration: int
    duration_ms: float
    tool_calls_count: int
    usage: Usage | None
    context_percent: float
    status: str = "success"


class Thinking(StreamEvent, frozen=True, tag="thinking"):
    """What the agent reasons."""

    kind: str
    content: str


class AssistantDelta(StreamEvent, frozen=True, tag="assistant_delta"):
    """More of the answer's text (tolerance ``assistant_delta``)."""

    content: str


class Assistant(StreamEvent, frozen=True, tag="assistant"):
    """What the agent said outside of any turn of ours, at its own terminal (tolerance ``assistant``)."""

    content: str


class ToolCall(StreamEvent, frozen=True, tag="tool_call"):
    """A tool begins. ``tool_id`` is the model's id of the call."""

    tool_id: str
    name: str
    args: Json


class ToolResult(StreamEvent, frozen=True, tag="tool_result"):
    """A tool ended: ``success``, ``error`` or ``not_found``."""

    tool_id: str
    name: str
    args: Json
    status: str
    result: str
    timing_ms: float
    error: str | UnsetType = UNSET
    error_type: str | UnsetType = UNSET


class AskUser(StreamEvent, frozen=True, tag="ask_user"):
    """The agent asks; the turn waits. Answered by ASK_USER_RESPONSE."""

    question: str
    options: tuple[str, ...] | None
    multi_select: bool
    fields: Json | UnsetType = UNSET


class BatchCall(msgspec.Struct, frozen=True):
    """A call of the same answer that is still to come. ``arguments`` is JSON text."""

    tool: str
    arguments: str


class ApprovalNeeded(StreamEvent, frozen=True, tag="approval_needed"):
    """A tool needs a person's yes; its ``tool_call`` came before. Answered by APPROVAL_RESPONSE."""

    tool: str
    arguments: Json
    description: str
    batch_remaining: tuple[BatchCall, ...] | UnsetType = UNSET


class PlanReview(StreamEvent, frozen=True, tag="plan_review"):
    """A plan to be read. Answered by PLAN_REVIEW_RESPONSE."""

    plan_content: str


class ModeChanged(StreamEvent, frozen=True, tag="mode_changed"):
    """The session's mode is another one."""

    mode: str
    triggered_by: str | UnsetType = UNSET


class Compact(StreamEvent, frozen=True, tag="compact"):
    """The context is being shortened, has been, or could not be; all of one have one ``id``."""

    status: str
    context_percent: float | UnsetType = UNSET
    context_before: float | UnsetType = UNSET
    context_after: float | UnsetType = UNSET
    message: str | UnsetType = UNSET
    error: str | UnsetType = UNSET


class SessionSync(StreamEvent, frozen=True, tag="session_sync"):
    """The whole session object (tolerance ``session_sync``)."""

    session: Raw


_encoder = msgspec.json.Encoder()


def encode(message: Control | StreamEvent) -> bytes:
    """A message as JSON."""
    return _encoder.encode(message)


def addressed(encoded: bytes, session_id: bytes) -> bytes:
    """An encoded stream event with its session; ``session_id`` is JSON text, quotes and all."""
    return b'%b,"session_id":%b}' % (encoded[:-1], session_id)

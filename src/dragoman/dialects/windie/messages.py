"""What the server says in WindieOS' protocol, typed as on the wire (seed: Server -> Client; spec §6).

There are three envelopes: ``StreamEvent`` for what belongs to a turn and is numbered, ``Reply`` for what answers a
message, ``StartupEvent`` for what follows the handshake. Fields are in the order in which the originals send them. A
field that may be left out is ``UNSET``; one that may be null says so. Times are ISO 8601 in UTC, durations seconds.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from .client_manifest import AcceptedTool, RejectedTool


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """What all payloads have in common. ``TYPE`` is the message's type."""

    TYPE: ClassVar[str]


class StreamPayload(Payload, frozen=True, kw_only=True):
    """Of a message that takes a number of its turn."""


class ReplyPayload(Payload, frozen=True, kw_only=True):
    """Of a message that takes none: with one, the client would see a gap."""


class StartupPayload(Payload, frozen=True, kw_only=True):
    """Of a message that has no id."""


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A turn's event. ``id`` is ``turn_ref``, on all of a turn's; ``sequence`` counts them from 1 without a gap."""

    id: str
    type: str
    payload: StreamPayload
    user_id: str
    session_id: str
    conversation_ref: str
    turn_ref: str
    timestamp: str
    event_id: str
    sequence: int


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer. ``id`` is that of what it answers; None where it could not be read."""

    id: str | None
    type: str
    payload: ReplyPayload | Error


class StartupEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What a link is told unasked after its handshake."""

    type: str
    payload: StartupPayload


class QueryAccepted(StreamPayload, frozen=True, kw_only=True):
    """* The turn has begun."""

    TYPE: ClassVar[str] = "query-accepted"
    status: Literal["accepted"] = "accepted"


class SystemPrompt(StreamPayload, frozen=True, kw_only=True):
    """The system prompt as the model has it."""

    TYPE: ClassVar[str] = "system-prompt"
    content: str


class UserMessageMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What the seed's event and its prompt preview have, together (spec §6). ``active_window`` may be ``Unknown``."""

    original_query: str
    context_type: str
    injected_context: str
    active_window: str
    has_screenshot: bool
    has_memory: bool


class UserMessageFull(StreamPayload, frozen=True, kw_only=True):
    """The query as the model has it."""

    TYPE: ClassVar[str] = "user-message-full"
    content: str
    metadata: UserMessageMetadata


class ToolFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function that the model may call; ``parameters`` is a JSON schema."""

    name: str
    description: str | UnsetType = UNSET
    parameters: dict[str, Any]


class ToolSchema(msgspec.Struct, frozen=True, kw_only=True):
    """Nested, as the seed prints it on the socket."""

    type: Literal["function"] = "function"
    function: ToolFunction


class ToolSchemas(StreamPayload, frozen=True, kw_only=True):
    """The tools that the model is offered."""

    TYPE: ClassVar[str] = "tool-schemas"
    tool_schemas: tuple[ToolSchema, ...]


class LlmThought(StreamPayload, frozen=True, kw_only=True):
    """A piece of reasoning."""

    TYPE: ClassVar[str] = "llm-thought"
    status: str


class StreamingResponse(StreamPayload, frozen=True, kw_only=True):
    """A piece of the answer."""

    TYPE: ClassVar[str] = "streaming-response"
    text: str


class ModelFacingToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """* A call as the model made it."""

    id: str
    name: str
    arguments: Any


class ToolCallMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Whose call it is. With ``skip_local_execution`` the client shows it and runs nothing."""

    tool_call_id: str
    model_facing_tool_call: ModelFacingToolCall | UnsetType = UNSET
    skip_local_execution: bool | UnsetType = UNSET
    execution_owner: str | UnsetType = UNSET


class ToolCall(StreamPayload, frozen=True, kw_only=True):
    """A tool to run. ``request_id`` comes back with the result."""

    TYPE: ClassVar[str] = "tool-call"
    tool_name: str
    parameters: dict[str, Any]
    request_id: str
    metadata: ToolCallMetadata


class BundledTool(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a bundle."""

    name: str
    args: dict[str, Any]


class ToolBundle(StreamPayload, frozen=True, kw_only=True):
    """Tools to run one after the other, answered by one ``tool-bundle-result``."""

    TYPE: ClassVar[str] = "tool-bundle"
    bundle_id: str
    tools: tuple[BundledTool, ...]


class ToolOutput(StreamPayload, frozen=True, kw_only=True):
    """What a tool of the server's gave."""

    TYPE: ClassVar[str] = "tool-output"
    tool_name: str
    success: bool
    execution_time: float | UnsetType = UNSET
    output: Any = UNSET
    error: str | UnsetType | None = UNSET
    screenshot_ref: str | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


class WebSearchProgress(StreamPayload, frozen=True, kw_only=True):
    """* How a search goes."""

    TYPE: ClassVar[str] = "web-search-progress"
    text: str
    request_id: str | UnsetType = UNSET
    action_type: str | UnsetType = UNSET
    query: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    pattern: str | UnsetType = UNSET


class AssistantMessageFull(StreamPayload, frozen=True, kw_only=True):
    """The whole answer."""

    TYPE: ClassVar[str] = "assistant-message-full"
    content: str


class TokenCount(StreamPayload, frozen=True, kw_only=True):
    """Tokens of the turn, and of the conversation. ``thinking_tokens`` is null when nobody has said."""

    TYPE: ClassVar[str] = "token-count"
    prompt_tokens: int
    visible_output_tokens: int
    thinking_tokens: int | None
    output_tokens_total: int
    total_tokens: int
    conversation_tokens: int
    usage_source: Literal["provider", "estimated"]
    cached_tokens: int | UnsetType = UNSET
    cache_hit: bool | UnsetType = UNSET
    cache_status: Literal["hit", "miss", "unknown"] | UnsetType = UNSET


class StreamingComplete(StreamPayload, frozen=True, kw_only=True):
    """The turn is over; nothing of it follows."""

    TYPE: ClassVar[str] = "streaming-complete"
    final_response: str | UnsetType = UNSET


class ContextCompactionStarted(StreamPayload, frozen=True, kw_only=True):
    """* A history is being shortened."""

    TYPE: ClassVar[str] = "context-compaction-started"
    reason: str
    strategy: str
    before_tokens: int
    projected_tokens: int


class ContextCompactionCompleted(StreamPayload, frozen=True, kw_only=True):
    """* It is shorter, or ``skipped_reason`` says why it is not."""

    TYPE: ClassVar[str] = "context-compaction-completed"
    reason: str
    strategy: str
    before_tokens: int
    after_tokens: int
    removed_messages: int
    summary_preview: str | UnsetType = UNSET
    summary_text: str | UnsetType = UNSET
    skipped_reason: str | UnsetType = UNSET


class ContextCompactionFailed(StreamPayload, frozen=True, kw_only=True):
    """* It could not be shortened."""

    TYPE: ClassVar[str] = "context-compaction-failed"
    reason: str
    strategy: str
    error: str
    before_tokens: int | UnsetType = UNSET


class Error(StreamPayload, frozen=True, kw_only=True):
    """A turn that failed, with a number; or what was wrong with a message, as a reply without one."""

    TYPE: ClassVar[str] = "error"
    message: str


class StopQueryAck(ReplyPayload, frozen=True, kw_only=True):
    """* The turn has stopped: nothing of it follows, and it has no ``streaming-complete``."""

    TYPE: ClassVar[str] = "stop-query-ack"
    status: Literal["stopped", "not-running"]
    canceled: bool
    conversation_ref: str | None
    turn_ref: str | None


class SettingsLoaded(ReplyPayload, frozen=True, kw_only=True):
    """The user's settings. An ``api_key`` in there is empty, always."""

    TYPE: ClassVar[str] = "settings-loaded"
    config: dict[str, Any]


class SettingsUpdated(ReplyPayload, frozen=True, kw_only=True):
    """The keys that were given, all of them applied."""

    TYPE: ClassVar[str] = "settings-updated"
    updated_keys: tuple[str, ...]


class ModelsListed(ReplyPayload, frozen=True, kw_only=True):
    """The catalog; an entry has at least ``id``, ``provider`` and ``display_name``."""

    TYPE: ClassVar[str] = "models-listed"
    local: tuple[dict[str, Any], ...]
    online: tuple[dict[str, Any], ...]
    vision: tuple[dict[str, Any], ...]


class WakewordActivated(ReplyPayload, frozen=True, kw_only=True):
    """The wake word was heard."""

    TYPE: ClassVar[str] = "wakeword-activated"
    speech_mode_enabled: bool
    greeting: str
    status: Literal["listening"] = "listening"


class WakewordGreeting(ReplyPayload, frozen=True, kw_only=True):
    """What is said to that."""

    TYPE: ClassVar[str] = "wakeword-greeting"
    text: str


class AudioChunk(ReplyPayload, frozen=True, kw_only=True):
    """Speech: base64 of PCM, 16 bits, little endian, mono; ``sample_rate`` in Hz."""

    TYPE: ClassVar[str] = "audio-chunk"
    audio: str
    sample_rate: int = 22050


class ClientToolManifest(StartupPayload, frozen=True, kw_only=True):
    """What became of the handshake's manifest."""

    TYPE: ClassVar[str] = "client-tool-manifest"
    accepted: tuple[AcceptedTool, ...]
    rejected: tuple[RejectedTool, ...]


class RemoteTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the server runs; ``reason_unavailable`` is null when it is available."""

    name: str
    description: str
    enabled: bool
    available: bool
    reason_unavailable: str | None


class RemoteToolCatalog(StartupPayload, frozen=True, kw_only=True):
    """All of those."""

    TYPE: ClassVar[str] = "remote-tool-catalog"
    remote_tools: tuple[RemoteTool, ...]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What all events of a turn repeat."""

    user_id: str
    session_id: str
    conversation_ref: str
    turn_ref: str


_encoder = msgspec.json.Encoder()


def encode_event(turn: Turn, payload: StreamPayload, *, timestamp: str, sequence: int) -> bytes:
    """A turn's event as JSON. Its ``event_id`` is made of turn, number and type: the same on every link."""
    return _encoder.encode(
        StreamEvent(
            id=turn.turn_ref,
            type=payload.TYPE,
            payload=payload,
            user_id=turn.user_id,
            session_id=turn.session_id,
            conversation_ref=turn.conversation_ref,
            turn_ref=turn.turn_ref,
            timestamp=timestamp,
            event_id=f"{turn.turn_ref}-evt-{sequence:06d}-{payload.TYPE}",
            sequence=sequence,
        )
    )


def encode_reply(message_id: str | None, payload: ReplyPayload | Error) -> bytes:
    """An answer as JSON."""
    return _encoder.encode(Reply(id=message_id, type=payload.TYPE, payload=payload))


def encode_startup(payload: StartupPayload) -> bytes:
    """What follows a handshake as JSON."""
    return _encoder.encode(StartupEvent(type=payload.TYPE, payload=payload))

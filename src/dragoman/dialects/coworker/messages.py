"""What the server says of links and turns in agent-coworker 3.0, typed as on the wire (seed: Server -> Client Events).

``provider_messages`` and ``workspace_messages`` have what it says of those.

Every message has a ``type`` and the ``sessionId`` of the link's session. A field that may be left out is ``UNSET``; one
that may be null says so. Times are ISO 8601 in UTC with milliseconds, durations and windows say their unit.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.hub.events import Json

PROTOCOL = "3.0"
"""The version that ``server_hello`` names."""

PROVIDERS = ("google", "openai", "anthropic", "codex-cli", "claude-code")
"""Every provider that the protocol knows, in the order of all its lists."""

ErrorCode = Literal[
    "invalid_json",
    "invalid_payload",
    "missing_type",
    "unknown_type",
    "unknown_session",
    "busy",
    "validation_failed",
    "permission_denied",
    "provider_error",
    "backup_error",
    "observability_error",
    "internal_error",
]
ErrorSource = Literal["protocol", "session", "tool", "provider", "backup", "observability", "permissions"]
ReasonCode = Literal[
    "safe_auto_approved",
    "matches_dangerous_pattern",
    "contains_shell_control_operator",
    "requires_manual_review",
    "file_read_command_requires_review",
    "outside_allowed_scope",
]
ReasoningKind = Literal["reasoning", "summary"]
PromptOutcome = Literal["answered", "cancelled", "expired"]


class ServerMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """What all have in common."""

    session_id: str


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of a message."""


# Connection


class Capabilities(Shape, frozen=True, kw_only=True):
    """Seed: ``ServerCapabilities``. What goes beyond the seed is there only for a link that asked for it."""

    model_stream_chunk: Literal["v1"] = "v1"
    resume: Literal["v1"] | UnsetType = UNSET


class Config(Shape, frozen=True, kw_only=True):
    """Seed: ``ConfigSubset``."""

    provider: str
    model: str
    working_directory: str
    output_directory: str


class ServerHello(ServerMessage, frozen=True, kw_only=True, tag="server_hello"):
    """The first message of every link. ``cursor`` is beyond the seed: where a resuming link begins to read."""

    protocol_version: str = PROTOCOL
    capabilities: Capabilities = Capabilities()
    config: Config
    cursor: int | UnsetType = UNSET


class SessionSettings(ServerMessage, frozen=True, kw_only=True, tag="session_settings"):
    """At link start, and whenever it was set."""

    enable_mcp: bool


class ConfigUpdated(ServerMessage, frozen=True, kw_only=True, tag="config_updated"):
    """Provider or model changed."""

    config: Config


class Features(ServerMessage, frozen=True, kw_only=True, tag="features"):
    """Beyond the seed: the answer to a ``client_hello`` that asked for features; which the link has, and its cursor."""

    features: tuple[str, ...]
    cursor: int


class Pong(ServerMessage, frozen=True, kw_only=True, tag="pong"):
    """The answer to ``ping``."""


class ResetDone(ServerMessage, frozen=True, kw_only=True, tag="reset_done"):
    """The conversation was cleared."""


class Error(ServerMessage, frozen=True, kw_only=True, tag="error"):
    """Any error (seed: Error Reference)."""

    message: str
    code: ErrorCode
    source: ErrorSource


# Turns


class SessionBusy(ServerMessage, frozen=True, kw_only=True, tag="session_busy"):
    """Whether the agent works."""

    busy: bool


class UserMessage(ServerMessage, frozen=True, kw_only=True, tag="user_message"):
    """The echo of a prompt."""

    text: str
    client_message_id: str | UnsetType = UNSET


class ModelStreamChunk(ServerMessage, frozen=True, kw_only=True, tag="model_stream_chunk"):
    """One part of the model's stream. ``index`` counts the chunks of a turn from 0, without a gap."""

    turn_id: str
    index: int
    provider: str
    model: str
    part_type: str
    part: Json
    raw_part: Json


class AssistantMessage(ServerMessage, frozen=True, kw_only=True, tag="assistant_message"):
    """What the agent answered, in the last step of its turn."""

    text: str


class Reasoning(ServerMessage, frozen=True, kw_only=True, tag="reasoning"):
    """What it thought in that step."""

    kind: ReasoningKind
    text: str


class Log(ServerMessage, frozen=True, kw_only=True, tag="log"):
    """A line for the person watching."""

    line: str


class TodoItem(Shape, frozen=True, kw_only=True):
    """Seed: ``TodoItem``."""

    content: str
    status: Literal["pending", "in_progress", "completed"]
    active_form: str


class Todos(ServerMessage, frozen=True, kw_only=True, tag="todos"):
    """The whole task list."""

    todos: tuple[TodoItem, ...]


class Ask(ServerMessage, frozen=True, kw_only=True, tag="ask"):
    """A question; free text where there are no options."""

    request_id: str
    question: str
    options: tuple[str, ...] | UnsetType = UNSET


class Approval(ServerMessage, frozen=True, kw_only=True, tag="approval"):
    """A command that waits for permission."""

    request_id: str
    command: str
    dangerous: bool
    reason_code: ReasonCode


class PromptVoid(ServerMessage, frozen=True, kw_only=True, tag="prompt_void"):
    """Beyond the seed, for links that asked for it: an ``ask`` or ``approval`` is over, answered elsewhere or not."""

    request_id: str
    outcome: PromptOutcome


_encoder = msgspec.json.Encoder()


def encode(message: ServerMessage) -> bytes:
    """The message as UTF-8 JSON, ``type`` first."""
    return _encoder.encode(message)

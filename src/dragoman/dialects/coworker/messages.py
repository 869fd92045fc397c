"""What the server says in agent-coworker 3.0, typed as on the wire (seed: Server -> Client Events).

Every message has a ``type`` and the ``sessionId`` of the link's session. A field that may be left out is ``UNSET``; one
that may be null says so. Times are ISO 8601 in UTC with milliseconds, durations and windows say their unit.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.hub.events import Json
from dragoman.services.observability.queries import QueryResult
from dragoman.services.observability.slo import SloResult

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
BackupReason = Literal["requested", "auto_checkpoint", "manual_checkpoint", "restore", "delete"]


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


# Tools, commands, skills


class Tools(ServerMessage, frozen=True, kw_only=True, tag="tools"):
    """Names of the agent's own tools, sorted."""

    tools: tuple[str, ...]


class CommandInfo(Shape, frozen=True, kw_only=True):
    """Seed: ``CommandInfo``."""

    name: str
    description: str | UnsetType = UNSET
    source: Literal["command", "mcp", "skill"]
    hints: tuple[str, ...]


class Commands(ServerMessage, frozen=True, kw_only=True, tag="commands"):
    """The slash commands of this folder."""

    commands: tuple[CommandInfo, ...]


class SkillInterface(Shape, frozen=True, kw_only=True):
    """How a UI may show a skill."""

    display_name: str | UnsetType = UNSET
    short_description: str | UnsetType = UNSET
    icon_small: str | UnsetType = UNSET
    icon_large: str | UnsetType = UNSET
    default_prompt: str | UnsetType = UNSET
    agents: tuple[str, ...] | UnsetType = UNSET


class SkillEntry(Shape, frozen=True, kw_only=True):
    """One skill."""

    name: str
    path: str
    source: Literal["project", "global", "user", "built-in"]
    enabled: bool
    triggers: tuple[str, ...]
    description: str
    interface: SkillInterface | UnsetType = UNSET


class SkillsList(ServerMessage, frozen=True, kw_only=True, tag="skills_list"):
    """Every skill of this folder, those that are switched off among them."""

    skills: tuple[SkillEntry, ...]


class SkillContent(ServerMessage, frozen=True, kw_only=True, tag="skill_content"):
    """One skill with its text."""

    skill: SkillEntry
    content: str


# Providers


class CatalogEntry(Shape, frozen=True, kw_only=True):
    """One provider of ``provider_catalog``."""

    id: str
    name: str
    models: tuple[str, ...]
    default_model: str


class ProviderCatalog(ServerMessage, frozen=True, kw_only=True, tag="provider_catalog"):
    """The providers; ``default`` has each one's model, ``connected`` those that something was kept for."""

    all: tuple[CatalogEntry, ...]
    default: dict[str, str]
    connected: tuple[str, ...]


class AuthMethod(Shape, frozen=True, kw_only=True):
    """One way to sign in."""

    id: str
    type: Literal["api", "oauth"]
    label: str
    oauth_mode: Literal["auto", "code"] | UnsetType = UNSET


class ProviderAuthMethods(ServerMessage, frozen=True, kw_only=True, tag="provider_auth_methods"):
    """The ways to sign in, by provider."""

    methods: dict[str, tuple[AuthMethod, ...]]


class Challenge(Shape, frozen=True, kw_only=True):
    """What the person is to do now."""

    method: Literal["auto", "code"]
    instructions: str
    command: str | UnsetType = UNSET
    url: str | UnsetType = UNSET


class ProviderAuthChallenge(ServerMessage, frozen=True, kw_only=True, tag="provider_auth_challenge"):
    """The answer to ``provider_auth_authorize``."""

    provider: str
    method_id: str
    challenge: Challenge


class ProviderAuthResult(ServerMessage, frozen=True, kw_only=True, tag="provider_auth_result"):
    """How a sign-in came out; without a mode when it failed."""

    provider: str
    method_id: str
    ok: bool
    mode: Literal["api_key", "oauth", "oauth_pending"] | UnsetType = UNSET
    message: str


class Account(Shape, frozen=True, kw_only=True):
    """Who is signed in."""

    email: str | UnsetType = UNSET
    name: str | UnsetType = UNSET


class StatusEntry(Shape, frozen=True, kw_only=True):
    """One provider of ``provider_status``."""

    provider: str
    authorized: bool
    verified: bool
    mode: Literal["missing", "error", "api_key", "oauth", "oauth_pending"]
    account: Account | None
    message: str
    checked_at: str


class ProviderStatus(ServerMessage, frozen=True, kw_only=True, tag="provider_status"):
    """How each provider stands."""

    providers: tuple[StatusEntry, ...]


# Backups


class Checkpoint(Shape, frozen=True, kw_only=True):
    """Seed: ``SessionBackupCheckpoint``. ``patch_bytes`` is what it takes on disk."""

    id: str
    index: int
    created_at: str
    trigger: Literal["auto", "manual"]
    changed: bool
    patch_bytes: int


class OriginalSnapshot(Shape, frozen=True, kw_only=True):
    """What the session began with."""

    kind: Literal["pending", "directory", "tar_gz"]


class Backup(Shape, frozen=True, kw_only=True):
    """Seed: ``SessionBackupState``."""

    status: Literal["initializing", "ready", "failed"]
    session_id: str
    working_directory: str
    backup_directory: str | None
    created_at: str
    original_snapshot: OriginalSnapshot
    checkpoints: tuple[Checkpoint, ...]
    failure_reason: str | UnsetType = UNSET


class SessionBackupState(ServerMessage, frozen=True, kw_only=True, tag="session_backup_state"):
    """The checkpoints of the session's folder, and why they are told."""

    reason: BackupReason
    backup: Backup


# Observability and harness


class QueryApi(Shape, frozen=True, kw_only=True):
    """Where the stores are."""

    logs_base_url: str
    metrics_base_url: str
    traces_base_url: str


class ObservabilityConfig(Shape, frozen=True, kw_only=True):
    """There also where it is switched off."""

    mode: Literal["local_docker"] = "local_docker"
    otlp_http_endpoint: str
    query_api: QueryApi
    default_window_sec: int


class ObservabilityStatus(ServerMessage, frozen=True, kw_only=True, tag="observability_status"):
    """At link start."""

    enabled: bool
    observability: ObservabilityConfig


class HarnessContext(ServerMessage, frozen=True, kw_only=True, tag="harness_context"):
    """What the run is about; null while nobody said so."""

    context: Json


class ObservabilityQueryResult(ServerMessage, frozen=True, kw_only=True, tag="observability_query_result"):
    """What a store answered."""

    result: QueryResult


class HarnessSloResult(ServerMessage, frozen=True, kw_only=True, tag="harness_slo_result"):
    """Whether what was promised holds."""

    result: SloResult


_encoder = msgspec.json.Encoder()


def encode(message: ServerMessage) -> bytes:
    """The message as UTF-8 JSON, ``type`` first."""
    return _encoder.encode(message)

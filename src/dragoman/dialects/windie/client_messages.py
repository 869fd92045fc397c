"""What a client may say in WindieOS' protocol, typed (seed: Base Message Structure, Client -> Server; spec §3, §5).

Every object refuses fields that it does not name, but for tool data and the steps of a bundle. A field that may be left
out may be null, too, and is None then. Fields that the seed lacks and real clients send are accepted; they are marked
``*``.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET

from .agent_definition import AgentDefinition, Contribution
from .fields import Fault, Open, Shape, Text

MessageId = Annotated[str, Text(least=1, most=128, pattern=r"[A-Za-z0-9_-]+", trim=True)]
"""The seed says UUIDv4; both SDKs send others (spec §4)."""

UserId = Annotated[str, Text(least=1, most=128, pattern=r"[A-Za-z0-9_.@:-]+", trim=True)]
Filled = Annotated[str, Text(trim=True, filled=True)]
ConversationRef = Annotated[str, Text(trim=True, filled=True, most=512)]
"""Every event of the conversation repeats it, and it is its session's title."""

WorkspacePath = Annotated[str, Text(blank_is_null=True)]


class Handshake(Shape, frozen=True, kw_only=True):
    """A link's first message. ``user_id`` is a claim: a token says who it is."""

    type: Literal["handshake"]
    user_id: UserId
    agent_definition: AgentDefinition | None = None


class InstructionMessage(Shape, frozen=True, kw_only=True):
    """Instructions of the repository that a conversation is about."""

    role: Literal["user"]
    content: Annotated[str, Text(least=1, most=200_000)]


class Payload(Shape, frozen=True, kw_only=True):
    """What all payloads have in common: nothing."""


class Query(Payload, frozen=True, kw_only=True):
    """A prompt. ``content`` is what the model is to see; None: it is built (``content_of``)."""

    text: Annotated[str, Text(filled=True)]
    conversation_ref: ConversationRef
    content: str | None = None
    screenshot_ref: str | None = None
    screenshot_refs: tuple[str, ...] | None = None
    screenshot: str | None = None
    """* Inline, base64."""
    system_state_internal: dict[str, Any] | None = None
    workspace_path: WorkspacePath | None = None
    query_context: dict[str, Any] | None = None
    capture_meta: dict[str, Any] | None = None
    """*"""
    repo_instruction_messages: tuple[InstructionMessage, ...] | None = None
    """*"""
    client_prompt_layers: tuple[Contribution, ...] | None = None
    """*"""
    agent_definition: AgentDefinition | None = None
    """* What it leaves out of its manifest the handshake's has (``agent_definition.merged``)."""
    revision_id: str | None = None
    """*"""
    turn_ref: str | None = None
    """*"""


class StopQuery(Payload, frozen=True, kw_only=True):
    """* Stop this turn, this conversation's turns, or with neither all of the user's."""

    conversation_ref: ConversationRef | None = None
    turn_ref: Filled | None = None


class HistoryEntry(Shape, frozen=True, kw_only=True):
    """A message of a conversation as the client's own store has it."""

    role: Literal["user", "assistant", "tool"]
    content: str
    message_type: Literal["user_query", "assistant_response", "tool_output", "context_compaction"] | None = None
    tool_name: str | None = None
    correlation_id: str | None = None
    timestamp: str | None = None
    screenshot_ref: str | None = None
    screenshot: str | None = None
    """* Inline, base64."""
    tool_call_id: str | None = None
    """*"""
    tool_calls: Any = None
    """*"""
    transparency: Any = None
    """*"""
    structured_payload: Any = None
    """*"""
    structured_content: Any = None
    """*"""
    compaction_facts: Any = None
    """*"""


class RehydrateConversation(Payload, frozen=True, kw_only=True):
    """Put these messages in the place of a conversation's history: all of them, or with one fault none."""

    conversation_ref: ConversationRef
    messages: tuple[HistoryEntry, ...]
    rehydrate_mode: Literal["replace"]
    workspace_path: WorkspacePath | None = None
    repo_instruction_messages: tuple[InstructionMessage, ...] | None = None
    model_history: dict[str, Any] | None = None
    """*"""


class LoadSettings(Payload, frozen=True, kw_only=True):
    """Answered by ``settings-loaded``."""

    client_version: Annotated[str, Text(least=1, most=128)] | None = None


class ProviderKey(Shape, frozen=True, kw_only=True):
    """A key of a provider, which is a secret."""

    enabled: bool | None = None
    api_key: str | None = None

    def __repr__(self) -> str:
        return f"ProviderKey(enabled={self.enabled!r}, ***)"


ProviderKeys = Annotated[dict[str, ProviderKey], Text(pattern=r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")]
"""By the provider's name, which need not be one that is known here."""


class ToolSettings(Shape, frozen=True, kw_only=True):
    """* Which tools the user's sessions see."""

    mode: Literal["default", "default_plus_client", "client_only", "explicit"] = "default_plus_client"
    client_manifest: Any = None


class UpdateSettings(Payload, frozen=True, kw_only=True):
    """Change what is given. Values are checked by ``settings_problem``: those are no faults of the message."""

    model_mode: str | None = None
    model_provider: str | None = None
    selected_model_id: str | None = None
    interaction_mode: str | None = None
    speech_mode_enabled: bool | None = None
    wakeword_enabled: bool | None = None
    wakeword_stt_enabled: bool | None = None
    browser_automation_enabled: bool | None = None
    include_query_screenshot: bool | None = None
    provider_api_keys: ProviderKeys | None = None
    tools: ToolSettings | None = None
    """*"""
    agent_definition: AgentDefinition | None = None
    """*"""


class ListModels(Payload, frozen=True, kw_only=True):
    """Answered by ``models-listed``."""


class SystemState(Shape, frozen=True, kw_only=True):
    """What the model may know of the screen."""

    active_window: str
    mouse_position: str


class ToolData(Open, frozen=True, kw_only=True):
    """What a tool gave. ``output`` is any JSON, null too, and UNSET where a failure has none."""

    output: Any = UNSET
    system_state: SystemState | None = None
    system_state_internal: dict[str, Any] | None = None
    screenshot: str | None = None
    screenshot_ref: str | None = None
    capture_meta: dict[str, Any] | None = None


class ToolResult(Payload, frozen=True, kw_only=True):
    """How a ``tool-call`` ended. A failure may come without data, or with data that has no output."""

    request_id: Filled
    success: bool
    data: ToolData | None = None
    error: str | None = None

    def faults(self) -> Iterator[Fault]:
        if self.success and self.data is None:
            yield Fault("data", "field required")
        elif self.success and self.data is not None and self.data.output is UNSET:
            yield Fault("data.output", "field required")


class StepResult(Open, frozen=True, kw_only=True):
    """How a step of a bundle ended; by convention ``ok`` or ``error``."""

    tool: str
    status: str
    output: Any = None


class ToolBundleResult(Payload, frozen=True, kw_only=True):
    """How a ``tool-bundle`` ended."""

    bundle_id: Filled
    status: Literal["success", "partial_failure", "failure"]
    step_results: tuple[StepResult, ...]
    screenshot: str | None = None
    screenshot_ref: str | None = None
    capture_meta: dict[str, Any] | None = None
    system_state: dict[str, Any] | None = None
    error: str | None = None
    display_attachments: Any = None
    """*"""


class WakewordDetected(Payload, frozen=True, kw_only=True):
    """Answered by ``wakeword-activated``."""


class CompactHistory(Payload, frozen=True, kw_only=True):
    """* Shorten a conversation; without ``force`` only if it is time."""

    force: bool = True
    conversation_ref: ConversationRef | None = None


PAYLOADS: dict[str, type[Payload]] = {
    "query": Query,
    "stop-query": StopQuery,
    "rehydrate-conversation": RehydrateConversation,
    "load-settings": LoadSettings,
    "update-settings": UpdateSettings,
    "list-models": ListModels,
    "tool-result": ToolResult,
    "tool-bundle-result": ToolBundleResult,
    "wakeword-detected": WakewordDetected,
    "compact-history": CompactHistory,
}
"""Every message's payload, by its type."""


class Envelope(Shape, frozen=True, kw_only=True):
    """What is around a payload. ``user_id`` and ``timestamp`` are ignored: the link knows who it is, and when."""

    id: MessageId
    type: str
    payload: Any = UNSET
    user_id: str | None = None
    session_id: str | None = None
    conversation_ref: str | None = None
    turn_ref: str | None = None
    timestamp: Any = None


class ClientMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is one. ``id`` is what its answers repeat."""

    id: str
    payload: Payload
    session_id: str | None = None
    conversation_ref: str | None = None
    turn_ref: str | None = None


def content_of(query: Query) -> str:
    """What the model is to see of a query: its own ``content``, else memory and text in sections (spec §5 query).

    ``query_context`` may have ``episodic_memory`` and ``semantic_memory``, each a text or a list of texts. All that is
    put into a section is escaped as clients escape it, so that it cannot end the section.
    """
    if query.content is not None and query.content.strip():
        return query.content
    context = query.query_context or {}
    sections = (
        ("episodic_memory", _remembered(context.get("episodic_memory"))),
        ("semantic_memory", _remembered(context.get("semantic_memory"))),
        ("user_query", query.text),
    )
    return "\n\n".join(f"<{tag}>\n{html.escape(text, quote=False)}\n</{tag}>" for tag, text in sections)


def _remembered(memory: object) -> str:
    entries = memory if isinstance(memory, list) else [memory]
    text = "\n".join(entry for entry in entries if isinstance(entry, str))
    return text if text.strip() else "None"


def given_keys(settings: UpdateSettings) -> tuple[str, ...]:
    """The keys that an update gives, in the contract's order: what ``settings-updated`` lists."""
    return tuple(name for name in settings.__struct_fields__ if getattr(settings, name) is not None)


_VALUES = {"model_mode": ("online", "local"), "interaction_mode": ("chat", "agent")}
_NAMES = ("model_provider", "selected_model_id")


def settings_problem(settings: UpdateSettings) -> str | None:
    """``Invalid settings: ...`` for values that cannot be set; None when all can. Nothing of an update that has a
    problem may be applied."""
    wrong = [
        f"{name} must be {' or '.join(values)}"
        for name, values in _VALUES.items()
        if getattr(settings, name) not in {None, *values}
    ]
    wrong += [
        f"{name} must not be blank"
        for name in _NAMES
        if getattr(settings, name) is not None and not getattr(settings, name).strip()
    ]
    return f"Invalid settings: {'; '.join(wrong)}" if wrong else None

"""Introspection below ``/api/sdk/``: what the server would send to a model, and what it knows of models and tools.

Seed: "These routes expose backend-owned debug and introspection state"; spec §8 "Introspection". All of it only reads:
no session is made, no model is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from dragoman.hub.errors import InvalidRequest, Unsupported
from dragoman.hub.events import HistoryMessage, Json
from dragoman.hub.previews import Previewed
from dragoman.hub.providers import Preferred
from dragoman.services.user_settings import SettingsUnavailable

from .client_messages import UserId
from .config_snapshot import ConfigSnapshot, config_of, overridden
from .fields import Shape, Text
from .http_reading import invalid
from .messages import SystemPrompt, UserMessageFull
from .model_lists import model_lists
from .prompt_preview import InteractionMode, PlanRequest, Preview, PreviewRequest, preview
from .route import Call, Problem, Route
from .tool_capability import ToolCapability, capability_of
from .tool_specs import FunctionSpec, ProviderSpec, canonical_specs, provider_specs, transparent_specs
from .turn_settings import model_of

log = logging.getLogger("dragoman.windie")

NO_SETTINGS = "User settings not available"
NO_TOOL = "Tool not found"


class ConfigQuery(Shape, frozen=True, kw_only=True):
    """Whose settings, and what is put in their place. A blank value is none."""

    user_id: UserId | None = None
    model_id: Annotated[str, Text(most=256, blank_is_null=True)] | None = None
    model_provider: Annotated[str, Text(most=128, blank_is_null=True)] | None = None
    interaction_mode: InteractionMode | None = None


# Answers


class ModelsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The catalog; an entry has at least ``id``, ``provider`` and ``display_name``."""

    config: ConfigSnapshot
    models: tuple[dict[str, Any], ...]


class ToolSchemasAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All of the server's tools, and those that its model's provider would be sent."""

    config: ConfigSnapshot
    canonical_tool_schemas: tuple[FunctionSpec, ...]
    provider_tool_schemas: tuple[ProviderSpec, ...]


class ToolCapabilityAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. ``provider_tool_schema`` is null where the provider would not be sent it."""

    config: ConfigSnapshot
    capability: ToolCapability
    canonical_tool_schema: FunctionSpec | None
    provider_tool_schema: ProviderSpec | None


class SystemPromptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The system prompt as the model would have it."""

    config: ConfigSnapshot
    system_prompt: str


class PromptMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that the model would read: its text."""

    role: str
    content: str
    name: str | msgspec.UnsetType = msgspec.UNSET
    tool_call_id: str | msgspec.UnsetType = msgspec.UNSET


class PromptPreviewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model would be given. ``user_message_full`` is null where nobody says anything, ``prompt_token_count``
    where ``token_count_error`` says why it is not known."""

    config: ConfigSnapshot
    system_prompt: str
    prompt_messages: tuple[PromptMessage, ...]
    canonical_tool_schemas: tuple[FunctionSpec, ...]
    provider_tool_schemas: tuple[ProviderSpec, ...]
    user_message_full: UserMessageFull | None
    prompt_token_count: int | None
    token_count_error: str | None


class PlannedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The ``query`` that a client would send. ``payload`` has the text, and of the rest what the request gave."""

    type: Literal["query"] = "query"
    payload: dict[str, Any]


class SystemPromptEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=SystemPrompt.TYPE):
    """As the socket says it."""

    payload: SystemPrompt


class UserMessageEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=UserMessageFull.TYPE):
    """As the socket says it."""

    payload: UserMessageFull


class FlatToolSchemas(msgspec.Struct, frozen=True, kw_only=True):
    """As the socket says it, but flat."""

    tool_schemas: tuple[FunctionSpec, ...]


class ToolSchemasEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="tool-schemas"):
    """The tools that the model would be offered."""

    payload: FlatToolSchemas


TransparencyEvent = SystemPromptEvent | UserMessageEvent | ToolSchemasEvent


class QueryPlanAnswer(PromptPreviewAnswer, frozen=True, kw_only=True):
    """The preview, with the query that would be sent and what the socket would say before the model does."""

    query_message: PlannedQuery
    transparency_events: tuple[TransparencyEvent, ...]


# Routes


async def models(call: Call) -> ModelsAnswer:
    """``GET /api/sdk/models``"""
    preferences = await _preferences(call, call.query)
    usual = await call.host.providers.usual(
        _text(preferences, "model_provider"), model_of(_text(preferences, "selected_model_id"))
    )
    lists = await model_lists(call.host.providers)
    return ModelsAnswer(config=config_of(preferences, usual), models=lists.all)


async def tool_schemas(call: Call) -> ToolSchemasAnswer:
    """``GET /api/sdk/tool-schemas``"""
    config, seen = await _shown(call, call.query, PreviewRequest())
    return ToolSchemasAnswer(
        config=config,
        canonical_tool_schemas=canonical_specs(seen.shown),
        provider_tool_schemas=provider_specs(seen.shown),
    )


async def tool_capability(call: Call) -> ToolCapabilityAnswer:
    """``GET /api/sdk/tool-capabilities/{tool_name}``, by the contract's name of the tool or by our own."""
    config, seen = await _shown(call, call.query, PreviewRequest())
    canonical = {spec.name: spec for spec in canonical_specs(seen.shown)}
    capability = capability_of(call.path["tool_name"], seen.shown, call.host, chat=config.interaction_mode == "chat")
    if capability is None:
        raise Problem(404, NO_TOOL, code="TOOL_NOT_FOUND")
    provided = {spec.name: spec for spec in provider_specs(seen.shown)}
    return ToolCapabilityAnswer(
        config=config,
        capability=capability,
        canonical_tool_schema=canonical.get(capability.name),
        provider_tool_schema=provided.get(capability.provider_name),
    )


async def system_prompt(call: Call) -> SystemPromptAnswer:
    """``GET /api/sdk/system-prompt``"""
    config, seen = await _shown(call, call.query, PreviewRequest())
    return SystemPromptAnswer(config=config, system_prompt=seen.shown.system)


async def prompt_preview(call: Call) -> PromptPreviewAnswer:
    """``POST /api/sdk/prompt-preview``"""
    config, seen = await _shown(call, call.body, call.body)
    return PromptPreviewAnswer(**_previewed(call.body, config, seen))


async def query_plan(call: Call) -> QueryPlanAnswer:
    """``POST /api/sdk/query-plan``"""
    request: PlanRequest = call.body
    config, seen = await _shown(call, request, request)
    events: list[TransparencyEvent] = [SystemPromptEvent(payload=SystemPrompt(content=seen.shown.system))]
    if seen.user_message is not None:
        events.append(UserMessageEvent(payload=seen.user_message))
    if request.include_tools:
        events.append(ToolSchemasEvent(payload=FlatToolSchemas(tool_schemas=transparent_specs(seen.shown))))
    return QueryPlanAnswer(
        query_message=PlannedQuery(payload=_planned(request, seen.query)),
        transparency_events=tuple(events),
        **_previewed(request, config, seen),
    )


async def _preferences(call: Call, request: ConfigQuery | PreviewRequest) -> dict[str, Json]:
    """The settings of the user that a request is about, with what it says instead. Raises ``Problem``."""
    user = call.user_id(request.user_id)
    try:
        preferences = await call.host.users.read(user)
    except SettingsUnavailable as problem:
        log.warning("%s", problem)
        raise Problem(503, NO_SETTINGS) from problem
    return overridden(
        preferences,
        model_id=request.model_id,
        model_provider=request.model_provider,
        interaction_mode=request.interaction_mode,
    )


async def _shown(
    call: Call, request: ConfigQuery | PreviewRequest, prompt: PreviewRequest
) -> tuple[ConfigSnapshot, Preview]:
    """What a turn would give its model with this user's settings. Raises ``Problem``."""
    preferences = await _preferences(call, request)
    place = "query" if isinstance(request, ConfigQuery) else "body"
    try:
        seen = await preview(call.host, preferences, prompt)
    except InvalidRequest as problem:
        raise invalid([place, "model_provider"], str(problem)) from problem
    except Unsupported as problem:
        raise Problem(503, str(problem)) from problem
    return config_of(preferences, _answerer(seen.shown)), seen


def _answerer(shown: Previewed) -> Preferred | None:
    return Preferred(shown.provider, shown.model or "") if shown.provider is not None else None


def _previewed(request: PreviewRequest, config: ConfigSnapshot, seen: Preview) -> dict[str, Any]:
    """What the preview and the plan have in common. The count is of all that would be sent, also where the tools are
    not to be shown."""
    with_tools = request.include_tools
    return {
        "config": config,
        "system_prompt": seen.shown.system,
        "prompt_messages": tuple(map(_message, seen.shown.messages)),
        "canonical_tool_schemas": canonical_specs(seen.shown, seen.accepted) if with_tools else (),
        "provider_tool_schemas": provider_specs(seen.shown) if with_tools else (),
        "user_message_full": seen.user_message,
        "prompt_token_count": seen.shown.tokens,
        "token_count_error": seen.shown.uncounted,
    }


def _message(message: HistoryMessage) -> PromptMessage:
    return PromptMessage(
        role=message.role,
        content=str(message.content),
        name=message.tool if message.tool is not None else msgspec.UNSET,
        tool_call_id=message.call if message.call is not None else msgspec.UNSET,
    )


def _planned(request: PlanRequest, query: str) -> dict[str, Any]:
    """The payload: a text, and what the request gave of the rest, an agent definition without its nulls."""
    given: dict[str, Any] = {
        "conversation_ref": request.conversation_ref,
        "workspace_path": request.workspace_path,
        "agent_definition": _without_nulls(msgspec.to_builtins(request.agent_definition)),
    }
    return {"text": query, **{name: value for name, value in given.items() if value is not None}}


def _without_nulls(value: Any) -> Any:
    """A definition says the same without them: but not inside what a client puts there freely."""
    if not isinstance(value, dict):
        return [_without_nulls(each) for each in value] if isinstance(value, list | tuple) else value
    free = {"client_manifest", "metadata"}
    return {
        name: entry if name in free else _without_nulls(entry) for name, entry in value.items() if entry is not None
    }


def _text(preferences: Mapping[str, Json], name: str) -> str | None:
    value = preferences.get(name)
    return value if isinstance(value, str) and value else None


_OTHERS = "user_id is not that of the install whose token was shown"
_REFUSALS = {
    403: _OTHERS,
    422: "the request is not what the route takes, or names a provider that nobody has",
    503: "settings of users cannot be read, or a program of its own would run the turn",
}

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/api/sdk/models",
        summary="The model catalog",
        handler=models,
        query=ConfigQuery,
        answer=ModelsAnswer,
        refusals=_REFUSALS,
    ),
    Route(
        method="GET",
        path="/api/sdk/tool-schemas",
        summary="The server's tools, and those that a model would be offered",
        handler=tool_schemas,
        query=ConfigQuery,
        answer=ToolSchemasAnswer,
        refusals=_REFUSALS,
    ),
    Route(
        method="GET",
        path="/api/sdk/tool-capabilities/{tool_name}",
        summary="One of the server's tools",
        handler=tool_capability,
        query=ConfigQuery,
        answer=ToolCapabilityAnswer,
        refusals={**_REFUSALS, 404: NO_TOOL},
    ),
    Route(
        method="GET",
        path="/api/sdk/system-prompt",
        summary="The system prompt",
        handler=system_prompt,
        query=ConfigQuery,
        answer=SystemPromptAnswer,
        refusals=_REFUSALS,
    ),
    Route(
        method="POST",
        path="/api/sdk/prompt-preview",
        summary="What a model would be given, without asking it",
        handler=prompt_preview,
        body=PreviewRequest,
        answer=PromptPreviewAnswer,
        refusals=_REFUSALS,
    ),
    Route(
        method="POST",
        path="/api/sdk/query-plan",
        summary="What a query would be, and what the socket would say before the model does",
        handler=query_plan,
        body=PlanRequest,
        answer=QueryPlanAnswer,
        refusals=_REFUSALS,
    ),
)

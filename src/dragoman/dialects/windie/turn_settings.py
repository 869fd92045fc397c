"""What a turn is run with: the session's settings and the client's tools, for one that runs and for a preview of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.hub.events import Json
from dragoman.hub.tool_offers import ToolOffer

from .agent_definition import AgentDefinition, Contribution, prompt_layers_of, visible_tools
from .client_manifest import AcceptedTool
from .projection import WIRE_NAMES
from .settings import WindieSettings

SERVERS_OWN = ("web_search",)
"""What conversations are offered unasked, by its wire name."""

_OUR_NAMES = {wire: ours for ours, wire in WIRE_NAMES.items()}

PROMPT = """\
You are a helpful assistant. What you can do is done by tools, most of which run on the person's own machine: call \
them rather than guess, look before you change anything, and change no more than was asked. Say what you found or did \
in plain words, and be brief. When something is unclear and guessing would cost more than asking, ask. Never say that \
you did something that you did not do, and never invent a result."""
"""The system prompt of a conversation that may not touch this host: it says nothing of it."""

MODEL_VARIANT = "@@"
"""What follows it in a model's id says how the model is to think; the model itself is before it."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn is to be run with. ``accepted`` are the client's tools that hold, ``preferences`` the user's
    settings, ``layers`` and ``instructions`` come with the query alone; ``workspace`` is where the client works, if
    that is not where the session does: it is only told to the model."""

    definition: AgentDefinition | None
    accepted: tuple[AcceptedTool, ...] = ()
    preferences: Mapping[str, Json] = {}
    layers: tuple[Contribution, ...] = ()
    instructions: tuple[str, ...] = ()
    workspace: str | None = None


class TurnSettings(msgspec.Struct, frozen=True):
    """``session`` are settings, null where the server's own hold; ``offers`` is what the client's link offers."""

    session: dict[str, Json]
    offers: tuple[ToolOffer, ...]


def turn_settings(wanted: Wanted, settings: WindieSettings) -> TurnSettings:
    """The settings of such a turn, the same for the same wishes. A client chooses among what the server's policy allows
    and adds its own tools; it makes nothing else available (spec §3)."""
    chat = wanted.preferences.get("interaction_mode") == "chat"
    accepted = () if chat else _used(wanted)
    available = SERVERS_OWN if chat else (*SERVERS_OWN, *settings.host_tools)
    visible = visible_tools(wanted.definition, available, accepted, available)
    clients = {tool.name for tool in accepted}
    replaced = wanted.definition.system_prompt.replacement if wanted.definition is not None else None
    return TurnSettings(
        {
            "system_prompt": replaced if replaced is not None or settings.host_tools else PROMPT,
            "instructions": _instructions(wanted) or None,
            "enabled_tools": [_OUR_NAMES.get(name, name) for name in visible if name not in clients],
            "provider": _text(wanted.preferences.get("model_provider")),
            "model": model_of(_text(wanted.preferences.get("selected_model_id"))),
        },
        tuple(_offer(tool) for tool in accepted if tool.name in visible),
    )


def model_of(selected: str | None) -> str | None:
    """The model that a client's id of one means."""
    return selected.partition(MODEL_VARIANT)[0] or None if selected is not None else None


def _used(wanted: Wanted) -> tuple[AcceptedTool, ...]:
    """The client's tools, but for its browser where the user has switched that off."""
    if wanted.preferences.get("browser_automation_enabled") is False:
        return tuple(tool for tool in wanted.accepted if tool.name != "browser")
    return wanted.accepted


def _instructions(wanted: Wanted) -> str:
    """What is added to the system prompt: layers by priority, the query's own last, and what is known of the client."""
    layers = (*prompt_layers_of(wanted.definition), *sorted(wanted.layers, key=lambda layer: layer.priority))
    runtime = wanted.definition.runtime if wanted.definition is not None else None
    system = runtime.operating_system if runtime is not None else None
    about = [
        *([f"The user's operating system: {system}"] if system else []),
        *([f"The user's workspace, on their own machine: {wanted.workspace}"] if wanted.workspace else []),
    ]
    return "\n\n".join([*(layer.content for layer in layers), *wanted.instructions, *about])


def _offer(tool: AcceptedTool) -> ToolOffer:
    detail: dict[str, Json] = {"argument_resolution": tool.argument_resolution}
    return ToolOffer(name=tool.name, description=tool.description, parameters=tool.model_schema, detail=detail)


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None

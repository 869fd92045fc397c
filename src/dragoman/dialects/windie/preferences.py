"""A user's settings, and what else is asked beside conversations (spec §5 load-settings, update-settings, list-models,
wakeword-detected).

Settings are the user's, on all their links. A key of a provider is the server's and goes to its key store: it is in no
settings, no reply, no log. Tools and agent definition are the link's, whose client runs those tools.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import Json

from .agent_definition import AgentDefinition, merged
from .callers import Caller
from .client_manifest import AcceptedTool, validate_manifest
from .client_messages import ClientMessage, UpdateSettings, given_keys, settings_problem
from .host import Host
from .messages import Error, ModelsListed, SettingsLoaded, SettingsUpdated, WakewordActivated, WakewordGreeting
from .model_lists import model_lists, programs

if TYPE_CHECKING:
    from .link import WindieLink

log = logging.getLogger("dragoman.windie")

GREETING = "Hello! I'm listening."
"""What is said to the wake word: the contract's own words."""

DEFAULTS: dict[str, Json] = {
    "model_mode": "online",
    "model_provider": "",
    "selected_model_id": "",
    "interaction_mode": "agent",
    "speech_mode_enabled": False,
    "wakeword_enabled": False,
    "wakeword_stt_enabled": False,
    "browser_automation_enabled": True,
    "include_query_screenshot": True,
}
"""What holds for a user who has set nothing, in the contract's order. Provider and model are then whoever would answer
now; they are empty where nobody could."""

PROVIDER_KEYS = "provider_api_keys"
_ENABLED = f"{PROVIDER_KEYS}."
"""What precedes a provider's name in the setting that says whether its key is to be used. Each is a setting of its own,
so that two links that change two of them do not undo each other."""

_LONGEST = {"model_provider": 128, "selected_model_id": 256}
_KEY_CHARS = 4096


async def load_settings(link: WindieLink, host: Host, message: ClientMessage) -> None:
    """Answer ``settings-loaded``."""
    link.reply(message.id, SettingsLoaded(config=await config_of(host, _caller(link).user_id)))


async def update_settings(link: WindieLink, host: Host, message: ClientMessage) -> None:
    """Change what is given, from the next query on, and answer ``settings-updated``; or nothing at all, and an
    ``error``. Raises ``StorageUnavailable``, ``LimitReached``."""
    wanted = message.payload
    assert isinstance(wanted, UpdateSettings)
    caller = _caller(link)
    try:
        keys = _keys(wanted, caller, host)
        definition, accepted = await _definition(link, wanted)
        async with host.users.changing(caller.user_id) as change:
            for provider, key in keys.items():
                await host.providers.set_key(provider, key)
            if changes := _changes(wanted):
                await change(changes)
    except InvalidRequest as problem:
        log.info("CONFIG_ERROR: settings of %s are refused: %.300r", caller.user_id, str(problem))
        link.reply(message.id, Error(message=f"Invalid settings: {problem}"))
        return
    link.definition, link.accepted = definition, accepted
    link.reply(message.id, SettingsUpdated(updated_keys=given_keys(wanted)))


async def list_models(link: WindieLink, host: Host, message: ClientMessage) -> None:
    """Answer ``models-listed``."""
    lists = await model_lists(host.providers)
    link.reply(message.id, ModelsListed(local=lists.local, online=lists.online, vision=lists.vision))


async def wakeword_detected(link: WindieLink, host: Host, message: ClientMessage) -> None:
    """Greet, in text: this server does not speak, whatever the user has set. Also where the wake word is switched off,
    since a client waits for the answer."""
    del host
    link.reply(message.id, WakewordActivated(speech_mode_enabled=False, greeting=GREETING))
    link.reply(message.id, WakewordGreeting(text=GREETING))


async def config_of(host: Host, user_id: str) -> dict[str, Json]:
    """A user's settings in full, as ``settings-loaded`` has them, with every ``api_key`` empty.

    Raises ``SettingsUnavailable``.
    """
    chosen = await host.users.read(user_id)
    config = {name: chosen.get(name, default) for name, default in DEFAULTS.items()}
    if not (config["model_provider"] and config["selected_model_id"]):
        config.update(await _usual(host, chosen))
    enabled = {name.removeprefix(_ENABLED): value for name, value in chosen.items() if name.startswith(_ENABLED)}
    return {**config, PROVIDER_KEYS: {name: {"enabled": value, "api_key": ""} for name, value in enabled.items()}}


# Inside


def _caller(link: WindieLink) -> Caller:
    assert link.caller is not None
    return link.caller


async def _usual(host: Host, chosen: Mapping[str, Json]) -> dict[str, Json]:
    """Who would answer, where the user has chosen no provider or no model; what they have chosen stays."""
    provider, model = (_text(chosen.get(name)) for name in ("model_provider", "selected_model_id"))
    found = await host.providers.usual(provider, model)
    return {
        "model_provider": provider or (found.provider if found is not None else ""),
        "selected_model_id": model or (found.model if found is not None else ""),
    }


def _keys(wanted: UpdateSettings, caller: Caller, host: Host) -> dict[str, str]:
    """The keys to set, by provider, once all that is wanted can be set. Raises ``InvalidRequest``."""
    if problem := settings_problem(wanted):
        raise InvalidRequest(problem.removeprefix("Invalid settings: "))
    for name, most in _LONGEST.items():
        if len(getattr(wanted, name) or "") > most:
            raise InvalidRequest(f"{name} must have at most {most} characters")
    if (wanted.model_provider or "").strip() in programs(host.providers):
        raise InvalidRequest("model_provider is a program with tools of its own, which runs no such conversation")
    given = wanted.provider_api_keys or {}
    keys = {name: entry.api_key.strip() for name, entry in given.items() if entry.api_key and entry.api_key.strip()}
    if keys and not caller.trusted:
        raise InvalidRequest(f"{PROVIDER_KEYS} of this server are set by whoever runs it")
    known = host.providers.auth_methods()
    for name, key in keys.items():
        if name not in known:
            raise InvalidRequest(f"{PROVIDER_KEYS}.{name}: this server has no such provider; it has {', '.join(known)}")
        if len(key) > _KEY_CHARS or not key.isascii() or not key.isprintable() or " " in key:
            raise InvalidRequest(f"{PROVIDER_KEYS}.{name}.api_key cannot be a key")
    return keys


def _changes(wanted: UpdateSettings) -> dict[str, Json]:
    """What goes to the user's log. A provider whose key is given is enabled, unless that is denied."""
    changes: dict[str, Json] = {
        name: value.strip() if isinstance(value, str) else value
        for name in DEFAULTS
        if (value := getattr(wanted, name)) is not None
    }
    for name, entry in (wanted.provider_api_keys or {}).items():
        enabled = entry.enabled if entry.enabled is not None else bool(entry.api_key) or None
        if enabled is not None:
            changes[_ENABLED + name] = enabled
    return changes


async def _definition(
    link: WindieLink, wanted: UpdateSettings
) -> tuple[AgentDefinition | None, tuple[AcceptedTool, ...]]:
    """The link's definition after this update, and the client's tools in it that hold."""
    definition = merged(link.definition, wanted.agent_definition)
    if wanted.tools is not None:
        before = definition or AgentDefinition()
        manifest = wanted.tools.client_manifest
        kept = before.tools.client_manifest if manifest is None else manifest
        tools = msgspec.structs.replace(before.tools, mode=wanted.tools.mode, client_manifest=kept)
        definition = msgspec.structs.replace(before, tools=tools)
    if definition is None or definition is link.definition:
        return link.definition, link.accepted
    if definition.tools.client_manifest is None:
        return definition, ()
    accepted, rejected = await asyncio.to_thread(validate_manifest, definition.tools.client_manifest)
    for tool in rejected:
        log.info("TOOL_VALIDATION_ERROR: tool %.100r of new settings is not used: %s", tool.name, tool.reason)
    return definition, accepted


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None

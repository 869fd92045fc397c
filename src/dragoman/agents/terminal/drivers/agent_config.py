"""Settings of an agent that somebody gives us, to be joined with ours: read and held to their shape in one place.

They come from coop's ``--agent-config``, from the driven command's own ``--settings`` and from the machine. What we do
not touch passes as it is; everything that cannot be used is an ``InvalidRequest`` of one line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.common.files import open_regular
from dragoman.hub.errors import NOT_JSON, InvalidRequest
from dragoman.hub.events import Json

CONFIG_BYTES = 1024 * 1024
"""One such file, or all of an ``agent_config``."""

CONFIG_DEPTH = 64
"""How deep lists and objects may lie in one another."""


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``--agent-config`` may hold beside ``stop`` and ``start``: the agent's settings, its MCP servers by name."""

    settings: dict[str, Json] | None = None
    mcp: dict[str, dict[str, Json]] | None = None


class _Permissions(msgspec.Struct):
    allow: list[str] | None = None
    ask: list[str] | None = None
    deny: list[str] | None = None


class _Settings(msgspec.Struct):
    """As much of an agent's settings as we add to."""

    hooks: dict[str, Any] | None = None
    permissions: _Permissions | None = None


def agent_config(given: Mapping[str, Any], events: Collection[str]) -> AgentConfig:
    """An ``agent_config`` for an agent to whose hooks for ``events`` ours are added. Raises ``InvalidRequest``."""
    _check_bounds(given, "agent_config")
    config: AgentConfig = _shaped(given, AgentConfig, "agent_config")
    check_settings(config.settings or {}, "agent_config: settings", events)
    return config


def check_settings(settings: Mapping[str, Any], what: str, events: Collection[str]) -> None:
    """Raise ``InvalidRequest`` for settings that ours cannot be joined with."""
    hooks = _shaped(settings, _Settings, what).hooks or {}
    for event in events:
        _shaped(hooks.get(event), list[dict[str, Any]] | None, f"{what}: hooks.{event}")


def read_settings(path: Path, what: str, events: Collection[str]) -> dict[str, Any]:
    """A settings file. Raises ``InvalidRequest``, and ``FileNotFoundError`` where there is none."""
    try:
        with open_regular(path) as file:
            data = file.read(CONFIG_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise InvalidRequest(f"{what} cannot be read: {problem.strerror}; give a JSON file") from problem
    except ValueError as problem:
        raise InvalidRequest(f"{what} is no path; give a JSON file") from problem
    return parse_settings(data, what, events)


def parse_settings(text: bytes | str, what: str, events: Collection[str]) -> dict[str, Any]:
    """Settings as JSON. Raises ``InvalidRequest``."""
    settings = parse_object(text, what)
    check_settings(settings, what, events)
    return settings


def parse_object(text: bytes | str, what: str) -> dict[str, Any]:
    """One JSON object within our bounds. Raises ``InvalidRequest``."""
    if len(text) > CONFIG_BYTES:
        raise InvalidRequest(f"{what} is larger than {CONFIG_BYTES} bytes")
    if isinstance(text, bytes):
        text = text.removeprefix(b"\xef\xbb\xbf")  # some editors begin a file with this mark
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        raise InvalidRequest(f"{what} is nested deeper than {CONFIG_DEPTH}") from None
    except NOT_JSON as problem:
        raise InvalidRequest(f"{what} is not JSON in UTF-8: {problem}") from problem
    if not isinstance(value, dict):
        raise InvalidRequest(f"{what} holds no JSON object")
    _check_bounds(value, what)
    return value


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two settings: the second wins, but the entries of both are kept for a hook, the first's before."""
    hooks = dict(first.get("hooks") or {})
    for event, entries in (second.get("hooks") or {}).items():
        held = hooks.get(event)
        if entries is None:
            continue
        hooks[event] = [*held, *entries] if isinstance(held, list) and isinstance(entries, list) else entries
    return {**first, **second, **({"hooks": hooks} if hooks else {})}


def with_hooks(
    settings: Mapping[str, Any], events: Collection[str], entry: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """Checked settings with our ``entry`` behind the others' for each of these hooks."""
    hooks = dict(settings.get("hooks") or {})
    for event in events:
        hooks[event] = [*(hooks.get(event) or ()), entry(event)]
    return {**settings, "hooks": hooks}


def _shaped(value: Any, shape: Any, what: str) -> Any:
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as problem:
        raise InvalidRequest(f"{what}: {problem}") from problem


def _check_bounds(value: Mapping[str, Any], what: str) -> None:
    if _is_deeper(value, CONFIG_DEPTH):
        raise InvalidRequest(f"{what} is nested deeper than {CONFIG_DEPTH}")
    try:
        size = len(msgspec.json.encode(value))
    except (TypeError, ValueError) as problem:
        raise InvalidRequest(f"{what} holds what JSON cannot: {problem}") from problem
    if size > CONFIG_BYTES:
        raise InvalidRequest(f"{what} is larger than {CONFIG_BYTES} bytes")


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, (Mapping, list))]
    return bool(level)


def _inside(value: Mapping[str, Any] | list[Any]) -> Collection[Any]:
    return value.values() if isinstance(value, Mapping) else value

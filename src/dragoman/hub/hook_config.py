"""The session settings ``stop_config`` and ``start_config``: what an agent's hooks are told (coop's forms of them)."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

from .errors import NOT_JSON, InvalidRequest, LimitReached
from .events import Json

STOP_CONFIG = "stop_config"
START_CONFIG = "start_config"

CONFIG_BYTES = 64 * 1024
"""One of these settings, as JSON. They are in the log each time they change, and go to the agent."""

T = TypeVar("T")


class StopField(msgspec.Struct, frozen=True):
    """A field that the signal should have. ``descriptions`` explain the values of ``enum``."""

    required: bool = False
    enum: tuple[str, ...] | None = None
    descriptions: dict[str, str] | None = None
    description: str | None = None


class StopSchema(msgspec.Struct, frozen=True):
    """What the signal should look like. It tells the agent; nothing is held to it."""

    fields: dict[str, StopField]


class StopConfig(msgspec.Struct, frozen=True):
    """When the agent may stop.

    ``allow``: always. ``signal`` (or ``auto``): once a signal was given, and it is told how to give it. ``gate``: the
    same, but somebody else gives it.
    """

    mode: Literal["allow", "signal", "auto", "gate"] = "allow"
    prompt: str | None = None
    schema: StopSchema | None = None


class StartScript(msgspec.Struct, frozen=True):
    """``text`` to be shown to the agent, then ``shell`` lines to be run."""

    text: str | None = None
    shell: tuple[str, ...] = ()


class StartConfig(msgspec.Struct, frozen=True):
    """What an agent's session is begun with; an entry of ``event`` for its source replaces the rest."""

    text: str | None = None
    shell: tuple[str, ...] = ()
    event: dict[str, StartScript] = {}


def stop_config(settings: dict[str, Json]) -> StopConfig:
    """The setting; the default where it is not given. Raises ``InvalidRequest``."""
    return _read(StopConfig, STOP_CONFIG, settings.get(STOP_CONFIG))


def start_config(settings: dict[str, Json]) -> StartConfig:
    """The setting; the default where it is not given. Raises ``InvalidRequest``."""
    return _read(StartConfig, START_CONFIG, settings.get(START_CONFIG))


def check_hook_settings(changes: dict[str, Json]) -> None:
    """Raise ``InvalidRequest`` or ``LimitReached`` for settings that no hook could be answered from."""
    stop_config(changes)
    start = start_config(changes)
    scripts = [start.shell, *(entry.shell for entry in start.event.values())]
    if any("\0" in line for lines in scripts for line in lines):
        raise InvalidRequest(f"{START_CONFIG}: a shell line cannot hold NUL")
    for name in (STOP_CONFIG, START_CONFIG):
        try:
            size = len(msgspec.json.encode(changes.get(name)))
        except (TypeError, *NOT_JSON) as problem:
            raise InvalidRequest(f"{name} holds what JSON cannot: {problem}") from problem
        if size > CONFIG_BYTES:
            raise LimitReached(f"{name} is larger than {CONFIG_BYTES} bytes")


def _read(shape: type[T], name: str, value: Any) -> T:
    try:
        return msgspec.convert({} if value is None else value, shape)
    except msgspec.ValidationError as problem:
        raise InvalidRequest(f"{name}: {problem}") from problem

"""The environment variables of the program ``coop``, for ``dragoman run``: below ours and below flags.

Those in milliseconds fall back to the default when they are no number, as there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.server.settings import log_level

from .serving import Flags

_SETTINGS: dict[str, tuple[str, ...]] = {
    "COOP_HOST": ("server", "host"),
    "COOP_PORT": ("server", "port"),
    "COOP_SOCKET": ("server", "socket"),
    "COOP_HEALTH_PORT": ("server", "health_port"),
    "COOP_AUTH_TOKEN": ("server", "token"),
    "COOP_RING_SIZE": ("terminal", "tape"),
}

_MILLISECONDS: dict[str, tuple[str, ...]] = {
    "COOP_IDLE_TIMEOUT_MS": ("run", "idle_timeout"),
    "COOP_DRAIN_TIMEOUT_MS": ("run", "drain_timeout"),
    "COOP_SHUTDOWN_TIMEOUT_MS": ("run", "shutdown_timeout"),
    "COOP_SCREEN_DEBOUNCE_MS": ("terminal", "screen_interval"),
    "COOP_LOG_POLL_MS": ("terminal", "driver", "log_interval"),
    "COOP_INPUT_DELAY_MS": ("terminal", "driver", "input_delay"),
    "COOP_INPUT_DELAY_PER_BYTE_MS": ("terminal", "driver", "input_delay_per_byte"),
    "COOP_INPUT_DELAY_MAX_MS": ("terminal", "driver", "input_delay_max"),
    "COOP_NUDGE_TIMEOUT_MS": ("terminal", "driver", "nudge_timeout"),
}

OPTIONS = {
    "agent": "COOP_AGENT",
    "agent_config": "COOP_AGENT_CONFIG",
    "attach": "COOP_ATTACH",
    "cols": "COOP_COLS",
    "rows": "COOP_ROWS",
    "resume": "COOP_RESUME",
    "groom": "COOP_GROOM",
}
"""Options of ``run`` that are no settings."""


_LOG = {"COOP_LOG_LEVEL": ("log", "level"), "COOP_LOG_FORMAT": ("log", "json")}


def table() -> str:
    """The variables and what each of them gives, as docs/dialects/coop.md lists them."""
    rows = [(name, f"`{'.'.join(path)}`") for name, path in {**_SETTINGS, **_LOG}.items()]
    rows += [(name, f"`{'.'.join(path)}`, in milliseconds") for name, path in _MILLISECONDS.items()]
    rows += [(name, f"`--{option.replace('_', '-')}`") for option, name in OPTIONS.items()]
    return "\n".join(["| variable | gives |", "|---|---|", *(f"| `{name}` | {what} |" for name, what in sorted(rows))])


def settings_from(environment: Mapping[str, str]) -> Flags:
    """The part of the settings tree that these variables give."""
    tree: Flags = {}
    for name, path in _SETTINGS.items():
        if environment.get(name):
            _put(tree, path, environment[name])
    for name, path in _MILLISECONDS.items():
        if (seconds := _seconds(environment.get(name))) is not None:
            _put(tree, path, seconds)
    if level := environment.get("COOP_LOG_LEVEL"):
        _put(tree, ("log", "level"), log_level(level))
    if form := environment.get("COOP_LOG_FORMAT"):
        _put(tree, ("log", "json"), form.lower() == "json")
    return tree


def _put(tree: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


def _seconds(text: str | None) -> float | None:
    """Milliseconds as seconds; None for what is no whole number."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) < 16):
        return None
    return int(text) / 1000

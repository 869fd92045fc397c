"""The script that an agent's start hook runs: text for the agent's context, then shell lines (coop's start hook)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

import msgspec

from dragoman.hub.events import HookAnswered, Json
from dragoman.hub.hook_config import StartConfig


class Start(msgspec.Struct, frozen=True):
    """The script, empty when there is nothing to inject, and the fact that must be durable before it is given."""

    script: str
    fact: HookAnswered


def begin(config: StartConfig, payload: Mapping[str, Json]) -> Start:
    """The answer to a start hook with this payload."""
    source = source_of(payload)
    script = compose(config, source)
    session = payload.get("session_id")
    return Start(
        script,
        HookAnswered(
            hook="start",
            source=source,
            agent_session=session if isinstance(session, str) else None,
            injected=bool(script),
        ),
    )


def source_of(payload: Mapping[str, Json]) -> str:
    """What set the hook off, in the agent's own word."""
    for name in ("source", "session_type"):
        value = payload.get(name)
        if isinstance(value, str) and value:
            return value
    return "unknown"


def compose(config: StartConfig, source: str) -> str:
    """An entry for the source replaces the rest entirely, also when it is empty."""
    entry = config.event.get(source)
    text, shell = (config.text, config.shell) if entry is None else (entry.text, entry.shell)
    lines = [f"printf %s {b64encode(text.encode()).decode()} | base64 -d"] if text else []
    return "\n".join([*lines, *(line for line in shell if line.strip())])

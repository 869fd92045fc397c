"""Settings of MCP servers (``[native.mcp]``)."""

from __future__ import annotations

from typing import Literal

import msgspec

from dragoman.agents.common.ending import KillSchedule


class McpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How servers of tools are reached, and how much of them is taken. Times are seconds."""

    project_servers: Literal["ask", "trust", "ignore"] = "ask"
    """Servers that a project wants: ``ask`` a person before one is started or reached, ``trust`` them like the person's
    own, or ``ignore`` them."""

    first_wait: float = 1.0
    """How long a turn waits for servers that are new to it; those that come later are there in a later step."""

    connect_seconds: float = 30.0
    """For a server to start, say what it is and list its tools."""

    retry_delay: float = 1.0
    """Before the second try; each next one waits that much longer than the one before."""

    retry_longest: float = 60.0
    """The longest of these waits."""

    rest_seconds: float = 30.0
    """A server that was tried in vain is tried again by a turn, but no sooner than after this."""

    steady_seconds: float = 60.0
    """A server that was there for so long before it was lost is reached again without delay; one that is lost sooner,
    ever later."""

    idle_seconds: float = 1800.0
    """Servers of a session in which no turn began for so long are ended, until the next one begins. 0 never does."""

    call_seconds: float = 120.0
    """For one call of a tool."""

    tools: int = 128
    """Tools that one session takes of all its servers."""

    schema_bytes: int = 32 * 1024
    """Length of the description of one tool's input, as JSON; a tool with a longer one is left out."""

    message_bytes: int = 8 * 1024 * 1024
    """Length of one message of a server; one that sends a longer one is let go."""

    message_values: int = 200_000
    """JSON values in one message: each costs far more than its length. A server that sends more is let go."""

    result_chars: int = 50_000
    """Characters of a tool's result that are kept and given to the model."""

    ending: KillSchedule = KillSchedule()
    """When to become ruder to a server's program that is to end; its standard input is closed before."""

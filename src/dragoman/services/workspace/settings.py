"""Settings of the ``[workspace]`` section: how much of what a person and a project wrote is taken."""

from __future__ import annotations

import msgspec


class WorkspaceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is taken of what a person and a project wrote for agents (``~/.agent``, ``.agent``)."""

    config_bytes: int = 256 * 1024
    """Size of one ``config.json`` or ``mcp-servers.json``; a larger one is skipped."""

    commands: int = 256
    """Slash commands that one layer may have; the rest is skipped."""

    servers: int = 64
    """MCP servers that one layer may have; the rest is skipped."""

    memory_bytes: int = 32_000
    """Of each ``AGENT.md``; what is beyond is cut off."""

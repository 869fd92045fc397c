"""The WorkspaceConfigs port: what a person and a project want in a folder, merged from the layers that say so."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

import msgspec

Layer = Literal["built-in", "user", "project"]


class CommandTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A slash command of the configuration."""

    template: str
    description: str | None = None
    source: Literal["command", "mcp", "skill"] = "command"


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """One MCP server. A ``stdio`` one has a command, others a URL. Environment and headers may hold secrets.

    ``layer`` is who wants it: what a project wants is not what the person wants. ``required``: a turn without it fails.
    ``retries`` are further tries of a connection that failed. ``trusted``: its tools run without being asked about.
    """

    name: str
    layer: Layer
    transport: Literal["stdio", "http", "sse"]
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    required: bool = False
    retries: int = 3
    trusted: bool = False

    def __repr__(self) -> str:
        return f"McpServer(name={self.name!r}, layer={self.layer!r}, transport={self.transport!r})"


class QueryEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Base URLs of the stores that can be asked."""

    logs: str
    metrics: str
    traces: str


class Observability(msgspec.Struct, frozen=True, kw_only=True):
    """Where telemetry goes, and where it can be asked for. ``default_window`` is in seconds, at least 1."""

    enabled: bool
    otlp_endpoint: str
    queries: QueryEndpoints
    default_window: int


class WorkspaceConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the layers say together. Folders are absolute. ``problems`` are lines for people: what was skipped, and why.

    None stands for what no layer says: the server's own settings decide.
    """

    provider: str | None
    model: str | None
    sub_agent_model: str | None
    working_directory: Path
    output_directory: Path
    uploads_directory: Path
    user_name: str | None
    knowledge_cutoff: str | None
    enable_mcp: bool
    observability: Observability
    report_only: bool
    strict_mode: bool
    commands: dict[str, CommandTemplate]
    mcp_servers: tuple[McpServer, ...]
    memory: str | None
    """What the person and the project want every agent to know (``AGENT.md``)."""
    problems: tuple[str, ...] = ()


class WorkspaceConfigs(Protocol):
    """See the module."""

    async def read(self, cwd: Path) -> WorkspaceConfig:
        """What holds in this folder now. Never fails for what a layer says: that layer's part is skipped."""

    def read_blocking(self, cwd: Path) -> WorkspaceConfig:
        """As ``read``, for who is in a thread already."""

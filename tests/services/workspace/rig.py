"""A person's home, a project, an environment: what the layers of configuration are read from in these tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dragoman.hub.workspace_config import McpServer, WorkspaceConfig
from dragoman.services.workspace import LayeredConfigs, WorkspaceSettings

PROVIDERS = ("google", "openai", "anthropic", "ollama")

SECRET = "sk-this-must-be-in-no-line"


class Rig:
    """``person``, ``project`` and ``built_in`` are the folders of the layers' files."""

    def __init__(self, folder: Path, settings: WorkspaceSettings | None = None) -> None:
        self.home = folder / "home"
        self.cwd = folder / "project"
        self.person = self.home / ".agent"
        self.project = self.cwd / ".agent"
        self.built_in = folder / "built-in" / "config"
        for each in (self.person, self.project, self.built_in):
            each.mkdir(parents=True)
        self.environment: dict[str, str] = {}
        self.configs = LayeredConfigs(self.home, self.environment, PROVIDERS, settings=settings)

    def say(self, folder: Path, **said: Any) -> None:
        """Write a layer's ``config.json``."""
        name = "defaults.json" if folder == self.built_in else "config.json"
        if folder == self.built_in:
            self.environment["COWORK_BUILTIN_DIR"] = str(folder.parent)
        (folder / name).write_bytes(msgspec.json.encode(said))

    def want(self, folder: Path, *servers: object) -> None:
        """Write a layer's ``mcp-servers.json``."""
        if folder == self.built_in:
            self.environment["COWORK_BUILTIN_DIR"] = str(folder.parent)
        (folder / "mcp-servers.json").write_bytes(msgspec.json.encode({"servers": servers}))

    async def read(self) -> WorkspaceConfig:
        config = await self.configs.read(self.cwd)
        assert SECRET not in repr(config.problems)
        return config

    async def servers(self) -> dict[str, McpServer]:
        return {server.name: server for server in (await self.read()).mcp_servers}


def stdio(name: str, command: str = "serve", **more: Any) -> dict[str, Any]:
    """An entry of ``mcp-servers.json``; ``more`` goes into its transport."""
    return {"name": name, "transport": {"type": "stdio", "command": command, **more}}


def http(name: str, url: str = "https://mcp.example/", **more: Any) -> dict[str, Any]:
    return {"name": name, "transport": {"type": "http", "url": url, **more}}

"""A native hub whose folder wants MCP servers, and the servers: real programs, most made with the official library."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.agents.common.ending import KillSchedule
from dragoman.agents.common.processes import MARKER
from dragoman.agents.native.factory import NativeFactory
from dragoman.agents.native.mcp.settings import McpSettings
from dragoman.agents.native.providers.port import Provider
from dragoman.agents.native.providers.scripted import Scripted
from dragoman.agents.native.settings import ToolLimits
from dragoman.hub.events import AnyFact, LogWritten, ToolEnded
from dragoman.hub.session import Session
from dragoman.hub.workspace_config import McpServer, Observability, QueryEndpoints, WorkspaceConfig
from tests.agents.native.native_rig import QUICK, NativeHub, OneModel
from tests.hub.rig import PATIENCE, InMemory, Store, proven, until

DEMO = Path(__file__).with_name("demo_server.py")

MCP = McpSettings(
    first_wait=10.0,
    connect_seconds=10.0,
    retry_delay=0.02,
    rest_seconds=0.0,
    call_seconds=10.0,
    ending=KillSchedule(terminate=0.2, kill=0.4),
)
"""Settings under which a healthy server is there in the first turn, however slow the machine."""

NOTHING = QueryEndpoints(logs="", metrics="", traces="")


class Configs:
    """A folder's configuration, as the test says. ``servers`` and ``enable`` may change between turns."""

    def __init__(self, *servers: McpServer, enable: bool = True) -> None:
        self.servers: tuple[McpServer, ...] = servers
        self.enable = enable
        self.reads = 0

    async def read(self, cwd: Path) -> WorkspaceConfig:
        return self.read_blocking(cwd)

    def read_blocking(self, cwd: Path) -> WorkspaceConfig:
        self.reads += 1
        return WorkspaceConfig(
            provider=None,
            model=None,
            sub_agent_model=None,
            working_directory=cwd,
            output_directory=cwd / "output",
            uploads_directory=cwd / "uploads",
            user_name=None,
            knowledge_cutoff=None,
            enable_mcp=self.enable,
            observability=Observability(enabled=False, otlp_endpoint="", queries=NOTHING, default_window=300),
            report_only=True,
            strict_mode=False,
            commands={},
            mcp_servers=self.servers,
            memory=None,
        )


def demo(name: str = "demo", **more: Any) -> McpServer:
    """The entry of a demo server: the person's own, and trusted, unless the test says otherwise."""
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    env = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more.pop("env", {})}
    usual: dict[str, Any] = {"layer": "user", "transport": "stdio", "trusted": True, "retries": 0}
    return McpServer(name=name, command=sys.executable, args=(str(DEMO),), env=env, **{**usual, **more})


def program(name: str, script: str, **more: Any) -> McpServer:
    """The entry of a server that is a few lines of Python."""
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    usual: dict[str, Any] = {"layer": "user", "transport": "stdio", "trusted": True, "retries": 0}
    return McpServer(name=name, command=sys.executable, args=("-c", script), **{**usual, **more})


@asynccontextmanager
async def mcp_hub(
    folder: Path,
    configs: Configs,
    *,
    provider: Provider | None = None,
    store: Store | None = None,
    consents: Path | None = None,
    **mcp: Any,
) -> AsyncIterator[NativeHub]:
    """A hub whose native sessions have these servers; its logs are held to the grammar afterwards."""
    settings = msgspec.structs.replace(
        QUICK, mcp=msgspec.structs.replace(MCP, **mcp), tools=ToolLimits(command_progress=0.0)
    )
    factory = NativeFactory(OneModel(provider or Scripted()), settings, configs=configs, consents=consents)
    async with proven(NativeHub(store or InMemory(), folder, factories=[factory])) as hub:
        assert isinstance(hub, NativeHub)
        yield hub


def lines(facts: Sequence[AnyFact]) -> list[str]:
    """What was said of the servers."""
    return [fact.line for fact in facts if isinstance(fact, LogWritten) and fact.line.startswith("[MCP]")]


def ends(facts: Sequence[AnyFact]) -> list[ToolEnded]:
    """How the calls ended."""
    return [fact for fact in facts if isinstance(fact, ToolEnded)]


def text_of(end: ToolEnded) -> Any:
    """The text of a result's first block."""
    assert isinstance(end.output, dict), end
    return end.output["content"][0]["text"]  # type: ignore[index, call-overload]


async def said(session: Session, part: str) -> str:
    """Wait until something was said of the servers, and return it."""
    async with asyncio.timeout(PATIENCE):
        async for event in session.follow(0):
            if isinstance(event.fact, LogWritten) and part in event.fact.line:
                return event.fact.line
    raise AssertionError(f"nobody said {part!r}")


async def noted(file: Path, line: str) -> None:
    """Wait until a server has written this line."""
    await until(lambda: file.exists() and line in file.read_text().splitlines(), f"{line!r} in {file.name}")


def alive(session: str) -> list[int]:
    """The processes that carry the session's marker, by the process table itself."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
                ended = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
            except OSError:
                continue
            if f"{MARKER}={session}/".encode() in environment and not ended:
                found.append(int(entry.name))
    return found

"""Tools of MCP servers in turns: found, named, called, answered, cancelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.hub.events import ToolCalled
from tests.agents.native.native_rig import of, outcome, script

from .mcp_rig import Configs, demo, ends, lines, mcp_hub, text_of


async def test_a_servers_tools_are_there_in_the_first_turn(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(demo())) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script('call mcp__demo__add {"a": 2, "b": 3}'))
        (call,) = of(facts, ToolCalled)
        assert (call.tool, call.dynamic, call.executor, call.title) == ("mcp__demo__add", True, "server", "demo: add")
        (end,) = ends(facts)
        assert (end.status, text_of(end)) == ("ok", "5")
        assert lines(facts) == ["[MCP] Connected to demo: 12 tools"]
        assert outcome(facts) == "completed"

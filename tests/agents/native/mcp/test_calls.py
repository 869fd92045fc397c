"""Tools of MCP servers in turns: found, named, called, answered, cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from dragoman.agents.native.providers.conversation import ModelRequest, ToolMessage
from dragoman.agents.native.providers.port import StreamEvent
from dragoman.agents.native.providers.scripted import Scripted
from dragoman.hub.events import PartStarted, ToolCalled, ToolProgressed
from dragoman.hub.permissions import LOCAL
from dragoman.hub.tool_offers import ToolOffer
from tests.agents.native.native_rig import asked, of, outcome, script, settled
from tests.hub.rig import until

from .mcp_rig import Configs, demo, ends, lines, mcp_hub, noted, program, text_of


class Recording(Scripted):
    """The scripted model, and what it was given each time."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        self.requests.append(request)
        async for event in super().stream(request, raw=raw):
            yield event

    @property
    def names(self) -> list[str]:
        return [tool.name for tool in self.requests[-1].tools]

    def tool(self, name: str) -> Any:
        return next(tool for tool in self.requests[-1].tools if tool.name == name)


async def test_a_servers_tools_are_there_in_the_first_turn(tmp_path: Path) -> None:
    model = Recording()
    async with mcp_hub(tmp_path, Configs(demo()), provider=model) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script('call mcp__demo__add {"a": 2, "b": 3}'))
        (call,) = of(facts, ToolCalled)
        assert (call.tool, call.dynamic, call.executor, call.title) == ("mcp__demo__add", True, "server", "demo: add")
        assert of(facts, PartStarted)[0].dynamic
        (end,) = ends(facts)
        assert (end.status, end.output["content"], end.output["isError"]) == (
            "ok",
            [{"type": "text", "text": "5"}],
            False,
        )
        assert lines(facts) == ["[MCP] Connected to demo: 13 tools"]
        assert outcome(facts) == "completed"
        assert isinstance(said := model.requests[-1].messages[-1], ToolMessage)
        assert said.text == "5"
        schema = model.tool("mcp__demo__add").schema
        assert (schema["type"], schema["properties"]["a"]["type"]) == ("object", "integer")
        again = await hub.turn(session, script('call mcp__demo__echo {"text": "again"}'))
        assert text_of(ends(again)[0]) == "again"
        assert lines(again) == [], "it stays connected from turn to turn"


async def test_a_tool_named_like_ours_never_takes_its_place(tmp_path: Path) -> None:
    """Row 18 of the originals' known bugs: an MCP tool replaced a built-in one in silence."""
    model = Recording()
    async with mcp_hub(tmp_path, Configs(demo()), provider=model) as hub:
        session = await hub.session()
        facts = await hub.turn(
            session, script('call bash {"command": "echo ours"}\ncall mcp__demo__bash {"command": "theirs"}')
        )
        ours, theirs = sorted(ends(facts), key=lambda end: end.tool)
        assert ours.output["stdout"] == "ours\n"
        assert text_of(theirs) == "not a shell: theirs"
        assert model.names.count("bash") == 1


async def test_two_servers_with_the_same_tools_are_told_apart(tmp_path: Path) -> None:
    configs = Configs(demo("the demo"), demo("the.demo"))
    model = Recording()
    async with mcp_hub(tmp_path, configs, provider=model) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script("say nothing"))
        found = [name for name in model.names if name.startswith("mcp__the_demo__add")]
        assert len(found) == 2
        assert found[0] == "mcp__the_demo__add"
        told = [line for line in lines(facts) if "add of the.demo is called" in line]
        assert told == [f"[MCP] add of the.demo is called {found[1]}"]
        facts = await hub.turn(session, script(f'call {found[1]} {{"a": 1, "b": 1}}'))
        (call,) = of(facts, ToolCalled)
        assert call.title == "the.demo: add"
        assert not [line for line in lines(facts) if "is called" in line], "it is said once"


async def test_a_clients_tool_and_a_servers_never_share_a_name(tmp_path: Path) -> None:
    model = Recording()
    async with mcp_hub(tmp_path, Configs(demo()), provider=model) as hub:
        session = await hub.session()
        before = await session.declare_tools(LOCAL, "link", [ToolOffer(name="mcp__demo__add", description="theirs")])
        assert before.accepted == ("mcp__demo__add",)
        facts = await hub.turn(session, script("say nothing"))
        assert model.names.count("mcp__demo__add") == 1
        assert model.tool("mcp__demo__add").description == "theirs"
        assert any("add of demo is called mcp__demo__add_" in line for line in lines(facts))
        after = await session.declare_tools(LOCAL, "other", [ToolOffer(name="mcp__demo__echo")])
        assert [refused.name for refused in after.rejected] == ["mcp__demo__echo"]


async def test_a_failed_call_is_no_success(tmp_path: Path) -> None:
    """Row 26 of the originals' known bugs: ``isError`` was shown as a success."""
    async with mcp_hub(tmp_path, Configs(demo())) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script('call mcp__demo__fail {"why": "out of luck"}'))
        (end,) = ends(facts)
        assert end.status == "error"
        assert "out of luck" in end.problem.message
        assert outcome(facts) == "completed"


async def test_arguments_that_are_no_object_are_not_sent(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with mcp_hub(tmp_path, Configs(demo(env={"NOTES": str(notes)}))) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script("call mcp__demo__hang [1]\ncall mcp__demo__hang nonsense"))
        assert [(end.status, end.problem.code) for end in ends(facts)] == [("error", "invalid_input")] * 2
        assert "hang begins" not in notes.read_text()


async def test_a_picture_is_named_with_its_size(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(demo())) as hub:
        session = await hub.session()
        (end,) = ends(await hub.turn(session, script("call mcp__demo__picture {}")))
        assert end.output["content"] == [{"type": "image", "mimeType": "image/png", "bytes": 104}]
        assert end.detail["model_text"] == "[image: image/png, 104 bytes; not shown]"


async def test_progress_is_shown(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(demo())) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script('call mcp__demo__steps {"count": 3}'))
        shown = [fact.output for fact in of(facts, ToolProgressed)]
        assert shown[0] == {"progress": 1.0, "total": 3.0, "message": "step 1"}
        assert text_of(ends(facts)[0]) == "done"


async def test_a_cancelled_turn_cancels_the_call_at_the_server(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with mcp_hub(tmp_path, Configs(demo(env={"NOTES": str(notes)}))) as hub:
        session = await hub.session()
        await hub.submit(session, script("call mcp__demo__hang {}"))
        await noted(notes, "hang begins")
        await session.cancel(LOCAL, via="test")
        await noted(notes, "hang cancelled")
        facts = await hub.turn(session, script('call mcp__demo__echo {"text": "still there"}'))
        assert text_of(ends(facts)[0]) == "still there"
        assert lines(facts) == []


async def test_a_call_that_takes_too_long_ends_and_is_cancelled_at_the_server(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with mcp_hub(tmp_path, Configs(demo(env={"NOTES": str(notes)})), call_seconds=0.2) as hub:
        session = await hub.session()
        (end,) = ends(await hub.turn(session, script("call mcp__demo__hang {}")))
        assert end.status == "error"
        assert "gave no answer within 0.2 s" in end.problem.message
        await noted(notes, "hang cancelled")


async def test_a_new_tool_is_there_in_the_next_step(tmp_path: Path) -> None:
    model = Recording()
    async with mcp_hub(tmp_path, Configs(demo()), provider=model) as hub:
        session = await hub.session()
        await hub.turn(session, script('call mcp__demo__grow {"name": "newcomer"}'))
        servers = session.ensure_agent()._mcp  # type: ignore[attr-defined]
        held = servers._held["demo"].server
        await until(lambda: "newcomer" in [tool.name for tool in held.tools], "the new list")
        facts = await hub.turn(session, script("call mcp__demo__newcomer {}"))
        assert text_of(ends(facts)[0]) == "I am newcomer"


async def test_a_server_learns_the_sessions_folder(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(demo())) as hub:
        session = await hub.session()
        (end,) = ends(await hub.turn(session, script("call mcp__demo__roots {}")))
        assert text_of(end) == tmp_path.as_uri()


@pytest.mark.parametrize("what", ["model", "person"])
async def test_a_server_can_have_no_model_and_no_person_asked(tmp_path: Path, what: str) -> None:
    async with mcp_hub(tmp_path, Configs(demo())) as hub:
        session = await hub.session()
        (end,) = ends(await hub.turn(session, script(f'call mcp__demo__ask_client {{"what": "{what}"}}')))
        assert text_of(end).startswith("refused: ")
        assert not session.state.decisions


def test_servers_run_on_the_servers_own_loop(tmp_path: Path) -> None:
    async def turn() -> None:
        async with mcp_hub(tmp_path, Configs(demo())) as hub:
            session = await hub.session()
            facts = await hub.turn(session, script('call mcp__demo__add {"a": 2, "b": 3}'))
            assert text_of(ends(facts)[0]) == "5"

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(turn())


async def test_a_disabled_tool_is_not_offered(tmp_path: Path) -> None:
    model = Recording()
    async with mcp_hub(tmp_path, Configs(demo()), provider=model) as hub:
        session = await hub.session(disabled_tools=["mcp__demo__add"])
        await hub.turn(session, script("say nothing"))
        assert "mcp__demo__add" not in model.names
        assert "mcp__demo__echo" in model.names


async def test_only_so_many_tools_are_taken(tmp_path: Path) -> None:
    model = Recording()
    async with mcp_hub(tmp_path, Configs(demo()), provider=model, tools=3) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script("say nothing"))
        assert len([name for name in model.names if name.startswith("mcp__")]) == 3
        assert "[MCP] Left out tools of demo: 3 are taken (native.mcp.tools)" in lines(facts)


ODD = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "odd", "version": "1"}}
    elif asked.get("method") == "tools/list":
        if "cursor" not in asked.get("params", {}):
            result = {"tools": [{"name": "broken", "inputSchema": 7}, {"name": 5},
                                {"name": "first", "inputSchema": {"type": "object"}}], "nextCursor": "more"}
        else:
            result = {"tools": [{"name": "second", "inputSchema": {"type": "object"}, "description": None}]}
    elif asked.get("method") == "tools/call":
        result = {"content": [{"type": "text", "text": asked["params"]["name"]}, 5, {"type": "text"}],
                  "structuredContent": {"a": 1}}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def test_a_broken_tool_costs_no_other_and_every_page_is_read(tmp_path: Path) -> None:
    model = Recording()
    async with mcp_hub(tmp_path, Configs(program("odd", ODD)), provider=model) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script("call mcp__odd__second {}"))
        assert [name for name in model.names if name.startswith("mcp__")] == ["mcp__odd__first", "mcp__odd__second"]
        assert "[MCP] Left out broken of odd: its input is described by no schema" in lines(facts)
        (end,) = ends(facts)
        assert text_of(end) == "second"
        assert end.output["structuredContent"] == {"a": 1}


async def test_only_general_subagents_have_them_and_only_of_trusted_servers(tmp_path: Path) -> None:
    model = Recording()
    configs = Configs(demo(), demo("strange", trusted=False))
    async with mcp_hub(tmp_path, configs, provider=model) as hub:
        session = await hub.session()
        task = script('call mcp__demo__echo {"text": "from below"}').replace("\n", "\\n")
        facts = await hub.turn(
            session, script(f'call spawnAgent {{"agentType": "general", "task": "{_quoted(task)}"}}')
        )
        assert "from below" in [text_of(end) for end in ends(facts) if end.tool == "mcp__demo__echo"]
        given = [name for request in model.requests[1:2] for name in (tool.name for tool in request.tools)]
        assert "mcp__demo__echo" in given
        assert not [name for name in given if name.startswith("mcp__strange")]
        await hub.turn(session, script('call spawnAgent {"agentType": "explore", "task": "look"}'))
        explored = model.requests[-2]
        assert not [tool.name for tool in explored.tools if tool.name.startswith("mcp__")]


def _quoted(text: str) -> str:
    return text.replace('"', '\\"')


async def test_a_waiting_permission_ends_with_its_turn(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(demo(trusted=False))) as hub:
        session = await hub.session()
        await hub.submit(session, script('call mcp__demo__echo {"text": "hello"}'))
        opened = await asked(session)
        assert opened.call is not None
        await session.cancel(LOCAL, via="test")
        await settled(session)
        assert not session.state.decisions

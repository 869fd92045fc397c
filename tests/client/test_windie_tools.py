"""Tools that a Windie client runs in its own process."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman.client.windie import Agent, McpServer, McpUnavailable, OutOfSequence, Tool, ToolNotUsable
from dragoman.client.windie.mcp import narrowed
from tests.client.windie_fake import Message, Served, awake

NOTES = "tests.client.windie_tools"
DEMO = Path(__file__).parents[1] / "agents" / "native" / "mcp" / "demo_server.py"


async def outcome(tool: Any, **parameters: Any) -> Message:
    """The payload of the result of one call of this tool."""
    name = tool["name"] if isinstance(tool, dict) else tool.name
    results: list[Message] = []

    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        results.append(await turn.call(name, **parameters))
        await turn.end("done")

    async with awake(talk, tools=[tool]) as agent:
        assert await agent.ask("go", "conv", limit=20) == "done"
    return results[0]


def done(output: Any) -> Message:
    return {"request_id": "req-1", "success": True, "data": {"output": output}, "error": None}


def failed(error: str) -> Message:
    return {"request_id": "req-1", "success": False, "data": {"output": error}, "error": error}


async def test_a_module_tool_is_offered_and_called() -> None:
    offered: list[Message] = []

    async def talk(served: Served) -> None:
        handshake = await served.begin()
        offered.append(handshake["agent_definition"]["tools"])
        turn = await served.turn()
        results = [await turn.call("save_note", text="milk"), await turn.call("count", "req-2")]
        assert [result["data"]["output"] for result in results] == ["saved milk", {"of": "all", "count": 3}]
        await turn.end("done")

    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    tools = [
        {"name": "save_note", "module": f"{NOTES}:save_note", "schema": schema},
        {"name": "count", "module": f"{NOTES}:Notes.count", "description": "Count notes."},
    ]
    async with awake(talk, tools=tools) as agent:
        assert await agent.ask("go", "conv", limit=10) == "done"
        assert [tool["name"] for tool in agent.accepted] == ["save_note", "count"]
    more = {"execution_target": "local_runtime", "argument_resolution": "passthrough"}
    empty = {"type": "object", "properties": {}}
    assert offered == [
        {
            "mode": "default_plus_client",
            "client_manifest": {
                "version": 1,
                "tools": [
                    {"name": "save_note", "description": "Keep a note.", "schema": schema, **more},
                    {"name": "count", "description": "Count notes.", "schema": empty, **more},
                ],
            },
        }
    ]


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ({"name": "t"}, "needs a handler"),
        ({"name": "t", "module": "no_such_module_here:f"}, "was not found"),
        ({"name": "t", "module": f"{NOTES}:nothing"}, "was not found"),
        ({"name": "t", "module": f"{NOTES}:NOT_A_FUNCTION"}, "no function"),
        ({"name": "t", "handler": print, "shema": {}}, "unknown keys: shema"),
        ({"description": "nameless", "handler": print}, "needs a name"),
    ],
)
async def test_a_tool_that_cannot_be_called_is_said_before_anything_is_connected(tool: Message, why: str) -> None:
    async def talk(served: Served) -> None:
        raise AssertionError("nothing was to connect")

    with pytest.raises(ToolNotUsable, match=why):
        async with awake(talk, tools=[tool]):
            pass


async def test_a_sync_tool_runs_in_a_thread_and_an_async_one_on_the_loop() -> None:
    here = threading.get_ident()

    async def on_loop() -> bool:
        return threading.get_ident() == here

    in_thread = Tool(name="t", handler=lambda: threading.get_ident() == here)
    assert await outcome(in_thread) == done(output=False)
    assert await outcome(Tool(name="t", handler=on_loop)) == done(output=True)


async def test_a_tool_that_raises_fails_with_its_words() -> None:
    def broken(path: str) -> str:
        raise OSError(f"no file {path}")

    assert await outcome(Tool(name="t", handler=broken), path="/x") == failed("no file /x")
    wrong = await outcome(Tool(name="t", handler=broken), file="/x")
    assert wrong["success"] is False
    assert "unexpected keyword argument 'file'" in wrong["error"]


async def test_a_tool_that_ends_its_thread_fails_the_call_only() -> None:
    def leave() -> None:
        sys.exit(3)

    assert await outcome(Tool(name="t", handler=leave)) == failed("the tool raised SystemExit(3)")


async def test_a_tool_has_so_much_time_and_no_more() -> None:
    release = threading.Event()

    def stuck() -> None:
        release.wait(30)

    async def forever() -> None:
        await asyncio.Event().wait()

    async def own() -> None:
        raise TimeoutError("the site did not answer")

    try:
        assert await outcome(Tool(name="t", handler=stuck, timeout=0.05)) == failed("t did not end within 0.05 s")
    finally:
        release.set()
    assert await outcome(Tool(name="t", handler=forever, timeout=0.05)) == failed("t did not end within 0.05 s")
    assert await outcome(Tool(name="t", handler=own)) == failed("the site did not answer")


async def test_an_output_that_is_no_json_is_a_failure_and_none_is_said_in_words() -> None:
    assert await outcome(Tool(name="t", handler=lambda: None)) == done("Tool t executed successfully (no output).")
    assert (await outcome(Tool(name="t", handler=object)))["error"] == "Object of type object is not JSON serializable"


async def test_a_tool_that_is_not_here_is_said_to_be_none() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        assert await turn.call("browser") == failed("there is no tool browser here")
        await turn.end("done")

    async with awake(talk) as agent:
        assert await agent.ask("go", "conv", limit=10) == "done"


async def bundled(steps: list[Message]) -> Message:
    """The result of a bundle, of the tools ``fine``, ``broken`` and ``quiet``."""
    results: list[Message] = []
    order: list[str] = []

    async def fine(text: str) -> Message:
        await asyncio.sleep(0)
        order.append(text)
        return {"said": text}

    def broken(text: str) -> None:
        order.append(text)
        raise ValueError(f"not {text}")

    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        await turn.tell("tool-bundle", bundle_id="bun-1", tools=steps)
        results.append((await served.hear("tool-bundle-result"))["payload"])
        await turn.end("done")

    tools: list[Message] = [
        {"name": "fine", "handler": fine},
        {"name": "broken", "handler": broken},
        {"name": "quiet", "handler": lambda text: order.append(text)},  # noqa: PLW0108  append takes no keyword
    ]
    async with awake(talk, tools=tools) as agent:
        assert await agent.ask("go", "conv", limit=10) == "done"
    assert order == [step["args"]["text"] for step in steps if "metadata" not in step]
    return results[0]


async def test_a_bundle_runs_in_order_and_says_what_became_of_each_step() -> None:
    fine, quiet = {"name": "fine", "args": {"text": "a"}}, {"name": "quiet", "args": {"text": "b"}}
    assert await bundled([fine, quiet]) == {
        "bundle_id": "bun-1",
        "status": "success",
        "step_results": [
            {"tool": "fine", "status": "ok", "output": {"said": "a"}},
            {"tool": "quiet", "status": "ok", "output": "Tool quiet executed successfully (no output)."},
        ],
        "error": None,
    }


async def test_a_bundle_of_which_a_step_fails_goes_on_and_is_a_partial_failure() -> None:
    broken, fine = {"name": "broken", "args": {"text": "a"}}, {"name": "fine", "args": {"text": "b"}}
    step = {"tool": "broken", "status": "error", "output": "not a", "error": "not a"}
    mixed = await bundled([broken, fine])
    assert mixed["status"] == "partial_failure"
    assert mixed["step_results"] == [step, {"tool": "fine", "status": "ok", "output": {"said": "b"}}]
    assert mixed["error"] == "broken: not a"
    assert await bundled([broken]) == {
        "bundle_id": "bun-1",
        "status": "failure",
        "step_results": [step],
        "error": "broken: not a",
    }


async def test_a_step_that_the_server_runs_is_not_run_here() -> None:
    skipped = {"name": "fine", "args": {"text": "a"}, "metadata": {"skip_local_execution": True}}
    result = await bundled([skipped, {"name": "fine", "args": {"text": "b"}}])
    assert result["step_results"] == [{"tool": "fine", "status": "ok", "output": {"said": "b"}}]


async def test_what_the_server_runs_what_has_no_id_and_what_came_before_is_not_run() -> None:
    ran: list[str] = []

    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        skip = {"tool_call_id": "c", "skip_local_execution": True}
        given = {"tool_name": "t"}
        await turn.tell("tool-call", parameters={"text": "skipped"}, request_id="req-0", metadata=skip, **given)
        await turn.tell("tool-call", parameters={"text": "nameless"}, **given)
        await turn.call("t", "req-1", text="once")
        await turn.tell("tool-call", parameters={"text": "again"}, request_id="req-1", **given)
        await turn.call("t", "req-2", text="other")  # whose result is the next that is heard
        await turn.end("done")
        turn = await served.turn()
        await turn.call("t", "req-1", text="another turn's")
        await turn.end("done")

    keep = Tool(name="t", handler=lambda text: ran.append(text))  # noqa: PLW0108  append takes no keyword
    async with awake(talk, tools=[keep]) as agent:
        assert await agent.ask("go", "conv", limit=10) == "done"
        assert await agent.ask("go", "conv", limit=10) == "done"
    assert ran == ["once", "other", "another turn's"]


async def test_a_slow_tool_holds_up_no_other_call() -> None:
    fast = asyncio.Event()

    async def slow() -> str:
        await fast.wait()
        return "slow"

    async def quick() -> str:
        fast.set()
        return "quick"

    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        await turn.tell("tool-call", tool_name="slow", parameters={}, request_id="req-s")
        await turn.tell("tool-call", tool_name="quick", parameters={}, request_id="req-q")
        results = [(await served.hear("tool-result"))["payload"]["request_id"] for _ in range(2)]
        assert sorted(results) == ["req-q", "req-s"]
        await turn.end("done")

    tools = [Tool(name="slow", handler=slow), Tool(name="quick", handler=quick)]
    async with awake(talk, tools=tools) as agent:
        assert await agent.ask("go", "conv", limit=10) == "done"


async def test_a_call_for_a_turn_that_is_over_here_is_refused_and_not_run() -> None:
    ran: list[str] = []
    refused = asyncio.Event()

    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        turn.event("streaming-response", text="lost")
        await turn.tell("streaming-response", text="b")
        result = await turn.call("t", text="x")
        assert result["success"] is False
        assert "the turn is over here" in result["error"]
        refused.set()

    keep = Tool(name="t", handler=lambda text: ran.append(text))  # noqa: PLW0108  append takes no keyword
    async with awake(talk, tools=[keep]) as agent:
        with pytest.raises(OutOfSequence, match="where 1 was due"):
            await agent.ask("go", "conv", limit=10)
        async with asyncio.timeout(10):
            await refused.wait()
    assert ran == []


async def test_tools_that_the_server_does_not_take_are_known() -> None:
    async def talk(served: Served) -> None:
        await served.begin({"web_search": "reserved backend tool names cannot be overridden"})

    tools = [Tool(name="web_search", handler=print), Tool(name="mine", handler=print)]
    async with awake(talk, tools=tools) as agent:
        assert [tool["name"] for tool in agent.accepted] == ["mine"]
        assert [tool["reason"] for tool in agent.rejected] == ["reserved backend tool names cannot be overridden"]


async def test_a_plugin_is_defined_and_its_tools_run_here() -> None:
    async def talk(served: Served) -> None:
        definition = (await served.begin())["agent_definition"]
        assert definition["plugins"] == [{"id": "notes", "name": "Notes"}]
        turn = await served.turn()
        assert await turn.call("save_note", text="x") == done("saved x")
        await turn.end("done")

    plugin = {"id": "notes", "name": "Notes", "tools": [{"name": "save_note", "module": f"{NOTES}:save_note"}]}
    async with awake(talk, plugins=[plugin]) as agent:
        assert await agent.ask("go", "conv", limit=10) == "done"


async def test_tools_of_an_mcp_server_are_offered_and_called() -> None:
    pytest.importorskip("mcp")

    async def talk(served: Served) -> None:
        handshake = await served.begin()
        offered = {tool["name"]: tool for tool in handshake["agent_definition"]["tools"]["client_manifest"]["tools"]}
        assert offered["mcp__demo__echo"]["description"] == "Say it again."
        assert offered["mcp__demo__add"]["schema"]["required"] == ["a", "b"]
        turn = await served.turn()
        assert await turn.call("mcp__demo__echo", text="hello") == done("hello")
        failure = await turn.call("mcp__demo__fail", "req-2", why="too late")
        assert (failure["success"], "too late" in failure["error"]) == (False, True)
        await turn.end("done")

    demo = {"name": "demo", "command": sys.executable, "args": [str(DEMO)]}
    async with awake(talk, mcp_servers=[demo]) as agent:
        assert await agent.ask("go", "conv", limit=20) == "done"


async def test_an_mcp_server_that_does_not_start_is_a_clear_error() -> None:
    pytest.importorskip("mcp")
    with pytest.raises(McpUnavailable, match="the MCP server demo did not start"):
        await _wake_with(McpServer(name="demo", command="/no/such/program"))
    with pytest.raises(McpUnavailable, match="a name and a command"):
        await _wake_with({"name": "demo", "url": "http://127.0.0.1"})


async def test_without_the_library_an_mcp_server_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mcp", "mcp.client", "mcp.client.session"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(McpUnavailable, match=r"pip install 'dragoman\[mcp\]'"):
        await _wake_with(McpServer(name="demo", command=sys.executable))


def test_a_schema_is_narrowed_to_what_a_manifest_may_say() -> None:
    assert narrowed(
        {
            "$schema": "x",
            "type": "object",
            "properties": {"examples": {"type": "array", "uniqueItems": True, "items": {"examples": [1]}}},
            "anyOf": [{"not": {}, "type": "object"}],
        }
    ) == {
        "type": "object",
        "properties": {"examples": {"type": "array", "items": {}}},
        "anyOf": [{"type": "object"}],
    }


async def _wake_with(server: Any) -> Agent:
    async def talk(served: Served) -> None:
        raise AssertionError("nothing was to connect")

    async with awake(talk, mcp_servers=[server]) as agent:
        return agent

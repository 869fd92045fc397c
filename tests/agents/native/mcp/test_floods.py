"""Servers that send too much of something small: none of it holds up anybody else, or takes memory without end."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from dragoman.agents.native.mcp.hiding import EntrySecrets
from dragoman.agents.native.mcp.schema import UnusableSchema, usable_schema
from dragoman.hub.workspace_config import McpServer
from tests.agents.native.native_rig import outcome, script

from .mcp_rig import Configs, lines, mcp_hub, program, said

LONGEST_STALL = 2.0
"""Seconds that nobody may be held up; what is tested here took several, or had no end."""

SHAKEN = """
import fcntl, json, os, sys
if hasattr(fcntl, "F_SETPIPE_SZ"): fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)
def read(): return json.loads(sys.stdin.readline())
def write(data):
    while data: data = data[os.write(1, data):]
def answer(asked, result): write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode() + b"\\n")
info = {"name": "n", "version": "1"}
answer(read(), {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
read()
answer(read(), {"tools": TOOLS})
"""
ONE_TOOL = [{"name": "one", "inputSchema": {"type": "object"}}]


def flooding(then: str, tools: object = ONE_TOOL) -> McpServer:
    """A server that lists these tools, and then does that."""
    return program("flood", SHAKEN.replace("TOOLS", repr(tools)) + then)


@asynccontextmanager
async def no_stall() -> AsyncIterator[None]:
    """Holds whoever runs in it to letting others have their turn."""
    loop = asyncio.get_running_loop()
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began = loop.time()
            await asyncio.sleep(0.01)
            longest = max(longest, loop.time() - began)

    watching = asyncio.create_task(watch())
    try:
        yield
        await asyncio.sleep(0.02)
    finally:
        watching.cancel()
    assert longest < LONGEST_STALL


def test_blank_lines_without_end_hold_up_nobody(tmp_path: Path) -> None:
    """On the server's own loop, which reads as long as there is something to read."""
    blank = 'for _ in range(150): write(b"\\n" * 65536)\nread()'

    async def work() -> None:
        async with mcp_hub(tmp_path, Configs(flooding(blank))) as hub, no_stall():
            session = await hub.session()
            facts = await hub.turn(session, script("say hello"))
            assert outcome(facts) == "completed"
            assert any("Connected to flood" in line for line in lines(facts))

    uvloop.run(work())


async def test_a_message_of_too_many_values_is_not_taken_apart(tmp_path: Path) -> None:
    start = b'{"jsonrpc": "2.0", "method": "x", "params": {"a": ['
    many = f'write({start!r} + b"[]," * 2_600_000 + b"0]}}}}\\n")\nread()'
    async with mcp_hub(tmp_path, Configs(flooding(many))) as hub, no_stall():
        session = await hub.session()
        await hub.turn(session, script("say hello"))
        line = await said(session, "Lost flood")
        assert "it sent a message of more than 200000 values (native.mcp.message_values)" in line


async def test_a_long_text_full_of_json_is_no_message_of_many_values(tmp_path: Path) -> None:
    text = 'read_ = read()\nanswer(read_, {"content": [{"type": "text", "text": json.dumps([{}] * 300_000)}]})\nread()'
    async with mcp_hub(tmp_path, Configs(flooding(text))) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script("call mcp__flood__one {}"))
        assert outcome(facts) == "completed"
        assert not any("Lost" in line for line in lines(facts))


async def test_of_a_list_without_end_only_so_much_is_looked_at(tmp_path: Path) -> None:
    listing = flooding("read()").args[1].replace(repr(ONE_TOOL), '[{"name": f"t{n}"} for n in range(40_000)]')
    async with mcp_hub(tmp_path, Configs(program("flood", listing))) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script("say hello"))
        assert any("Connected to flood: 1000 tools" in line for line in lines(facts))


@pytest.mark.parametrize("filling", [{"enum": [0] * 12_000}, {"enum": [[]] * 4_000}])
def test_a_reference_that_is_put_in_again_and_again_costs_no_time(filling: dict[str, Any]) -> None:
    schema: dict[str, Any] = {
        "$defs": {"a": filling},
        "properties": {f"p{n}": {"$ref": "#/$defs/a"} for n in range(90)},
    }
    with pytest.raises(UnusableSchema, match="unfolds too far"):
        usable_schema(schema, 32 * 1024)


def test_a_schema_that_is_too_long_as_it_comes_is_not_unfolded() -> None:
    schema: dict[str, Any] = {"$defs": {"a": {"enum": ["x"] * 4000, "description": "x" * 40_000}}, "properties": {}}
    with pytest.raises(UnusableSchema, match="longer than"):
        usable_schema(schema, 32 * 1024)


def test_a_secret_is_hidden_wherever_a_result_has_it() -> None:
    entry = McpServer(name="n", layer="user", transport="stdio", env={"API_KEY": "hunter2-hunter2"})
    hidden = EntrySecrets(entry)
    assert hidden.hide({"hunter2-hunter2": [{"a hunter2-hunter2": 1}]}) == {"***": [{"a ***": 1}]}


# Over HTTP


def json_answer(body: bytes, *more: str) -> bytes:
    head = ("HTTP/1.1 200 OK", "Content-Type: application/json", f"Content-Length: {len(body)}", *more)
    return "\r\n".join((*head, "", "")).encode() + body


def compressed() -> bytes:
    body = b'{"jsonrpc": "2.0", "id": 0, "result": {"a": "' + b"x" * 50_000_000 + b'"}}'
    return json_answer(gzip.compress(body, 9), "Content-Encoding: gzip")


def values() -> bytes:
    return json_answer(b'{"jsonrpc": "2.0", "id": 0, "result": {"a": [' + b"[]," * 400_000 + b"0]}}")


def events(end: bytes, *fields: bytes) -> bytes:
    many = (end + b"data:").join([b"[]," * 1000] * 400)
    data = b'data: {"jsonrpc": "2.0", "id": 0, "result": {"a": [' + many + b"0]}}"
    body = end.join((*fields, data, b"", b""))
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n"
    return head.encode() + body


BROKEN_OFF = "SSE stream ended without a response"
"""The library's words, whatever breaks off a stream of events."""

VALUES = "a message of more than 200000 values (native.mcp.message_values)"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(compressed, "it compresses its answers, which it was asked not to do", id="compressed"),
        pytest.param(values, VALUES, id="values"),
        pytest.param(lambda: events(b"\n"), BROKEN_OFF, id="events"),
        pytest.param(lambda: events(b"\r\n"), BROKEN_OFF, id="events-crlf"),
        pytest.param(lambda: events(b"\r"), BROKEN_OFF, id="events-cr"),
        pytest.param(lambda: events(b"\n", b'id: "', b': "'), BROKEN_OFF, id="events-quotes"),
    ],
)
async def test_an_answer_is_measured_before_it_is_taken_apart(
    tmp_path: Path, answer: Callable[[], bytes], why: str
) -> None:
    given = answer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with contextlib.suppress(ConnectionError):  # it has seen enough
            writer.write(given)
            await writer.drain()
        writer.close()

    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        entry = McpServer(name="web", layer="user", transport="http", url=url, retries=0)
        async with mcp_hub(tmp_path, Configs(entry)) as hub, no_stall():
            session = await hub.session()
            facts = await hub.turn(session, script("say hello"))
            assert outcome(facts) == "completed"
            assert why in await said(session, "Failed to connect to web")

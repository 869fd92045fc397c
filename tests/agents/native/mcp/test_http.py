"""MCP servers at a URL: a real one of the official library on loopback, and what only this transport can do wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.permissions import LOCAL
from dragoman.hub.workspace_config import McpServer
from tests.agents.native.native_rig import outcome, script, settled
from tests.hub.rig import until

from .mcp_rig import DEMO, Configs, demo, ends, lines, mcp_hub, noted, said, text_of


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@asynccontextmanager
async def serving(port: int, notes: Path, *, transport: str = "--http") -> AsyncIterator[asyncio.subprocess.Process]:
    """A demo server at this port, which takes connections."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(DEMO), transport, str(port)),
        env={**demo().env, "NOTES": str(notes)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await until(lambda: _answers(port), "the server listens")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def at(url: str, **more: Any) -> McpServer:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    usual: dict[str, Any] = {"layer": "user", "transport": "http", "trusted": True, "retries": 0}
    return McpServer(name="web", url=url, **{**usual, **more})


@pytest.mark.parametrize(("transport", "flag", "path"), [("http", "--http", "mcp"), ("sse", "--sse", "sse")])
async def test_a_server_at_a_url_is_called_cancelled_and_left(
    tmp_path: Path, transport: str, flag: str, path: str
) -> None:
    port, notes = free_port(), tmp_path / "notes"
    configs = Configs(at(f"http://127.0.0.1:{port}/{path}", transport=transport))
    async with serving(port, notes, transport=flag), mcp_hub(tmp_path, configs, call_seconds=1.0) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script('call mcp__web__add {"a": 2, "b": 3}'))
        assert text_of(ends(facts)[0]) == "5"
        (end,) = ends(await hub.turn(session, script("call mcp__web__hang {}")))
        assert "gave no answer within 1 s" in end.problem.message
        await noted(notes, "hang cancelled")
        await session.close("done")


async def test_a_server_that_is_gone_fails_its_calls_and_is_found_again(tmp_path: Path) -> None:
    port, notes = free_port(), tmp_path / "notes"
    configs = Configs(at(f"http://127.0.0.1:{port}/mcp", retries=200))
    async with mcp_hub(tmp_path, configs) as hub:
        session = await hub.session()
        async with serving(port, notes):
            facts = await hub.turn(session, script('call mcp__web__echo {"text": "one"}'))
            assert text_of(ends(facts)[0]) == "one"
        (end,) = ends(await hub.turn(session, script('call mcp__web__echo {"text": "two"}')))
        assert end.status == "error"
        async with serving(port, notes):
            await hub.turn(session, script("say look again"))
            server = session.ensure_agent()._mcp._held["web"].server  # type: ignore[attr-defined]
            await until(lambda: server.state == "ready", "it is there again")
            facts = await hub.turn(session, script('call mcp__web__echo {"text": "three"}'))
            assert text_of(ends(facts)[0]) == "three"


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_nobody_at_the_url_is_said_without_what_it_carries(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, transport: str
) -> None:
    caplog.set_level(logging.DEBUG)
    url = f"http://user:pass-word@127.0.0.1:{free_port()}/mcp?key=very-secret"
    headers = {"Authorization": "Bearer hidden-token"}
    async with mcp_hub(tmp_path, Configs(at(url, transport=transport, headers=headers))) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script("say all the same"))
        assert outcome(facts) == "completed"
        (line,) = lines(facts)
        assert line.startswith("[MCP] Failed to connect to web after 1 attempts: ")
        written = "".join(map(str, await hub.facts(session))) + caplog.text
        assert not [secret for secret in ("pass-word", "very-secret", "hidden-token") if secret in written]


async def test_headers_reach_the_server_and_a_refusal_is_said(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        entry = at(f"http://127.0.0.1:{port}/mcp", headers={"X-Key": "some-secret-value"})
        async with mcp_hub(tmp_path, Configs(entry)) as hub:
            session = await hub.session()
            facts = await hub.turn(session, script("say hello"))
            assert outcome(facts) == "completed"
            assert len(lines(facts)) == 1
    assert b"some-secret-value" in seen[0]


class Silent:
    """A server that shakes hands and lists a tool, and then says nothing any more, to nothing."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                sizes = [
                    line.partition(":")[2] for line in head.lower().split("\r\n") if line.startswith("content-length")
                ]
                body = await reader.readexactly(int(sizes[0])) if sizes else b"{}"
                self.answer(writer, head.split()[0], json.loads(body))
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    def answer(self, writer: asyncio.StreamWriter, verb: str, asked: dict[str, Any]) -> None:
        method = asked.get("method", verb)
        self.heard.append(method)
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        results = {"initialize": hello, "tools/list": {"tools": [{"name": "wait", "inputSchema": {}}]}}
        if method in results:
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": results[method]}).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
        elif method in ("GET", "DELETE", "notifications/initialized"):
            code = "202 Accepted" if method.startswith("not") else "405 Not Allowed"
            writer.write(f"HTTP/1.1 {code}\r\nContent-Length: 0\r\n\r\n".encode())


async def test_a_server_that_answers_nothing_holds_up_no_cancel(tmp_path: Path) -> None:
    silent = Silent()
    server = await asyncio.start_server(silent.serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with mcp_hub(tmp_path, Configs(at(f"http://127.0.0.1:{port}/mcp")), call_seconds=600.0) as hub:
            session = await hub.session()
            loop = asyncio.get_running_loop()
            for number in range(3):
                await hub.submit(session, script("call mcp__web__wait {}"))
                await until(lambda: session.state.calls, "the call is under way")
                if number == 0:
                    await until(lambda: "tools/call" in silent.heard, "it is heard")
                began = loop.time()
                await session.cancel(LOCAL, via="test")
                assert loop.time() - began < 3.0, "a write to the server would wait for 5 s"
                await settled(session)
            assert silent.heard.count("notifications/cancelled") == 1, "it has not said anything to the first yet"


async def test_an_answer_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with mcp_hub(tmp_path, Configs(at(f"http://127.0.0.1:{port}/mcp")), message_bytes=200_000) as hub:
            session = await hub.session()
            await hub.turn(session, script("say hello"))
            assert "200000 bytes" in await said(session, "Failed to connect")

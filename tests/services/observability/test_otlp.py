"""Spans as they really leave: by OpenTelemetry's library, to collectors that take them and to such as are of no use."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dragoman.hub.events import Problem, ToolCalled, ToolEnded
from dragoman.hub.turns import TurnContext, TurnFailed
from dragoman.services.observability.spans import Span, trace_of, turn_span
from tests.hub.rig import until

from .watched import watching

pytest.importorskip("opentelemetry.sdk.trace", reason="the extra otel is not installed")
service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
otlp = pytest.importorskip("dragoman.services.observability.otlp")

KEY = "sk-live-0a1b2c3d"

MOST = 64 * 1024 * 1024
"""Bytes of an answer that nobody needs; sockets alone may take a few MiB."""


class Receiver:
    """What came in at a collector: requests as they were, spans as they are to be read."""

    def __init__(self) -> None:
        self.url = ""
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.resource: dict[str, str] = {}
        self.spans: dict[str, Any] = {}

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.paths.append(request.path)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.bodies.append(body)
        decoded = service.ExportTraceServiceRequest.FromString(body)
        for of_resource in decoded.resource_spans:
            self.resource = {it.key: it.value.string_value for it in of_resource.resource.attributes}
            self.spans |= {span.name: span for scope in of_resource.scope_spans for span in scope.spans}
        return web.Response(body=b"", content_type="application/x-protobuf")


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/{path:.*}", receiver.take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield receiver
    finally:
        await runner.cleanup()


def attributes(span: Any) -> dict[str, Any]:
    return {it.key: getattr(it.value, it.value.WhichOneof("value")) for it in span.attributes}


async def use_a_tool(turn: TurnContext) -> str:
    turn.record(ToolCalled(call="c", tool="bash", input={"command": KEY}, turn=turn.turn))
    turn.record(ToolEnded(call="c", tool="bash", status="error", output=KEY, turn=turn.turn))
    return KEY


async def fail(turn: TurnContext) -> None:
    raise TurnFailed(Problem(code="broken", message=KEY))


async def test_a_collector_reads_the_spans_of_a_turn(tmp_path: Path) -> None:
    async with receiving() as collector:
        async with watching(
            tmp_path,
            really=True,
            otlp_endpoint=collector.url,
            headers={"Authorization": "Bearer collector-key"},
            service_name="my-dragoman",
        ) as watched:
            session = await watched.session(settings={"provider": "openai", "model": "gpt-x"})
            turn = await watched.turn(session, use_a_tool, text=KEY)
            await until(lambda: len(collector.spans) == 4, lambda: collector.spans)
        assert collector.resource["service.name"] == "my-dragoman"
        assert collector.resource["service.version"]
    whole, tool = collector.spans["invoke_agent scripted"], collector.spans["execute_tool bash"]
    assert set(collector.paths) == {"/v1/traces"}
    assert {headers["authorization"] for headers in collector.headers} == {"Bearer collector-key"}
    assert {headers["content-type"] for headers in collector.headers} == {"application/x-protobuf"}
    assert whole.trace_id == tool.trace_id == trace_of(session.id, turn).to_bytes(16)
    assert whole.span_id == tool.parent_span_id == turn_span(session.id, turn).to_bytes(8)
    assert whole.parent_span_id == b""
    assert whole.start_time_unix_nano == 1_700_000_000_000 * 1_000_000
    assert (whole.status.code, tool.status.code) == (1, 2)
    assert attributes(whole)["gen_ai.request.model"] == "gpt-x"
    assert attributes(collector.spans["agent.turn.completed"])["duration.ms"] == 0
    assert all(KEY.encode() not in body for body in collector.bodies)


async def test_a_failed_turn_is_an_error_there(tmp_path: Path) -> None:
    async with receiving() as collector:
        endpoint = f"{collector.url}/insert/opentelemetry/v1/traces"
        async with watching(tmp_path, really=True, otlp_endpoint="", traces_url=collector.url) as watched:
            await watched.turn(await watched.session(), fail)
        assert endpoint.endswith(collector.paths[0])
    failed = collector.spans["agent.turn.failed"]
    assert (failed.status.code, failed.status.message) == (2, "broken")
    assert all(KEY.encode() not in body for body in collector.bodies)


async def test_opentelemetrys_own_variables_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=of%20all,authorization=of all")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    async with receiving() as collector:
        assert await sent_to(collector.url, headers={"Authorization": "of the settings"})
    assert collector.spans.keys() == {"a span"}
    assert collector.headers[0]["content-encoding"] == "gzip"
    assert collector.headers[0]["x-tenant"] == "of all"
    assert collector.headers[0]["authorization"] == "of the settings"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/no/such/file")
    with pytest.raises(OSError, match="No such file"):
        otlp.OtlpSender("https://127.0.0.1", {}, service="s", version="1", seconds=1.0)


async def test_no_proxy_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as proxy, receiving() as collector:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        async with watching(tmp_path, really=True, otlp_endpoint=collector.url) as watched:
            await watched.turn(await watched.session())
            await until(lambda: collector.spans)
        assert not proxy.bodies


# Of no use


@asynccontextmanager
async def refusing() -> AsyncIterator[str]:
    """Nobody listens there."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@asynccontextmanager
async def swallowing() -> AsyncIterator[str]:
    """Connections are taken, and nothing ever comes back."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@asynccontextmanager
async def answering(answer: bytes, *, later: bool = False) -> AsyncIterator[str]:
    """Always the same answer: at once, or a byte at a time for as long as somebody reads."""
    open_ = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            while later:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.02)
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in open_:
            task.cancel()
        await asyncio.gather(*open_, return_exceptions=True)
        await server.wait_closed()


def broken() -> AbstractAsyncContextManager[str]:
    return answering(b"HTTP/1.1 500 Broken\r\ncontent-length: 0\r\n\r\n")


def busy() -> AbstractAsyncContextManager[str]:
    """It asks to be tried again in an hour."""
    return answering(b"HTTP/1.1 503 Busy\r\nretry-after: 3600\r\ncontent-length: 0\r\n\r\n")


def dripping() -> AbstractAsyncContextManager[str]:
    return answering(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", later=True)


USELESS = [refusing, swallowing, broken, busy, dripping]


@pytest.mark.parametrize("collector", USELESS, ids=[it.__name__ for it in USELESS])
async def test_a_dead_collector_costs_turns_nothing_and_the_end_little(
    tmp_path: Path, collector: Callable[[], AbstractAsyncContextManager[str]]
) -> None:
    loop = asyncio.get_running_loop()
    async with collector() as url:
        limits = {"every": 0.01, "close": 0.1, "seconds": 0.3}
        async with watching(tmp_path, really=True, otlp_endpoint=url, export=limits) as watched:
            session = await watched.session()
            for _ in range(5):
                await watched.turn(session, use_a_tool)
            assert watched.value("dragoman_turns", kind="puppet", agent="scripted", outcome="completed") == 5
            began = loop.time()
            await watched.telemetry.close()
            assert loop.time() - began < 1.0
    await until(lambda: all(thread.name != "dragoman-spans" for thread in threading.enumerate()))


async def sent_to(url: str, *, seconds: float = 0.5, headers: dict[str, str] | None = None) -> bool:
    """Whether one span arrived there; within ``seconds`` or not at all."""
    sender = otlp.OtlpSender(url, headers or {}, service="s", version="1", seconds=seconds)
    span = Span(trace=1, span=2, parent=None, name="a span", began=1, ended=2, attributes={})
    async with asyncio.timeout(seconds + 2.0):
        arrived = await asyncio.to_thread(sender.send, [span])
    assert isinstance(arrived, bool)
    return arrived


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_what_is_sent_follows_no_redirect(status: int) -> None:
    async with receiving() as elsewhere:
        moved = f"HTTP/1.1 {status} Moved\r\nlocation: {elsewhere.url}/v1/traces\r\ncontent-length: 0\r\n\r\n"
        async with answering(moved.encode()) as url:
            assert not await sent_to(url, headers={"x-api-key": KEY})
    assert elsewhere.headers == []


async def test_an_answer_that_drips_takes_no_longer_than_a_request_may() -> None:
    async with answering(b"HTTP/1.1 500 Broken\r\nx-slow: ", later=True) as url:
        assert not await sent_to(url)
    async with answering(b"HTTP/1.1 500 Broken\r\ncontent-length: 1000000\r\n\r\n", later=True) as url:
        assert not await sent_to(url)


async def test_an_answer_without_end_is_not_read() -> None:
    taken = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 500 Broken\r\n\r\n")
            while not writer.is_closing() and taken < MOST:
                writer.write(b"x" * 65536)
                await writer.drain()
                taken += 65536
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        assert not await sent_to(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert taken < MOST


async def test_a_collector_that_is_busy_for_a_moment_is_asked_again() -> None:
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\n")
        status = "503 Busy" if asked == 1 else "200 OK"
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        assert await sent_to(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seconds=5.0)
    assert asked == 2


async def test_an_endpoint_that_is_no_url_is_a_collector_that_fails() -> None:
    for url in ("http://", "http://[", "no url", "http://127.0.0.1:99999"):
        assert not await sent_to(url)

"""A provider's server that plays given bytes, and what a model call made of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from dragoman.agents.native.providers.conversation import ModelRequest, UserMessage
from dragoman.agents.native.providers.openai_stream import OpenAIProvider
from dragoman.agents.native.providers.port import (
    CallMade,
    Finished,
    PartClosed,
    PartGrew,
    PartOpened,
    ProviderCallEnded,
    ProviderFailed,
    RawReceived,
    Spent,
    StreamEvent,
)

SOON = 5.0
"""Seconds within which what must happen at once has happened, also on a busy machine."""

REQUEST = ModelRequest(model="m", system="be brief", messages=(UserMessage("hello"),))


@dataclass
class Asked:
    """A request as it came."""

    line: str
    headers: dict[str, str]
    body: Any


@dataclass
class Play:
    """One answer: its head, and the pieces of its body. After them the answer ends, is held open, or is cut."""

    pieces: Sequence[bytes] = ()
    status: str = "200 OK"
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "text/event-stream"})
    after: str = "end"

    def head(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status}", *(f"{k}: {v}" for k, v in self.headers.items())]
        return "\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode()


class Server:
    """Answers the n-th request with the n-th play, the last one again and again."""

    def __init__(self, plays: Sequence[Play]) -> None:
        self.plays = plays
        self.asked: list[Asked] = []
        self.connections = 0
        self.begun = asyncio.Event()
        self.left = asyncio.Event()
        """The client closed a connection."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while asked := await _request(reader):
                self.asked.append(asked)
                if not await self._answer(self.plays[min(len(self.asked), len(self.plays)) - 1], reader, writer):
                    break
        except ConnectionError:
            pass
        finally:
            self.left.set()
            writer.close()
            self._tasks.discard(task)

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, play: Play, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if play.after == "mute":
            self.begun.set()
            await reader.read(1)
            return False
        writer.write(play.head())
        for piece in play.pieces:
            if piece:
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(0)
        self.begun.set()
        if play.after == "hold":
            await reader.read(1)
            return False
        if play.after == "cut":
            writer.transport.abort()
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


async def _request(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    line, *rest = head.strip().split("\r\n")
    headers = {name.lower(): value for name, value in (entry.split(": ", 1) for entry in rest)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(line, headers, json.loads(body) if body else None)


@asynccontextmanager
async def playing(*plays: Play) -> AsyncIterator[Server]:
    """The server, while it runs."""
    server = Server(plays)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listener.close()
        await server.stop()


def sse(*events: Any, done: bool = False) -> bytes:
    """Events as a server writes them: objects as JSON, text as it is."""
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"data: {text}\n\n" for text in [*texts, *(["[DONE]"] if done else [])]).encode()


async def collected(
    provider: OpenAIProvider, request: ModelRequest = REQUEST, *, raw: bool = False
) -> list[StreamEvent]:
    """All events of one call, which keep the order that the port promises."""
    async with aclosing(provider.stream(request, raw=raw)) as stream:
        events = [event async for event in stream]
    keeps_the_order(events)
    return events


async def failure(provider: OpenAIProvider, request: ModelRequest = REQUEST) -> ProviderFailed:
    """What one call fails with."""
    try:
        events = await collected(provider, request)
    except ProviderFailed as failed:
        return failed
    raise AssertionError(f"did not fail: {events}")


def keeps_the_order(events: Iterable[StreamEvent]) -> None:
    """The port's promise, checked without regard to how it is kept."""
    opened: dict[str, PartOpened] = {}
    open_now: set[str] = set()
    called: set[str] = set()
    seen = [event for event in events if not isinstance(event, RawReceived)]
    for event in seen:
        match event:
            case PartOpened(part=part):
                assert part
                assert part not in opened, f"{part} is opened twice"
                opened[part] = event
                open_now.add(part)
            case PartGrew(part=part, text=text):
                assert part in open_now, f"{part} grows and is not open"
                assert text
            case PartClosed(part=part):
                assert part in open_now, f"{part} is closed and was not open"
                open_now.remove(part)
            case CallMade(call=call, tool=tool) | ProviderCallEnded(call=call, tool=tool):
                assert opened[call].kind == "tool_input"
                assert opened[call].tool == tool
                assert opened[call].by_provider == isinstance(event, ProviderCallEnded)
                assert call not in open_now | called
                called.add(call)
    assert not open_now
    assert {part for part, event in opened.items() if event.kind == "tool_input"} == called
    assert [type(event) for event in seen].count(Spent) == 1
    assert [type(event) for event in seen].count(Finished) == 1
    assert isinstance(seen[-1], Finished)


def text_of(events: Iterable[StreamEvent], kind: str = "text") -> str:
    """All text of the parts of one kind."""
    events = list(events)
    parts = {event.part for event in events if isinstance(event, PartOpened) and event.kind == kind}
    return "".join(event.text for event in events if isinstance(event, PartGrew) and event.part in parts)


def only(events: Iterable[StreamEvent], kind: type[Any]) -> list[Any]:
    """The events of one type."""
    return [event for event in events if isinstance(event, kind)]

"""The smallest HTTP server that a model or a store can be played with: one answer for each request, then close."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

JSON = "application/json"


@dataclass(frozen=True)
class Request:
    """What was asked: fields of the query and of a form's body are one table."""

    method: str
    path: str
    fields: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """What is answered. A body in ``pieces`` has no length. An ``open`` one has no end either: the connection stays
    until the other side leaves.
    """

    status: int = 200
    body: bytes = b""
    kind: str = JSON
    pieces: AsyncIterator[bytes] | None = None
    open: bool = False


Handler = Callable[[Request], Awaitable[Answer]]


@contextlib.asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    """A server on this machine; its URL."""
    open_ones: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_ones.add(task)
        try:
            await _serve(reader, writer, handler)
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # whoever asked has left: a cancelled turn does
        finally:
            open_ones.discard(task)
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler) -> None:
    request = await _read(reader)
    answer = await handler(request)
    head = f"HTTP/1.1 {answer.status} Answer\r\ncontent-type: {answer.kind}\r\nconnection: close\r\n"
    if answer.pieces is None:
        writer.write(f"{head}content-length: {len(answer.body)}\r\n\r\n".encode() + answer.body)
    else:
        writer.write(f"{head}\r\n".encode())
        async for piece in answer.pieces:
            writer.write(piece)
    await writer.drain()
    if answer.open:
        await reader.read()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = await _chunks(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    where = urlsplit(target)
    query = parse_qs(where.query, keep_blank_values=True)
    if "form" in headers.get("content-type", ""):
        query |= parse_qs(body.decode(), keep_blank_values=True)
    return Request(method, where.path, {name: values[-1] for name, values in query.items()}, body)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return body

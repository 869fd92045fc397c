"""A small HTTP server of the test's own, which says what it is told to say and remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Reply = tuple[int, Any] | bytes | None
"""Status and JSON; or raw bytes instead of HTTP; or None: never any answer."""


@dataclass
class Web:
    """``replies`` by path; a path that is not there is 404."""

    replies: dict[str, Reply]
    server: str = "test"
    delay: asyncio.Event | None = None
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    open: int = 0
    most_open: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            self.open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        path = head[0].split(" ")[1]
        headers = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
        self.asked.append((path, {name.lower(): value for name, value in headers.items()}))
        if self.delay is not None:
            await self.delay.wait()
        reply = self.replies.get(path, (404, {"error": "nothing here"}))
        if reply is None:
            await reader.read()
            return
        if isinstance(reply, tuple):
            status, value = reply
            body = json.dumps(value).encode()
            start = f"HTTP/1.1 {status} X\r\nServer: {self.server}\r\nContent-Length: {len(body)}\r\n"
            reply = f"{start}Connection: close\r\n\r\n".encode() + body
        writer.write(reply)
        await writer.drain()


@asynccontextmanager
async def web(replies: dict[str, Reply] | None = None, *, server: str = "test") -> AsyncIterator[Web]:
    """Serve until the block ends."""
    made = Web(replies or {}, server=server)
    listener = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = listener.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        listener.close()


def models(*ids: str, owner: str = "somebody", **more: Any) -> Reply:
    """The answer of ``/v1/models``."""
    return 200, {"object": "list", "data": [{"id": name, "object": "model", "owned_by": owner, **more} for name in ids]}

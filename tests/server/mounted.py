"""Dialects that say who they are, mounted on a real listener."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
from collections.abc import AsyncIterator, Sequence

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from dragoman.dialects.base import Dialect, Upgrade, Wire
from dragoman.server.app import Application
from dragoman.server.guard import Guard
from dragoman.server.listener import Listener
from dragoman.server.pump import PumpLimits
from dragoman.server.sockets import listening_socket

LIMIT = 10.0


class OneFrame:
    """A link that says one thing."""

    congested = False
    joins = True

    def __init__(self, text: str, wire: Wire) -> None:
        data = text.encode()
        self._frame: bytes | None = bytes((0x81, len(data))) + data
        wire.wake()

    def receive(self, message: str | bytes) -> None:
        """There is nothing to be said to it."""

    def pong(self, payload: bytes) -> None:
        """Nor is it pinged."""

    def pull(self) -> bytes | None:
        frame, self._frame = self._frame, None
        return frame

    def lost(self) -> None:
        self._frame = None


class Named:
    """Answers everything with its name and the path below its root."""

    message_limit = 1024

    def __init__(self, name: str, websocket: str = "/ws", http_app: ASGIApp | None = None) -> None:
        self.name = name
        self.websocket = websocket
        self.http: ASGIApp = http_app or self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(f"{self.name} {scope['path']}")(scope, receive, send)

    async def open(self, upgrade: Upgrade, wire: Wire) -> OneFrame:
        return OneFrame(f"{self.name} {upgrade.path}", wire)

    async def close(self, budget: float) -> None:
        """Nothing runs."""


class Mounted:
    """A listener on a free port, and the plainest clients."""

    def __init__(self, listener: Listener) -> None:
        self.port = listener.port

    async def upgraded(self, path: str) -> str:
        """What a WebSocket at ``path`` says first; the refusal's status where there is none."""
        address = f"ws://127.0.0.1:{self.port}{path}"
        try:
            async with asyncio.timeout(LIMIT), connect(address, compression=None, proxy=None) as client:
                return str(await client.recv())
        except InvalidStatus as refused:
            return str(refused.response.status_code)

    async def asked(self, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, str]:
        """Status and text of an HTTP answer."""
        return await asyncio.to_thread(self._ask, path, method, body)

    def _ask(self, path: str, method: str, body: bytes | None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@contextlib.asynccontextmanager
async def mounted(
    dialects: Sequence[Dialect],
    *,
    root: str | None = None,
    front: str | None = None,
    pages: dict[str, ASGIApp] | None = None,
    limits: PumpLimits | None = None,
) -> AsyncIterator[Mounted]:
    """These dialects, served until the block ends."""
    application = Application(dialects, root=root, front=front, limits=limits or PumpLimits(), pages=pages)
    listener = Listener(Guard(application, bound="127.0.0.1"), listening_socket("127.0.0.1", 0), max_connections=100)
    await listener.start()
    try:
        yield Mounted(listener)
    finally:
        application.close_links()
        await listener.close(1.0)

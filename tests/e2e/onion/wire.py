"""A wire between a client and the server that keeps every frame, and can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse, ClientWSTimeout, WSMsgType, web

from .people import LIMIT

Frame = dict[str, Any]
Socket = web.WebSocketResponse | ClientWebSocketResponse


class Connection:
    """One WebSocket that went through. ``sent`` is the client's, ``heard`` the server's frames."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.sent: list[Frame] = []
        self.heard: list[Frame] = []
        self.story: list[str] = []

    def first(self, kind: str) -> Frame:
        """The client's first frame of that type."""
        return next(frame for frame in self.sent if frame.get("type") == kind)


class Wire:
    """See the module. Passes protocol pings on instead of answering them: whose pong it is matters."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.connections: list[Connection] = []
        self.url = ""
        self._live: list[asyncio.Transport] = []
        self._news = asyncio.Event()
        self._dials = asyncio.Event()
        self._dials.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Wire]:
        """Listen on the loopback; ``url`` is where."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            async with ClientSession() as self._session:
                yield self
                self.cut()
        finally:
            await runner.cleanup()

    def cut(self) -> None:
        """Every connection is lost, without a word."""
        for transport in self._live:
            transport.abort()
        self._live.clear()

    def hold(self) -> None:
        """Whoever dials from now on waits."""
        self._dials.clear()

    def release(self, target: str) -> None:
        """They wait no more; the server is there now."""
        self.target = target
        self._dials.set()

    async def until(self, probe: Callable[[], object], what: str) -> None:
        """Wait for frames that make it true."""
        try:
            async with asyncio.timeout(LIMIT):
                while not probe():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"not within {LIMIT} s: {what}\n{self.story()}") from None

    def story(self) -> str:
        """All frames, shortened."""
        return "\n".join(f"--- {it.path}\n" + "\n".join(it.story) for it in self.connections)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("upgrade", "").lower() == "websocket":
            return await self._pass_on(request)
        async with self._session.get(f"{self.target}{request.path_qs}", headers={"host": request.host}) as answer:
            # The server knows its own prefix, which this wire has not.
            prefix = self.target.partition("//")[2].partition("/")[2]
            body = (await answer.read()).replace(f"{request.host}/{prefix}".encode(), request.host.encode())
            return web.Response(body=body, status=answer.status, content_type=answer.content_type)

    async def _pass_on(self, request: web.Request) -> web.WebSocketResponse:
        await self._dials.wait()
        near = web.WebSocketResponse(autoping=False, max_msg_size=0)
        await near.prepare(request)
        connection = Connection(request.path_qs)
        self.connections.append(connection)
        limits = ClientWSTimeout(ws_close=1.0)
        url = f"{self.target}{request.path_qs}"
        async with self._session.ws_connect(url, autoping=False, max_msg_size=0, timeout=limits) as far:
            for transport in (request.transport, far._conn.transport if far._conn else None):
                assert isinstance(transport, asyncio.Transport)
                self._live.append(transport)
            out = asyncio.create_task(self._copy(near, far, lambda text: self._keep(connection, text, sent=True)))
            back = asyncio.create_task(self._copy(far, near, lambda text: self._keep(connection, text, sent=False)))
            await asyncio.wait({out, back}, return_when=asyncio.FIRST_COMPLETED)
            await near.close()
            await far.close()
            for task in (out, back):
                task.cancel()
            await asyncio.wait({out, back})
        return near

    async def _copy(self, source: Socket, target: Socket, keep: Callable[[str], None]) -> None:
        with contextlib.suppress(ConnectionError):  # the other end is gone
            async for message in source:
                if message.type is WSMsgType.TEXT:
                    keep(message.data)
                    await target.send_str(message.data)
                elif message.type is WSMsgType.BINARY:
                    await target.send_bytes(message.data)
                elif message.type is WSMsgType.PING:
                    await target.ping(message.data)
                elif message.type is WSMsgType.PONG:
                    await target.pong(message.data)

    def _keep(self, connection: Connection, text: str, *, sent: bool) -> None:
        frame = json.loads(text)
        (connection.sent if sent else connection.heard).append(frame)
        connection.story.append(f"{'>' if sent else '<'} {text[:300]}")
        self._news.set()

"""Accepts connections: uvicorn's HTTP parser and our WebSocket class, without uvicorn's process management."""

from __future__ import annotations

import asyncio
import socket

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from .sockets import Socket

HEAD_BYTES = 64 * 1024
"""Request line and headers of one request; more are refused, whoever sends them."""

HEAD_SECONDS = 10.0
"""Time for them to arrive, from the connection's begin or from the request's first byte."""


class HttpConnection(HttpToolsProtocol):
    """uvicorn's HTTP parser, with limits on what comes before anybody is known to be there."""

    _head_bytes = 0
    _in_head = False
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        continues = self._in_head
        super().data_received(data)
        self._head_bytes = self._head_bytes + len(data) if continues and self._in_head else 0
        if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("Request head too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._await_head()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()


class Listener:
    """One bound socket that serves one application."""

    def __init__(self, app: ASGIApp, bound: socket.socket, *, max_connections: int) -> None:
        self._config = Config(
            app,
            http=HttpConnection,
            ws=Socket,
            ws_ping_interval=None,  # liveness is the pump's: a library ping cuts slow but living readers
            ws_per_message_deflate=False,
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            limit_concurrency=max_connections,
        )
        self._config.load()
        self._state = ServerState()
        self._bound = bound
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that is really bound."""
        return int(self._bound.getsockname()[1])

    async def start(self) -> None:
        """Begin to accept."""
        loop = asyncio.get_running_loop()
        protocol = self._config.http_protocol_class

        def connection() -> asyncio.Protocol:
            return protocol(config=self._config, server_state=self._state, app_state={}, _loop=loop)  # type: ignore[call-arg]

        if self._bound.family == socket.AF_UNIX:
            self._server = await loop.create_unix_server(connection, sock=self._bound, backlog=self._config.backlog)
        else:
            self._server = await loop.create_server(connection, sock=self._bound, backlog=self._config.backlog)

    def refuse_new(self) -> None:
        """Accept no more; what is open goes on."""
        if self._server is not None:
            self._server.close()

    async def close(self, budget: float) -> None:
        """Wait for open requests and links to end, ``budget`` seconds at most, then drop what is left."""
        self.refuse_new()
        deadline = asyncio.get_running_loop().time() + budget
        for connection in list(self._state.connections):
            if not isinstance(connection, Socket):
                connection.shutdown()
        # uvicorn's set of connections tells nobody that it shrank: look again now and then
        while self._state.connections and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for connection in list(self._state.connections):
            connection.transport.abort()
        for task in list(self._state.tasks):
            task.cancel()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=1)

"""The ASGI application: finds the dialect that a path belongs to and puts a pump between its link and the socket."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.utils import ClientDisconnected

from dragoman.dialects.base import EVERYDAY, RAW, ROOT, Dialect, Refusal
from dragoman.hub.errors import HubError

from .guard import refuse, upgrade_of
from .mounts import Mounts
from .pump import Pump, PumpLimits
from .sockets import SOCKET, Socket
from .traffic import Traffic

log = logging.getLogger("dragoman.links")
access = logging.getLogger("dragoman.http")


_STATUS = {
    "unknown_session": 404,
    "gone": 404,
    "closed": 503,
    "limit_reached": 503,
    "not_ready": 503,
    "storage_unavailable": 503,
}
"""What a refused upgrade is answered with, 400 else: with 503 where it is the server that cannot take the client now,
so that one that connects again by itself goes on trying."""


class Application:
    """Dispatches by path: ``pages`` of the server's own, then the dialects as they are mounted (``Mounts``)."""

    def __init__(
        self,
        dialects: Sequence[Dialect],
        *,
        root: str | None,
        front: str | None = None,
        limits: PumpLimits,
        pages: Mapping[str, ASGIApp] | None = None,
    ) -> None:
        self.mounts = Mounts(dialects, root=root, front=front)
        self._limits = limits
        self._pages = pages or {}
        self.traffic = Traffic()
        self._pumps: set[Pump] = set()
        self._stopping = False

    @property
    def links(self) -> int:
        """Open links."""
        return len(self._pumps)

    def close_links(self) -> None:
        """Say goodbye (1001) to every link, and take no more."""
        self._stopping = True
        for pump in tuple(self._pumps):
            pump.close(1001, "the server stops")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._serve(scope, receive, send)
        except ClientDisconnected:
            return
        except Exception:
            log.exception("a request failed")
            raise

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in self._pages:
            await self._pages[scope["path"]](scope, receive, send)
            return
        dialect, path = self.mounts.find(scope["path"])
        if dialect is None:
            await refuse(scope, send, 404, "nothing is served at this path")
        elif scope["type"] == "websocket":
            await self._upgrade(dialect, path, scope, receive, send)
        else:
            await self._request(dialect, path, scope, receive, send)

    async def _upgrade(self, dialect: Dialect, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        if path != dialect.websocket and path not in dialect.more_websockets:
            await refuse(scope, send, 404, "no WebSocket is served at this path")
            return
        if self._stopping or len(self._pumps) >= self._limits.max_links:
            await refuse(scope, send, 503, f"{self._limits.max_links} links are open (links.max_links)")
            return
        socket: Socket = scope["extensions"][SOCKET]
        socket.set_message_limit(dialect.message_limit)
        pump = Pump(socket, self._limits)
        upgrade = upgrade_of(scope, path)
        try:
            link = await dialect.open(upgrade, pump)
        except HubError as problem:
            link = Refusal(_STATUS.get(problem.code, 400), str(problem))
        if isinstance(link, Refusal):
            pump.gone()
            await refuse(scope, send, link.status, link.body, link.media_type)
            return
        self._pumps.add(pump)
        self.traffic.opened(dialect.name)
        began = time.monotonic()
        try:
            await send({"type": "websocket.accept"})
            log.info("%s link opened from %s (%d open)", dialect.name, upgrade.peer, len(self._pumps))
            pump.begin(link)
            await socket.disconnected_for_good()
        except ClientDisconnected:
            link.lost()
        finally:
            self._pumps.discard(pump)
            self.traffic.closed(dialect.name)
            pump.gone()
            log.info("%s link closed after %.1f s (%d open)", dialect.name, time.monotonic() - began, len(self._pumps))

    async def _request(self, dialect: Dialect, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request below the dialect's root; log it without its query (tokens live there)."""
        status = 0

        async def noting(message: dict[str, object]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(str(message["status"]))
            await send(message)

        began = time.monotonic()
        root = scope["path"][: len(scope["path"]) - len(path)]
        raw = scope.get("raw_path", path.encode())
        below = {**scope, "path": path, "raw_path": path.encode(), ROOT: root, RAW: raw}
        await dialect.http(below, receive, noting)  # type: ignore[arg-type]
        self.traffic.answered(dialect.name, status)
        quiet = status < 400 and (scope["method"] == "GET" or EVERYDAY in below)
        level = logging.DEBUG if quiet else logging.INFO
        took = (time.monotonic() - began) * 1000
        access.log(level, "%s %s %d %.1f ms", scope["method"], scope["path"], status, took)

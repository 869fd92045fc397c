"""What a dialect is to the server, and a link to its socket.

The server owns transports: it checks Host, Origin, size and rate, accepts the upgrade, and moves frames. A dialect
owns meaning: it turns an upgrade into a ``Link`` (or refuses it) and serves HTTP routes below its own root. A link does
no I/O: it is handed messages, and is asked for the next frame whenever its socket can take one. What it has to say it
keeps as cursors, not as a queue, so a client that does not read costs next to nothing.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Callable, Container
from typing import Protocol

import msgspec
from starlette.types import ASGIApp

BODY = "dragoman.body"
"""Where an HTTP request's ``BodyLimit`` stands among the extensions of its scope."""

ROOT = "dragoman.root"
"""Where in an HTTP request's scope the dialect's root stands: what its own addresses begin with, empty at the root."""

RAW = "dragoman.raw"
"""Where in an HTTP request's scope its whole path stands as it was sent: bytes, what is escaped in it still so."""

EVERYDAY = "dragoman.everyday"
"""Set in an HTTP request's scope by who serves it, where such come many times a second: one that went well has no line
in the log, which would cost more than the request."""

TokenCheck = Callable[[str | None], bool]
"""Whether this is the server's token, in constant time. None is what was said where nothing was said."""

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine only."""
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Upgrade(msgspec.Struct, frozen=True):
    """What a client asked for when it opened a WebSocket. ``path`` is below the dialect's root."""

    path: str
    query: dict[str, str]
    bearer: str | None
    peer: str
    loopback: bool

    def __repr__(self) -> str:
        """Without what may be a token, and without the query, which may hold one."""
        return f"Upgrade({self.path!r}, peer={self.peer!r})"


class BodyLimit(msgspec.Struct):
    """Bytes of a request's body that the server lets a dialect read; more ends in HTTP 413.

    It begins as the server's own limit (``server.max_body``). A dialect that knows whom it talks to may set another one
    before it reads, as a link does with ``Wire.set_message_limit``.
    """

    size: int


class Refusal(msgspec.Struct, frozen=True):
    """The HTTP answer to an upgrade that the dialect does not take."""

    status: int
    body: str
    media_type: str = "text/plain; charset=utf-8"


class Wire(Protocol):
    """A link's way to its socket."""

    def wake(self) -> None:
        """There is something to pull. May be called at any time, any number of times."""

    def close(self, code: int, reason: str = "") -> None:
        """End the link after what was pulled so far has been handed to the transport."""

    def set_message_limit(self, size: int) -> None:
        """Take messages up to ``size`` bytes from now on; a larger one ends the link with 1009."""


class Link(Protocol):
    """One client connection in one dialect."""

    @property
    def joins(self) -> bool:
        """Whether what is said a moment later can be one frame with what is said now: then a large frame is followed by
        a short pause, in which that gathers."""

    @property
    def congested(self) -> bool:
        """Whether the link takes no more messages for now: the pump then stops reading from the socket."""

    def receive(self, message: str | bytes) -> None:
        """A whole message arrived: text as ``str``, binary as ``bytes``. Never raises for what a client sent."""

    def pong(self, payload: bytes) -> None:
        """The answer to a ping with a payload that the link sent arrived, in order with the messages around it."""

    def pull(self) -> bytes | None:
        """The next frame to send, or None when there is nothing to say."""

    def lost(self) -> None:
        """The socket is gone; let go of everything."""


class Dialect(Protocol):
    """One wire protocol, as the server mounts it."""

    name: str
    websocket: str
    """Path of its WebSocket below its root."""

    more_websockets: Container[str]
    """Further paths of it, where clients have several."""

    message_limit: int
    """Bytes of a message taken from a link that has not authenticated yet."""

    http: ASGIApp
    """Its HTTP routes; paths are below its root."""

    async def open(self, upgrade: Upgrade, wire: Wire) -> Link | Refusal:
        """A link for this client, or why not."""

    async def close(self, budget: float) -> None:
        """The server stops: end what the dialect still runs within ``budget`` seconds."""


class Outbox:
    """Replies that wait for their socket, counted in bytes.

    Replies are made when their request is handled, so their number is bounded by not handling more requests: while the
    box holds ``limit`` bytes or more the link is congested.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._frames: deque[bytes] = deque()
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._bytes >= self._limit

    def put(self, frame: bytes) -> None:
        """Add a reply behind the others."""
        self._frames.append(frame)
        self._bytes += len(frame)

    def take(self) -> bytes | None:
        """The oldest reply, or None."""
        if not self._frames:
            return None
        frame = self._frames.popleft()
        self._bytes -= len(frame)
        return frame

"""The transport side of a link: uvicorn's WebSocket protocol with a direct path in and out.

uvicorn does what it does well (HTTP, handshake, framing of what arrives, closing). After the upgrade is accepted a
``Pump`` takes the socket over: messages are handed to it as they are parsed, and it writes whole frames, made once and
shared by many links, straight to the transport. ASGI has no form for that: it would encode each text again per client
and wake a task per message.
"""

from __future__ import annotations

import os
import socket as sockets
import stat
from asyncio.transports import BaseTransport
from typing import Any, Protocol

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

SOCKET = "dragoman.socket"
"""The key under which the ASGI scope's ``extensions`` hold the ``Socket``."""

SEND_BUFFER = 256 * 1024
"""SO_SNDBUF of every connection: what the kernel may hold for a client that does not read."""


TURN_BYTES = 16 * 1024
"""Bytes parsed in one step; between steps the clock is looked at."""

TURN_SECONDS = 0.005
"""Time one connection may parse for before the others get their turn: frames can be as small as two bytes."""

MAX_FRAGMENTS = 4096
"""Frames that one message may be cut into; more end the link with 1009."""

DISCARD_SILENCE = 0.2
"""Seconds without a byte after which a peer that broke the protocol has read our close."""

DISCARD_LIMIT = 5.0
"""Seconds for which such a peer may go on sending."""

UNREADABLE = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
"""The answer to an upgrade that is no request."""


class SocketUser(Protocol):
    """What is told of a socket's life once it is attached."""

    def message(self, data: str | bytes) -> None: ...
    def pong(self, payload: bytes) -> None:
        """A pong with a payload, in order with the messages."""

    def writable(self) -> None: ...
    def gone(self) -> None: ...


class Socket(WebSocketsSansIOProtocol):
    """One WebSocket connection. Before ``attach`` it behaves exactly as uvicorn's own class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._user: SocketUser | None = None
        self._broken = False
        self._unparsed = bytearray()
        self._parsing = False
        self._late_pong = b""
        self._give_up_at = 0.0
        self.last_heard = self.loop.time()
        self.bytes_sent = 0

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDBUF, SEND_BUFFER)
            if raw.family != sockets.AF_UNIX:
                raw.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):  # not when the handshake itself was refused
            extensions: dict[str, Any] = {**(self.scope["extensions"] or {}), SOCKET: self}
            self.scope["extensions"] = extensions

    # Out

    @property
    def ready(self) -> bool:
        """Whether the transport takes more now. False for good once a close was sent or the peer is gone."""
        return self.writable.is_set() and self.alive

    @property
    def alive(self) -> bool:
        return not (self.disconnected or self.close_sent or self.transport.is_closing())

    @property
    def unsent(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self.transport.get_write_buffer_size()

    def write_frame(self, frame: bytes) -> None:
        """Hand one whole frame to the transport."""
        self.bytes_sent += len(frame)
        self.transport.write(frame)

    def write_close(self, code: int, reason: str) -> None:
        """Send a close frame; the transport ends when the peer answers or after uvicorn's close timeout."""
        if not self.alive:
            return
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.resume_receiving()
        self.close_timer = self.loop.call_later(self.close_timeout, self.transport.abort)

    # In

    def attach(self, user: SocketUser) -> None:
        """From now on ``user`` gets every message; those that uvicorn queued already come first."""
        self._user = user
        queued = []
        while not self.queue.empty():
            queued.append(self.queue.get_nowait())
        for event in queued:
            if event["type"] == "websocket.receive":
                text = event.get("text")
                user.message(text if text is not None else event.get("bytes") or b"")
            elif event["type"] == "websocket.disconnect":
                user.gone()
        self.resume_receiving()
        if self._unparsed:
            self._parse_later()

    def set_message_limit(self, size: int) -> None:
        """Take messages up to ``size`` bytes; the state machine answers a larger one with close 1009."""
        self.conn.max_message_size = size

    def pause_receiving(self) -> None:
        if not self.read_paused and self.alive:
            self.read_paused = True
            self.transport.pause_reading()

    def resume_receiving(self) -> None:
        if self.read_paused and not self.transport.is_closing():
            self.read_paused = False
            self.transport.resume_reading()
            if self._unparsed:
                self._parse_later()

    def data_received(self, data: bytes) -> None:
        self.last_heard = self.loop.time()
        if self._broken:
            self._discard_until_silent()
        elif len(data) <= TURN_BYTES and not self._unparsed:
            super().data_received(data)
            self._refuse_unread()
        else:
            self._unparsed += data
            self._parse()

    def _parse(self) -> None:
        """Parse what has come, a step at a time; after its turn this connection reads on in the next one."""
        until = self.loop.time() + TURN_SECONDS
        while self._unparsed and not self._broken:
            if self.read_paused and self._user is not None:
                return  # resume_receiving goes on
            piece = bytes(self._unparsed[:TURN_BYTES])
            del self._unparsed[:TURN_BYTES]
            super().data_received(piece)
            self._refuse_unread()
            if self._unparsed and self.loop.time() > until:
                self._parse_later()
                return
        if self._broken:
            self._unparsed.clear()

    def _refuse_unread(self) -> None:
        """An upgrade that cannot be read is answered (414, 431, else 400) and over; uvicorn would leave it waiting."""
        if self.conn.handshake_exc is None or self.handshake_initiated or self.transport.is_closing():
            return
        answer = b"".join(self.conn.data_to_send())
        self.transport.write(answer or UNREADABLE)
        self._unparsed.clear()
        self.transport.close()

    def _parse_later(self) -> None:
        if self._parsing:
            return
        self._parsing = True
        # Not reading breaks the transport's own loop, which else would bring more before anybody else is served.
        self.transport.pause_reading()
        self.loop.call_soon(self._parse_again)

    def _parse_again(self) -> None:
        self._parsing = False
        if self.transport.is_closing():
            return
        if not self.read_paused:
            self.transport.resume_reading()
        self._parse()

    def handle_ping(self) -> None:
        """Answer, but pile up no answers for a peer that does not read them: the newest will do (RFC 6455 §5.5.3)."""
        pong = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(pong)
        else:
            self._late_pong = pong

    def handle_pong(self, event: Frame) -> None:
        """The heartbeat's pings carry no payload: their pongs only show that the peer lives."""
        if self._user is not None and event.data and not self.close_sent:
            self._user.pong(bytes(event.data))

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self.conn.fail(1009, "too many fragments")
            self._break_off()
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        if self._user is None:
            super().send_receive_event_to_app()
            return
        data = self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)
        self.frames = []
        if self.close_sent:
            return
        if self.curr_msg_data_type == "bytes":
            self._user.message(bytes(data))
            return
        try:
            text = data.decode()
        except UnicodeDecodeError:
            self.write_close(1007, "text is not UTF-8")
            self._user.gone()
            return
        self._user.message(text)

    # Life

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._late_pong and self.alive:
            self.transport.write(self._late_pong)
            self._late_pong = b""
        if self._user is not None and self.alive:
            self._user.writable()

    def handle_close(self, event: Frame) -> None:
        super().handle_close(event)
        self._tell_gone()

    def handle_parser_exception(self) -> None:
        self._break_off()

    def _break_off(self) -> None:
        """Say why (1002, 1007, 1009) and let the peer read it: closing now, with its bytes unread, would reset that."""
        close = self.conn.close_sent
        code, reason = (close.code, close.reason) if close is not None else (1002, "")
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = self._broken = True
        self.resume_receiving()
        self._give_up_at = self.loop.time() + DISCARD_LIMIT
        self._discard_until_silent()
        self._tell_gone()

    def _discard_until_silent(self) -> None:
        if self.close_timer is not None:
            self.close_timer.cancel()
        left = max(0.0, self._give_up_at - self.loop.time())
        self.close_timer = self.loop.call_later(min(DISCARD_SILENCE, left), self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._tell_gone()

    def _tell_gone(self) -> None:
        if self._user is not None:
            self._user.gone()

    async def disconnected_for_good(self) -> None:
        """Return when the connection has ended: the ASGI call lasts as long as its socket."""
        while not self.disconnected:
            event = await self.queue.get()
            if event["type"] == "websocket.disconnect":
                return

    def kill(self) -> None:
        """Drop the connection at once."""
        if not self.disconnected:
            self.transport.abort()


def listening_socket(host: str, port: int) -> sockets.socket:
    """A bound TCP socket, not yet listening. Raises ``OSError`` when the port is taken."""
    family, kind, proto, _, address = sockets.getaddrinfo(host, port, type=sockets.SOCK_STREAM)[0]
    bound = sockets.socket(family, kind, proto)
    try:
        bound.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        bound.setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDBUF, SEND_BUFFER)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound


def unix_socket(path: str) -> sockets.socket:
    """A bound unix socket (0600), not yet listening. One that nobody answers is replaced. Raises ``OSError``."""
    bound = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        if _is_forsaken(path):
            os.unlink(path)  # noqa: PTH108  as bind takes it
        before = os.umask(0o177)
        try:
            bound.bind(path)
        finally:
            os.umask(before)
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound


def _is_forsaken(path: str) -> bool:
    """Whether this is the socket of a server that is no more."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
    except FileNotFoundError:
        return False
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
    return False

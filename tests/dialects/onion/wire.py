"""A WebSocket client of a page: what it answers, when it reads and how it goes are the test's to say.

Pings can be left unanswered, reading can stop, and a connection can end at any byte: with a close, with a reset, or
after so many more bytes, in the middle of a frame.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import struct
from collections.abc import Callable
from urllib.parse import urlsplit

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class UpgradeRefused(Exception):
    """``status`` and ``body`` of the HTTP answer."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"HTTP {status}: {body[:200]!r}")
        self.status = status
        self.body = body


class Wire(asyncio.Protocol):
    """One connection. ``take`` is given each whole text message; ``ended`` is called once, when it is gone.

    ``pings`` are those that came and were not answered (while ``answers_pings`` is false).
    """

    def __init__(self, take: Callable[[str], None], ended: Callable[[], None]) -> None:
        self.answers_pings = True
        self.pings: list[bytes] = []
        self.close_code: int | None = None
        self.received = 0
        self._take = take
        self._ended = ended
        self._bytes = bytearray()
        self._message = bytearray()
        self._left: int | None = None
        self._upgraded = False
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport

    @classmethod
    async def open(
        cls, url: str, take: Callable[[str], None], ended: Callable[[], None], headers: dict[str, str] | None = None
    ) -> Wire:
        """Connect and upgrade. Raises ``UpgradeRefused``, ``OSError``, ``TimeoutError`` after ten seconds."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        host, port = parts.hostname, parts.port
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        asked = {
            "Host": parts.netloc,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
            "Sec-WebSocket-Version": "13",
            **(headers or {}),
        }
        async with asyncio.timeout(10):
            loop = asyncio.get_running_loop()
            _, wire = await loop.create_connection(lambda: cls(take, ended), host, port)
            lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in asked.items()), "", ""]
            wire._transport.write("\r\n".join(lines).encode())
            await wire._opened
        return wire

    @property
    def open_now(self) -> bool:
        return not self._gone.done()

    # Sending

    def send(self, data: str | bytes) -> None:
        """One whole message: text, or binary."""
        is_text = isinstance(data, str)
        payload = data.encode() if isinstance(data, str) else data
        self._transport.write(_frame(TEXT if is_text else BINARY, payload))

    def send_raw(self, data: bytes) -> None:
        """Bytes as they are, whether or not they make a frame."""
        self._transport.write(data)

    def send_pong(self, payload: bytes) -> None:
        """A pong, whether or not there was a ping."""
        self._transport.write(_frame(PONG, payload))

    def pong(self) -> None:
        """Answer what was not answered."""
        for payload in self.pings:
            self._transport.write(_frame(PONG, payload))
        self.pings.clear()

    # Reading

    def pause(self) -> None:
        """Read nothing more."""
        if self._transport.is_reading():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self.open_now:
            self._transport.resume_reading()

    # Going

    async def close(self) -> None:
        """Say goodbye, and go."""
        if self.open_now:
            self._transport.write(_frame(CLOSE, struct.pack("!H", 1000)))
            self._transport.close()
        await self.gone()

    async def reset(self) -> None:
        """Go without a word: the other end gets a RST."""
        if self.open_now:
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        await self.gone()

    def reset_after(self, size: int) -> None:
        """Go so after so many more bytes of the other end's, wherever in a frame that is."""
        self._left = size

    async def gone(self) -> None:
        """Wait until the connection is gone."""
        await asyncio.shield(self._gone)

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        cut = self._left is not None and len(data) >= self._left
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        self.received += len(data)
        self._bytes += data
        if not self._upgraded:
            self._read_head()
        while self._upgraded and self._read_frame():
            pass
        if cut:
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        if not self._opened.done():
            self._opened.set_exception(ConnectionError("the server went before it had answered"))
        if not self._gone.done():
            self._gone.set_result(None)
        self._ended()

    def _read_head(self) -> None:
        head, found, rest = bytes(self._bytes).partition(b"\r\n\r\n")
        if not found:
            return
        status = int(head.split(b" ", 2)[1])
        if status != 101:
            if not self._opened.done():
                self._opened.set_exception(UpgradeRefused(status, rest))
            self._transport.abort()
            return
        self._bytes = bytearray(rest)
        self._upgraded = True
        if not self._opened.done():  # who waited may have given up
            self._opened.set_result(None)

    def _read_frame(self) -> bool:
        """Take one frame, if there is a whole one."""
        data = self._bytes
        if len(data) < 2:
            return False
        size, body = data[1] & 0x7F, 2
        if size >= 126:
            body += 2 if size == 126 else 8
            if len(data) < body:
                return False
            size = int.from_bytes(data[2:body], "big")
        if len(data) < body + size:
            return False
        final, opcode, payload = bool(data[0] & 0x80), data[0] & 0x0F, bytes(data[body : body + size])
        del data[: body + size]
        self._on_frame(opcode, payload, final=final)
        return True

    def _on_frame(self, opcode: int, payload: bytes, *, final: bool) -> None:
        if opcode == PING:
            self.pings.append(payload)
            if self.answers_pings:
                self.pong()
        elif opcode == CLOSE:
            self.close_code = struct.unpack("!H", payload[:2])[0] if len(payload) >= 2 else 1005
            self._transport.close()
        elif opcode != PONG:
            self._message += payload
            if final:
                text, self._message = self._message.decode(), bytearray()
                self._take(text)


def _frame(opcode: int, payload: bytes) -> bytes:
    """One frame of a client, masked with zeros."""
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, 0x80 | size))
    elif size < 65536:
        head = struct.pack("!BBH", 0x80 | opcode, 0xFE, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0xFF, size)
    return head + bytes(4) + payload

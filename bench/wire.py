"""A WebSocket client that costs next to nothing: raw sockets, frames parsed where they arrive.

A server's frames are not masked, so a message can be handed on as a view of the receive buffer. ``Links`` waits for
many connections at once.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterable
from typing import Protocol

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10

Socket = socket.socket

_RECEIVE = bytearray(4 * 1024 * 1024)
_VIEW = memoryview(_RECEIVE)

Take = Callable[[int, memoryview], None]
"""Called with the opcode and the payload of each message; the payload is only valid during the call."""


class Link:
    """One connection."""

    def __init__(self, port: int, path: str, take: Take) -> None:
        """Connect and shake hands, blocking."""
        self.take = take
        self.closed = False
        self._rest = bytearray()
        self._needed = 2
        self.socket = socket.socket()
        self.socket.settimeout(10)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head:
            piece = self.socket.recv(65536)
            if not piece:
                raise ConnectionError(f"no upgrade at {path}: {head[:200]!r}")
            head += piece
        head, _, early = head.partition(b"\r\n\r\n")
        if b" 101 " not in head.partition(b"\r\n")[0]:
            raise ConnectionError(f"no upgrade at {path}: {head[:200]!r} {early[:200]!r}")
        self.socket.setblocking(False)
        if early:
            self._parse(memoryview(early))

    def send(self, payload: bytes, opcode: int = TEXT) -> None:
        """One whole message, masked with zeros."""
        size = len(payload)
        head = bytes((0x80 | opcode, 0x80 | size)) if size < 126 else struct.pack("!BBH", 0x80 | opcode, 0xFE, size)
        self.socket.sendall(head + bytes(4) + payload)

    def receive(self) -> None:
        """Take what has arrived, at most one buffer full of it."""
        try:
            size = self.socket.recv_into(_RECEIVE)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if size == 0:
            self.closed = True
            return
        self._parse(_VIEW[:size])

    def close(self) -> None:
        """Drop the connection."""
        self.closed = True
        self.socket.close()

    def _parse(self, data: memoryview) -> None:
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return
            data, self._rest = memoryview(self._rest), bytearray()
        at, end = 0, len(data)
        while end - at >= 2:
            size, body = data[at + 1] & 0x7F, at + 2
            if size >= 126:
                body += 2 if size == 126 else 8
                if end < body:
                    break
                size = int.from_bytes(data[at + 2 : body], "big")
            if end < body + size:
                self._needed = body + size - at
                self._rest += data[at:]
                return
            self._message(data[at] & 0x0F, data[body : body + size])
            at = body + size
        self._needed = 2
        self._rest += data[at:]

    def _message(self, opcode: int, payload: memoryview) -> None:
        if opcode in (TEXT, BINARY):
            self.take(opcode, payload)
        elif opcode == PING:
            self.send(bytes(payload), PONG)
        elif opcode == CLOSE:
            self.closed = True


class Readable(Protocol):
    """What ``Links`` reads from."""

    socket: Socket
    closed: bool

    def receive(self) -> None: ...
    def close(self) -> None: ...


class Links:
    """Reads from many links until something is true."""

    def __init__(self, links: Iterable[Readable] = ()) -> None:
        self._selector = selectors.DefaultSelector()
        self._links: list[Readable] = []
        for link in links:
            self.add(link)

    def add(self, link: Readable) -> None:
        self._links.append(link)
        self._selector.register(link.socket, selectors.EVENT_READ, link)

    def until(self, done: Callable[[], bool], limit: float, *, each: Callable[[], None] | None = None) -> bool:
        """Read until ``done()``, ``limit`` seconds at most; whether it came true. ``each`` is called now and then."""
        deadline = time.perf_counter() + limit
        look_at = 0.0
        while not done():
            now = time.perf_counter()
            if now > deadline:
                return False
            if each is not None and now >= look_at:
                look_at = now + 0.05
                each()
            for key, _ in self._selector.select(0.05):
                key.data.receive()
                if key.data.closed:
                    self._selector.unregister(key.data.socket)
        return True

    def during(self, seconds: float) -> None:
        """Read for so long, to the millisecond."""
        deadline = time.perf_counter() + seconds
        while (left := deadline - time.perf_counter()) > 0:
            for key, _ in self._selector.select(left):
                key.data.receive()
                if key.data.closed:
                    self._selector.unregister(key.data.socket)

    def settle(self, quiet: float = 0.05, limit: float = 5.0) -> None:
        """Read until nothing has come for ``quiet`` seconds."""
        deadline = time.perf_counter() + limit
        while time.perf_counter() < deadline:
            ready = self._selector.select(quiet)
            if not ready:
                return
            for key, _ in ready:
                key.data.receive()
                if key.data.closed:
                    self._selector.unregister(key.data.socket)

    def release(self) -> None:
        """Watch the links no more; they stay open."""
        self._selector.close()

    def close(self) -> None:
        self.release()
        for link in self._links:
            link.close()

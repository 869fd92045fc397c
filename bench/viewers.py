"""Links that watch a terminal: what the output frames of each protocol are, and how a key is sent in it."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from .programs import END, READY
from .wire import BINARY, TEXT, Link, Links

ROUND_LIMIT = 60.0
"""Seconds that anything may take to arrive."""

_encode, _decode = msgspec.json.encode, msgspec.json.decode
_HUB_HEAD = struct.Struct("!IQ")
_COOP_HEAD = b'{"event":"output","data":"'
_COOP_OFFSET = b'","offset":'


class Viewer:
    """One link. This class reads raw binary frames, as the bare ceiling and ptymini send them.

    ``count`` is the bytes that came since ``expect``, ``crc`` their checksum if it ``checks``, ``position`` how far
    into the output they reach: an absolute offset where the protocol has them, else the bytes so far.
    """

    def __init__(self, port: int, path: str, *, checks: bool = False) -> None:
        self.position = self.count = self.crc = self.frames = 0
        self.on_output: Callable[[], None] | None = None
        self._size = self._target = 0
        self._checks = checks
        self._tail = b""
        self.link = Link(port, path, self._take)

    def expect(self, size: int) -> None:
        """Count from here; what comes next is ``size`` bytes."""
        self._size, self._target = size, self.position + size
        self.count = self.crc = self.frames = 0
        self._tail = b""

    @property
    def finished(self) -> bool:
        """Whether the last of the expected bytes came."""
        return self.position >= self._target or self._tail.endswith(END)

    @property
    def lost(self) -> int:
        """How many of the expected bytes did not come, once finished."""
        return self._size - self.count

    def type(self, data: bytes) -> None:
        """Send keys to the program."""
        self.link.send(data, BINARY)

    def close(self) -> None:
        self.link.close()

    def _take(self, opcode: int, payload: memoryview) -> None:
        if opcode == BINARY:
            self._tail = bytes(payload[-len(END) :])
            self._got(payload, len(payload), self.position + len(payload))

    def _got(self, data: memoryview | bytes, size: int, position: int) -> None:
        self.count += size
        self.frames += 1
        self.position = position
        if self._checks:
            self.crc = zlib.crc32(data, self.crc)
        if self.on_output is not None:
            self.on_output()


class HubViewer(Viewer):
    """A hub link that is attached to one terminal."""

    def __init__(self, port: int, session: str, *, offset: int | None = None, checks: bool = False) -> None:
        self._attached: dict[str, Any] | None = None
        self.skipped = 0
        super().__init__(port, "/hub/ws", checks=checks)
        ask = {"op": "attach", "id": 1, "session": session} | ({} if offset is None else {"offset": offset})
        self.link.send(_encode(ask))
        links = Links([self.link])
        if not links.until(lambda: self._attached is not None, ROUND_LIMIT):
            raise ConnectionError("no answer to attach")
        links.release()

    def type(self, data: bytes) -> None:
        assert self._attached is not None
        self.link.send(self._attached["handle"].to_bytes(4, "big") + data, BINARY)

    def _take(self, opcode: int, payload: memoryview) -> None:
        if opcode == BINARY:
            offset = _HUB_HEAD.unpack_from(payload)[1]
            size = len(payload) - _HUB_HEAD.size
            self._got(payload[_HUB_HEAD.size :], size, offset + size)
            return
        said = _decode(payload)
        if said.get("id") == 1:
            if said["type"] != "ok":
                raise ConnectionError(f"attach was refused: {said}")
            self._attached = said
            self.position = said["offset"]
        elif said["type"] == "skipped":
            self.skipped += said["to"] - said["from"]


class CoopViewer(Viewer):
    """A coop link in mode ``raw``: base64 in JSON. Only one that checks decodes it."""

    def __init__(self, port: int, session: str, *, checks: bool = False) -> None:
        super().__init__(port, f"/coop/ws?mode=raw&session={session}", checks=checks)

    def expect(self, size: int) -> None:
        if self.position == 0:  # the protocol does not say where a link begins: the first frame will
            self._size, self._target = size, 0
            self.count = self.crc = self.frames = 0
        else:
            super().expect(size)

    @property
    def finished(self) -> bool:
        return self._target > 0 and self.position >= self._target

    def type(self, data: bytes) -> None:
        self.link.send(_encode({"event": "input:raw", "data": base64.b64encode(data).decode()}))

    def _take(self, opcode: int, payload: memoryview) -> None:
        if opcode != TEXT or payload[: len(_COOP_HEAD)] != _COOP_HEAD:
            return
        tail = bytes(payload[-32:])
        at = tail.rindex(_COOP_OFFSET)
        offset = int(tail[at + len(_COOP_OFFSET) : -1])
        text = payload[len(_COOP_HEAD) : len(payload) - len(tail) + at]
        size = len(text) // 4 * 3 - bytes(text[-2:]).count(b"=")
        if self._target == 0:
            self._target = offset + self._size
        self._got(base64.b64decode(text) if self._checks else b"", size, offset + size)


class TerminadoViewer(Viewer):
    """A terminado link: JSON lists with text."""

    def type(self, data: bytes) -> None:
        self.link.send(_encode(["stdin", data.decode()]))

    def _take(self, opcode: int, payload: memoryview) -> None:
        kind, *rest = _decode(payload)
        if opcode == TEXT and kind == "stdout":
            data = rest[0].encode()
            self._tail = data[-len(END) :]
            self._got(data, len(data), self.position + len(data))


def wait_ready(viewer: Viewer, links: Links) -> None:
    """Wait until the program of a terminal that this viewer sees from its beginning listens."""
    if not links.until(lambda: viewer.position >= len(READY), ROUND_LIMIT):
        raise ConnectionError("the program does not start")

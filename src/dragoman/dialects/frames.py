"""WebSocket frames (RFC 6455 §5.2), whole and unmasked as a server sends them.

A frame is made once and its bytes are shared by every link that needs the same message: the transport is handed the
very same object for the first link and for the hundredth.
"""

from __future__ import annotations

import struct

_FIN_TEXT = 0x81
_FIN_BINARY = 0x82
_FIN_PING = 0x89


def _header(opcode: int, length: int) -> bytes:
    if length < 126:
        return bytes((opcode, length))
    if length < 65536:
        return struct.pack("!BBH", opcode, 126, length)
    return struct.pack("!BBQ", opcode, 127, length)


def text_frame(payload: bytes) -> bytes:
    """A text message; ``payload`` is UTF-8."""
    return _header(_FIN_TEXT, len(payload)) + payload


def binary_frame(*parts: bytes) -> bytes:
    """A binary message made of ``parts`` in order."""
    return b"".join((_header(_FIN_BINARY, sum(map(len, parts))), *parts))


def ping_frame(payload: bytes) -> bytes:
    """A protocol ping; the peer's pong carries the same payload (125 bytes at most, RFC 6455 §5.5)."""
    assert len(payload) <= 125
    return _header(_FIN_PING, len(payload)) + payload


PING = bytes((_FIN_PING, 0))
"""A protocol ping without payload."""

"""Content codings, undone piece by piece and never further than the caller has room for."""

from __future__ import annotations

import zlib
from typing import Protocol

ACCEPTED = "gzip, deflate"
"""What we can undo within a bound, and so what we ask for."""

_GZIP = 16 + zlib.MAX_WBITS
_MEMBER = b"\x1f\x8b"


class CodingFailed(ValueError):
    """The body is not what its ``Content-Encoding`` says, or in one that nobody asked for."""


class Decoder(Protocol):
    """Bytes of one body, in order."""

    def feed(self, data: bytes, room: int) -> bytes:
        """What these bytes give, at most ``room`` (> 0) of it; who gets that much must stop. Raises CodingFailed."""

    def end(self) -> None:
        """The body is over. Raises CodingFailed where the coding says that more must come."""


class Identity:
    """No coding."""

    def feed(self, data: bytes, room: int) -> bytes:
        """See ``Decoder``."""
        return data[:room]

    def end(self) -> None:
        """Nothing is held back."""


class Inflater:
    """gzip of any number of members, or deflate with or without the zlib frame: servers send both by that name."""

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._inflate = zlib.decompressobj(_GZIP) if coding == "gzip" else None
        self._begun = False

    def feed(self, data: bytes, room: int) -> bytes:
        """See ``Decoder``."""
        given = bytearray()
        while data and len(given) < room:
            if self._inflate is None:
                self._inflate = zlib.decompressobj(_wbits(data[0]))
            self._begun = True
            try:
                given += self._inflate.decompress(data, room - len(given))
            except zlib.error:
                raise CodingFailed(f"the body's {self._coding} coding is damaged") from None
            if not self._inflate.eof:
                break
            data = self._next_member()
        return bytes(given)

    def end(self) -> None:
        """See ``Decoder``. No byte at all is an empty body."""
        if self._begun and self._inflate is not None and not self._inflate.eof:
            raise CodingFailed(f"the body's {self._coding} coding ends too early")

    def _next_member(self) -> bytes:
        """What follows the end, if it is another member; browsers drop anything else that does."""
        assert self._inflate is not None
        rest = self._inflate.unused_data
        if self._coding != "gzip" or not rest.startswith(_MEMBER):
            return b""
        self._inflate = zlib.decompressobj(_GZIP)
        return rest


def decoder(header: str) -> Decoder:
    """For this ``Content-Encoding``. Raises CodingFailed."""
    codings = [each for each in (part.strip().lower() for part in header.split(",")) if each not in ("", "identity")]
    if not codings:
        return Identity()
    if codings in (["gzip"], ["x-gzip"]):
        return Inflater("gzip")
    if codings == ["deflate"]:
        return Inflater("deflate")
    raise CodingFailed(f"unsupported content encoding: {', '.join(codings)[:60]}")


def _wbits(first: int) -> int:
    """By the first byte: zlib's says deflate with a window of up to 32 KiB; raw deflate hardly begins like that."""
    return zlib.MAX_WBITS if first & 0x0F == 8 and first >> 4 <= 7 else -zlib.MAX_WBITS

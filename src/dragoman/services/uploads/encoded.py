"""Base64 text as it stood in a message, decoded piece by piece.

Decoding holds the interpreter, so that a long text at once would stop everything else; between two pieces others run.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator

import msgspec
from msgspec import Raw

from .refused import UploadRefused

PIECE = 128 * 1024
"""Characters that are decoded at once: a multiple of four."""

_HEAD = 1024
"""Characters in which a data URL's head has come to its comma."""

_ESCAPED = b"\\"


class Encoded:
    """One base64 text: a data URL, of which all up to the first comma is its head, or bare.

    ``called`` is how people are told of it: ``File: report.pdf``.
    """

    def __init__(self, value: Raw | memoryview, called: str) -> None:
        """``value`` is a JSON string, quotes and all. Raises ``UploadRefused`` for another value."""
        text = memoryview(value)
        if len(text) < 2 or bytes(text[:1]) != b'"':
            raise UploadRefused(f"{called}: data must be a base64 text")
        text = _unescaped(text[1:-1], called)
        comma = bytes(text[:_HEAD]).find(b",")
        self.called = called
        self.head = bytes(text[: max(comma, 0)]).decode(errors="replace")
        """What a data URL says of it: ``data:image/png;base64``. Empty for a bare text."""
        self._text = text[comma + 1 :]
        end = bytes(self._text[-2:])
        padding = len(end) - len(end.rstrip(b"="))
        self.size = len(self._text) // 4 * 3 - padding
        """Bytes that it stands for, if it stands for any."""

    def pieces(self) -> Iterator[bytes]:
        """What it stands for. Raises ``UploadRefused`` when it comes upon what is no base64."""
        if len(self._text) % 4:
            raise self._wrong()
        for start in range(0, len(self._text), PIECE):
            piece = self._text[start : start + PIECE]
            try:
                decoded = binascii.a2b_base64(piece, strict_mode=True)
            except binascii.Error as error:
                raise self._wrong() from error
            if len(decoded) != len(piece) // 4 * 3 and start + PIECE < len(self._text):
                raise self._wrong()  # padding in the middle
            yield decoded

    def beginning(self, size: int) -> bytes:
        """Its first bytes. Raises ``UploadRefused``."""
        try:
            return binascii.a2b_base64(self._text[: -(-size // 3) * 4], strict_mode=True)[:size]
        except binascii.Error as error:
            raise self._wrong() from error

    def _wrong(self) -> UploadRefused:
        return UploadRefused(f"{self.called}: data is not valid base64")


def _unescaped(text: memoryview, called: str) -> memoryview:
    """What stands in a JSON string. Some writers escape each ``/``; most texts have no escape at all."""
    for start in range(0, len(text), PIECE):
        if _ESCAPED in bytes(text[start : start + PIECE]):
            try:
                return memoryview(msgspec.json.decode(b'"%b"' % bytes(text), type=str).encode())
            except (msgspec.MsgspecError, UnicodeError) as error:
                raise UploadRefused(f"{called}: data must be a base64 text") from error
    return text

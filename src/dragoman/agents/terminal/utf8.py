"""Whole characters out of a byte stream that is cut anywhere and may be damaged.

A byte that is not UTF-8 is dropped, as xterm does, so a replacement character is shown only where the program wrote
one (invariant 7).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from codecs import utf_8_decode
from collections.abc import Callable
from typing import NamedTuple

_VALID = re.compile(
    rb"(?:[\x00-\x7f]++|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}"
    rb"|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}"
    rb"|\xf4[\x80-\x8f][\x80-\xbf]{2})++"
)
_C1 = re.compile(rb"\xc2[\x80-\x9f]")


class Piece(NamedTuple):
    """The whole characters of one chunk.

    ``text`` is what they say; ``data`` is the same as valid UTF-8, with C1 controls in their two-byte ESC form (which
    has the same length); ``locate`` gives the tape offset of a position in ``data``.
    """

    text: str
    data: bytes
    locate: Callable[[int], int]


class Utf8Reader:
    """Keeps the first bytes of a character whose rest has not come yet: at most three."""

    def __init__(self) -> None:
        self._carry = b""

    @property
    def pending(self) -> int:
        """Bytes taken but not yet given out."""
        return len(self._carry)

    def read(self, data: bytes, offset: int) -> Piece:
        """The characters that are complete with ``data``, whose first byte is at tape offset ``offset``."""
        raw = self._carry + data if self._carry else data
        base = offset - len(self._carry)
        locate: Callable[[int], int] = base.__add__
        try:
            text, used = utf_8_decode(raw, "strict", False)
            clean = raw[:used]
        except UnicodeDecodeError:
            text, used = utf_8_decode(raw, "ignore", False)
            clean = text.encode()
            locate = _DamagedMap(raw[:used], base)
        self._carry = raw[used:]
        if b"\xc2" in clean:
            clean = _C1.sub(_seven_bit, clean)
        return Piece(text, clean, locate)

    def drop(self) -> None:
        """Forget an unfinished character: nothing more will come."""
        self._carry = b""


def _seven_bit(c1: re.Match[bytes]) -> bytes:
    return bytes((0x1B, c1[0][1] - 0x40))


class _DamagedMap:
    """Positions in what is left of a chunk after bytes were dropped, as tape offsets; worked out when first asked."""

    def __init__(self, raw: bytes, base: int) -> None:
        self._raw = raw
        self._base = base
        self._starts: list[int] = []
        self._shifts: list[int] = []

    def __call__(self, position: int) -> int:
        if not self._starts:
            self._measure()
        run = max(bisect_right(self._starts, position) - 1, 0)
        return self._base + position + self._shifts[run]

    def _measure(self) -> None:
        kept = 0
        for run in _VALID.finditer(self._raw):
            self._starts.append(kept)
            self._shifts.append(run.start() - kept)
            kept += run.end() - run.start()
        if not self._starts:
            self._starts, self._shifts = [0], [len(self._raw)]

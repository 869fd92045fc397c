"""The elements of a JSON array of few, very long texts, found without reading it at once.

What decodes JSON holds the interpreter to its end: for ten files of 10 MB that stops everything else for 40 ms. So a
long array is gone through piece by piece, and only as far as quotes and brackets; others run in between.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw

LONG = 1024 * 1024
"""Bytes from which on an array is gone through in pieces."""

_PIECE = 128 * 1024
_BETWEEN = 256
"""Bytes that are looked at at once outside of texts: there is not much there."""

_STEPS = 20_000
"""Quotes, brackets, escapes: with more of them it is no array of few, long texts, and is decoded at once."""

_MARK = re.compile(rb'["\[\]{},]')


MOST = 256
"""Elements of an array. Each costs an object, and a message has room for millions of them."""

_Few = msgspec.defstruct(
    "_Few",
    [(f"element{place}", Raw, msgspec.field(default=Raw())) for place in range(MOST)],
    array_like=True,
    forbid_unknown_fields=True,
)
"""An array of so many at most: with more, decoding ends there."""


class TooManyElements(Exception):
    """There are more than ``MOST``."""


class _TooMany(Exception):
    """It is gone through in other ways."""


def elements(array: Raw, *, long: int = LONG) -> list[memoryview]:
    """The elements of an array as they stand there. ``array`` was found to be JSON by whoever took it apart.

    Raises ``TooManyElements``, and what msgspec raises for what is no array.
    """
    text = memoryview(array)
    if len(text) >= long and bytes(text[:1]) == b"[":
        try:
            return _Walk(text).elements()
        except _TooMany:
            pass  # below
    try:
        few = msgspec.json.decode(array, type=_Few)
    except msgspec.ValidationError:
        if bytes(text[:1]) != b"[":
            raise
        raise TooManyElements from None  # nothing else can be wrong with them: they are not read
    found = (memoryview(each) for each in msgspec.structs.astuple(few))
    return [each for each in found if each.nbytes]


class _Walk:
    def __init__(self, text: memoryview) -> None:
        self._text = text
        self._steps = _STEPS

    def elements(self) -> list[memoryview]:
        found: list[memoryview] = []
        at, depth, begin = 1, 1, 1
        while depth:
            self._step()
            piece = bytes(self._text[at : at + _BETWEEN])
            mark = _MARK.search(piece)
            if mark is None:
                if not piece:
                    raise _TooMany  # no JSON after all
                at += len(piece)
                continue
            at += mark.end()
            what = mark[0]
            if what == b'"':
                at = self._end_of_text(at)
            elif what in b"[{":
                depth += 1
            elif what in b"]}":
                depth -= 1
            if depth == 0 or (depth == 1 and what == b","):
                if len(found) == MOST:
                    raise TooManyElements
                found.append(self._bare(begin, at - 1))
                begin = at
        return found if len(found) != 1 or found[0] else []

    def _end_of_text(self, at: int) -> int:
        """Behind the quote that ends the text which goes on here."""
        while True:
            self._step()
            piece = bytes(self._text[at : at + _PIECE])
            quote, escape = piece.find(b'"'), piece.find(b"\\")
            if escape >= 0 and (quote < 0 or escape < quote):
                at += escape + 2
            elif quote >= 0:
                return at + quote + 1
            elif piece:
                at += len(piece)
            else:
                raise _TooMany

    def _bare(self, begin: int, end: int) -> memoryview:
        """Without the white space around it."""
        while begin < end and not (piece := bytes(self._text[begin : min(begin + _BETWEEN, end)]).lstrip()):
            begin = min(begin + _BETWEEN, end)
        begin = min(begin + _BETWEEN, end) - len(piece) if begin < end else begin
        while begin < end and not (piece := bytes(self._text[max(end - _BETWEEN, begin) : end]).rstrip()):
            end = max(end - _BETWEEN, begin)
        end = max(end - _BETWEEN, begin) + len(piece) if begin < end else end
        return self._text[begin:end]

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise _TooMany

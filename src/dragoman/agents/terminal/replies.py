"""What a program asks of its terminal, and what we answer: tables, no state.

A viewer's own terminal reads the same queries from the tape and answers them too; ``ANSWER`` recognises its answers,
under the same names, so that the program gets one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from .modes import Modes

FOREGROUND = (0xE5, 0xE5, 0xE5)
BACKGROUND = (0x00, 0x00, 0x00)
"""A dark terminal: what programs are told that ask which colours they draw on."""

CELL_WIDTH, CELL_HEIGHT = 8, 16
"""Nominal pixels of a cell, for programs that ask for sizes in pixels."""

ANSWER = re.compile(
    rb"(?P<da1>\x1b\[\?[0-9;]*c)"
    rb"|(?P<da2>\x1b\[>[0-9;]*c)"
    rb"|(?P<status>\x1b\[[03]n)"
    rb"|(?P<cpr>\x1b\[[0-9]+;[0-9]+R)"
    rb"|(?P<dec_cpr>\x1b\[\?[0-9]+;[0-9]+(?:;[0-9]+)?R)"
    rb"|(?P<kitty>\x1b\[\?[0-9]+u)"
    rb"|(?P<version>\x1bP>\|[^\x07\x1b]*\x1b\\)"
    rb"|(?P<mode>\x1b\[\??[0-9]+;[0-4]\$y)"
    rb"|(?P<window_pixels>\x1b\[4;[0-9]+;[0-9]+t)"
    rb"|(?P<cell_pixels>\x1b\[6;[0-9]+;[0-9]+t)"
    rb"|(?P<window_cells>\x1b\[8;[0-9]+;[0-9]+t)"
    rb"|(?P<colour>\x1b\](?:4;[0-9]+|1[012]);rgba?:[0-9a-fA-F/]+(?:\x07|\x1b\\))"
    rb"|(?P<program_status>\x1b\]7501;\?[^\x07\x1b]*(?:\x07|\x1b\\))"
)
"""One complete answer of a terminal; ``lastgroup`` is its kind. ``cpr`` looks like F3 with a modifier."""

_QUERIES = {
    b"c": "da1",
    b"0c": "da1",
    b">c": "da2",
    b">0c": "da2",
    b"5n": "status",
    b"6n": "cpr",
    b"?6n": "dec_cpr",
    b"?u": "kitty",
    b">q": "version",
    b">0q": "version",
    b"14t": "window_pixels",
    b"16t": "cell_pixels",
    b"18t": "window_cells",
}
_MODE_QUERY = re.compile(rb"(\??)([0-9]{1,5})\$p")

_FIXED = {
    "da1": b"\x1b[?62;22c",  # a VT220 with colours
    "da2": b"\x1b[>0;100;0c",
    "status": b"\x1b[0n",
    "version": b"\x1bP>|dragoman\x1b\\",
}

_DYNAMIC_COLOURS = {10: FOREGROUND, 11: BACKGROUND, 12: FOREGROUND}
_BASE_COLOURS = (
    (0x00, 0x00, 0x00),
    (0xCD, 0x00, 0x00),
    (0x00, 0xCD, 0x00),
    (0xCD, 0xCD, 0x00),
    (0x00, 0x00, 0xEE),
    (0xCD, 0x00, 0xCD),
    (0x00, 0xCD, 0xCD),
    (0xE5, 0xE5, 0xE5),
    (0x7F, 0x7F, 0x7F),
    (0xFF, 0x00, 0x00),
    (0x00, 0xFF, 0x00),
    (0xFF, 0xFF, 0x00),
    (0x5C, 0x5C, 0xFF),
    (0xFF, 0x00, 0xFF),
    (0x00, 0xFF, 0xFF),
    (0xFF, 0xFF, 0xFF),
)
_CUBE = (0x00, 0x5F, 0x87, 0xAF, 0xD7, 0xFF)


class Answer(NamedTuple):
    """One answer, ready to be written to the program, and the name of its kind."""

    kind: str
    data: bytes


class Asked(NamedTuple):
    """A query as it was asked: in these modes, with the cursor at ``row`` and ``col`` (from 0)."""

    body: bytes
    modes: Modes
    cols: int
    rows: int
    row: int
    col: int


def query_kind(body: bytes) -> str | None:
    """The kind of query a control sequence is (given without its ``ESC [``), or None if it is none that we answer."""
    kind = _QUERIES.get(body)
    if kind is not None:
        return kind
    return "mode" if body.endswith(b"$p") and _MODE_QUERY.fullmatch(body) else None


def answer_query(kind: str, asked: Asked) -> bytes:
    """The answer to a query of that kind (as ``query_kind`` names it)."""
    fixed = _FIXED.get(kind)
    return _COMPUTED[kind](asked) if fixed is None else fixed


def answer_osc(body: bytes, *, bel: bool) -> list[Answer]:
    """The answers to an OSC string (without ``ESC ]`` and its end); empty if it asks nothing that we answer.

    An answer ends as its question did.
    """
    end = b"\x07" if bel else b"\x1b\\"
    number, _, rest = body.partition(b";")
    if number == b"7501":
        return [Answer("program_status", b"\x1b]7501;?" + end)] if rest.strip() == b"?" else []
    if b"?" not in rest:
        return []
    if number == b"4":
        return [_colour_answer(b"4;%d" % index, palette_colour(index), end) for index in _asked(rest)]
    if number in (b"10", b"11", b"12"):
        return [
            _colour_answer(b"%d" % which, _DYNAMIC_COLOURS[which], end)
            for which, value in enumerate(rest.split(b";")[:3], int(number))
            if value == b"?" and which in _DYNAMIC_COLOURS
        ]
    return []


def palette_colour(index: int) -> tuple[int, int, int]:
    """Red, green and blue (0-255) of xterm's palette colour 0-255."""
    if index < 16:
        return _BASE_COLOURS[index]
    if index < 232:
        cube = index - 16
        return _CUBE[cube // 36], _CUBE[cube // 6 % 6], _CUBE[cube % 6]
    grey = 8 + 10 * (index - 232)
    return grey, grey, grey


def _asked(pairs: bytes) -> list[int]:
    """The colour numbers asked for in OSC 4's list of ``number;value`` pairs."""
    fields = pairs.split(b";")
    numbers = [number for number, value in zip(fields[::2], fields[1::2], strict=False) if value == b"?"]
    return [int(number) for number in numbers if number.isdigit() and len(number) <= 3 and int(number) < 256]


def _colour_answer(what: bytes, colour: tuple[int, int, int], end: bytes) -> Answer:
    value = b"/".join(b"%02x%02x" % (part, part) for part in colour)
    return Answer("colour", b"\x1b]" + what + b";rgb:" + value + end)


def _mode_report(asked: Asked) -> bytes:
    query = _MODE_QUERY.fullmatch(asked.body)
    assert query is not None
    mode = int(query[2])
    return b"\x1b[%b%d;%d$y" % (query[1], mode, asked.modes.report(mode, private=query[1] == b"?"))


_COMPUTED: dict[str, Callable[[Asked], bytes]] = {
    "cpr": lambda asked: b"\x1b[%d;%dR" % (asked.row + 1, asked.col + 1),
    "dec_cpr": lambda asked: b"\x1b[?%d;%dR" % (asked.row + 1, asked.col + 1),
    "kitty": lambda asked: b"\x1b[?%du" % asked.modes.kitty_flags,
    "mode": _mode_report,
    "window_pixels": lambda asked: b"\x1b[4;%d;%dt" % (asked.rows * CELL_HEIGHT, asked.cols * CELL_WIDTH),
    "cell_pixels": lambda _: b"\x1b[6;%d;%dt" % (CELL_HEIGHT, CELL_WIDTH),
    "window_cells": lambda asked: b"\x1b[8;%d;%dt" % (asked.rows, asked.cols),
}

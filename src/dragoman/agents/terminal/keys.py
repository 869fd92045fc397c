"""The one table of named keys, and the bytes each sends to the program.

Names are case-insensitive ASCII. The first block is coop's set, byte for byte. What is added on top is what every
xterm-like terminal sends, so that no name could mean two things:

==============================  ===========================================================================
``ctrl-space`` ``ctrl-@``       NUL
``ctrl-[ \\ ] ^ _ ?``            ESC, FS, GS, RS, US, DEL
``shift-tab`` ``backtab``       ``ESC [ Z``
``alt-X`` ``meta-X``            ESC and the bytes of X: a letter (sent in lower case), a digit, ``enter``, ``tab``,
                                ``backspace``, ``space`` or ``escape``
``shift- alt- ctrl-`` + arrow   ``ESC [ 1 ; m X``; also ``home`` and ``end``, and ``ESC [ n ; m ~`` for ``insert``,
                                ``delete``, ``pageup`` and ``pagedown``; m is 2, 3 or 5
==============================  ===========================================================================

One key is one name: ``ctrl-cat`` is unknown, not ``ctrl-c``. Cursor keys are always sent in their normal form;
what the program asked for (application mode) is not looked at, as in coop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from string import ascii_lowercase, digits
from types import MappingProxyType

from dragoman.hub.errors import InvalidRequest

_ARROWS = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_TILDE = {
    "insert": 2,
    "delete": 3,
    "del": 3,
    "pageup": 5,
    "page_up": 5,
    "pagedown": 6,
    "page_down": 6,
}
_FUNCTION = {"f5": 15, "f6": 17, "f7": 18, "f8": 19, "f9": 20, "f10": 21, "f11": 23, "f12": 24}
_PLAIN = {
    "enter": b"\r",
    "return": b"\r",
    "tab": b"\t",
    "escape": b"\x1b",
    "esc": b"\x1b",
    "backspace": b"\x7f",
    "space": b" ",
}
_CTRL_SIGNS = {
    "space": 0x00,
    "@": 0x00,
    "[": 0x1B,
    "\\": 0x1C,
    "]": 0x1D,
    "^": 0x1E,
    "_": 0x1F,
    "?": 0x7F,
}
_MODIFIERS = {"shift": 2, "alt": 3, "meta": 3, "ctrl": 5}


def _coop_keys() -> Iterator[tuple[str, bytes]]:
    yield from _PLAIN.items()
    for name, letter in _ARROWS.items():
        yield name, f"\x1b[{letter}".encode()
    for name, number in (_TILDE | _FUNCTION).items():
        yield name, f"\x1b[{number}~".encode()
    for number, letter in enumerate("PQRS", start=1):
        yield f"f{number}", f"\x1bO{letter}".encode()
    for number, letter in enumerate(ascii_lowercase, start=1):
        yield f"ctrl-{letter}", bytes([number])


def _added_keys() -> Iterator[tuple[str, bytes]]:
    for name, code in _CTRL_SIGNS.items():
        yield f"ctrl-{name}", bytes([code])
    yield "shift-tab", b"\x1b[Z"
    yield "backtab", b"\x1b[Z"
    for modifier in ("alt", "meta"):
        for sign in ascii_lowercase + digits:
            yield f"{modifier}-{sign}", b"\x1b" + sign.encode()
        for name, plain in _PLAIN.items():
            yield f"{modifier}-{name}", b"\x1b" + plain
    for modifier, code in _MODIFIERS.items():
        for name, letter in _ARROWS.items():
            yield f"{modifier}-{name}", f"\x1b[1;{code}{letter}".encode()
        for name, number in _TILDE.items():
            yield f"{modifier}-{name}", f"\x1b[{number};{code}~".encode()


KEYS: Mapping[str, bytes] = MappingProxyType(dict((*_coop_keys(), *_added_keys())))
"""Lower-case name -> bytes."""


def encode_keys(names: Sequence[str]) -> bytes:
    """The bytes of a row of named keys, all or none.

    Raises ``InvalidRequest`` ``unknown key: NAME`` for the first name that is not in the table.
    """
    return b"".join(map(_encode, names))


def _encode(name: str) -> bytes:
    code = KEYS.get(name.lower()) if name.isascii() else None
    if code is None:
        raise InvalidRequest(f"unknown key: {name}")
    return code

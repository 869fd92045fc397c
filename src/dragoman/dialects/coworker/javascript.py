"""JSON and values as JavaScript has them: what the protocol was made with, and its texts show."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Final

from dragoman.hub.events import Json

EXACT: Final = 2**53
"""From here on a number is not every whole number."""

PRINTED_BYTES = 64 * 1024
"""Bytes of JSON whose value is printed; of more, the JSON itself is shown."""

HALVES = 100_000
"""Places in a message, with halves of characters or whole ones escaped as two, that are looked at."""

SHOWN_CHARS = 4000
"""Characters of a client's own text that an error repeats, as in the parts of a stream (spec 5)."""

_SPACES = (*range(0x9, 0xE), 0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF)
_SPACE = "".join(map(chr, _SPACES))
_ESCAPE_CHARS = 6
_HALF = re.compile("[\ud800-\udfff]")
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPES = re.compile(rf"(?<!\\)((?:\\\\)*+)(?:(?:{_HIGH}{_LOW})++|((?:{_LOW}|{_HIGH}(?!{_LOW}))++))")
"""Behind however many escaped backslashes: whole characters, or halves."""


def trimmed(text: str) -> str:
    """The text without white space around it: that of ``String.trim``, which is not quite that of ``str.strip``."""
    return text.strip(_SPACE)


def whole(text: str) -> str:
    """JSON without halves of characters, written out or escaped: each becomes U+FFFD.

    JavaScript's strings may hold them. No file, socket or database here does. Beyond ``HALVES`` they are left.
    """
    return _ESCAPES.sub(_mended, _HALF.sub("\ufffd", text), count=HALVES)


def clipped(text: str) -> str:
    """As much of a client's text as an error repeats."""
    over = len(text) - SHOWN_CHARS
    return text if over <= 0 else f"{text[:SHOWN_CHARS]}...[truncated {over} chars]"


def printed(data: bytes) -> str:
    """A JSON value as ``String(value)`` has it, clipped. Raises ``RecursionError`` for one that is nested too deep."""
    if len(data) > PRINTED_BYTES:
        return clipped(data.decode(errors="replace"))
    return clipped(_joined(json.loads(data, parse_int=_number)))


def number(value: float) -> int | float | None:
    """The number that JavaScript makes of it: ``1`` of 1.0, and the nearest of those it has; None for infinity."""
    if isinstance(value, int) and abs(value) < EXACT:
        return value
    try:
        near = float(value)
    except OverflowError:
        return None
    if not math.isfinite(near):
        return None
    return int(near) if near.is_integer() and abs(near) < EXACT else near


def _mended(escape: re.Match[str]) -> str:
    return escape[0] if escape[2] is None else escape[1] + "\\ufffd" * (len(escape[2]) // _ESCAPE_CHARS)


def _number(digits: str) -> float:
    # ``int`` refuses very long ones; ``float`` makes infinity of them, as JavaScript does.
    return float(digits) if len(digits) > 15 else int(digits)


def _joined(value: Json) -> str:
    """Lists are joined by commas, however deep, so what they hold is printed in its order. Not by recursion."""
    parts: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list) and item:
            # Within a list, null is nothing.
            waiting.extend("" if inner is None else inner for inner in reversed(item))
        else:
            parts.append(_plain(item))
    return ",".join(parts)


def _plain(value: Json) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return _digits(value)
    return "" if isinstance(value, list) else "[object Object]"


def _digits(value: float) -> str:
    """``Number::toString`` of ECMA-262: the shortest digits, with an exponent for what is very large or small."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    minus, numerals, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, numerals))
    point = len(digits) + exponent
    sign = "-" if minus else ""
    if len(digits) <= point <= 21:
        return sign + digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"

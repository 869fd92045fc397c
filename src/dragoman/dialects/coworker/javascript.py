"""JSON and values as JavaScript has them: what the protocol was made with, and its texts show."""

from __future__ import annotations

import json
import math
import re
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
    return cut(text, SHOWN_CHARS)


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
        return number_text(value)
    return "" if isinstance(value, list) else "[object Object]"


def stringify(value: Json) -> str:
    """The value as ``JSON.stringify`` prints it: compact, keys in order, no letter escaped that need not be."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_string(key)}:{stringify(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(stringify, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        number = float(value)
    except OverflowError:  # JavaScript reads an integer of hundreds of digits as infinity, and prints that as null
        number = math.inf
    return number_text(number) if math.isfinite(number) else "null"


def number_text(number: float) -> str:
    """The number as JavaScript prints it: ``7`` for 7.0, ``1e+21``, ``1e-7``, ``NaN``, ``-Infinity``."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "0"
    sign, digits, point = "-" if number < 0 else "", *_shortest(abs(number))
    return sign + _placed(digits, point)


def _shortest(number: float) -> tuple[str, int]:
    """The fewest digits that mean this number, and how many of them stand before the point."""
    mantissa, _, exponent = f"{number!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    return digits.rstrip("0"), point


def _placed(digits: str, point: int) -> str:
    """ECMA-262, ``Number::toString``."""
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    power = point - 1
    mantissa = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{mantissa}e{'+' if power > 0 else '-'}{abs(power)}"


def length(text: str) -> int:
    """How long JavaScript says that the text is: a letter beyond the first 65,536 counts twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(text: str, most: int) -> str:
    """The text, or what begins it and how much is missing: ``...[truncated N chars]``. No letter is cut in two."""
    if len(text) <= most and (text.isascii() or length(text) <= most):
        return text
    # Among the first ``most`` letters at most half must go, each of those that count twice taking the room of two.
    kept = text[:most]
    if (over := length(kept) - most) > 0:
        kept = kept.encode("utf-16-le", "surrogatepass")[: -2 * over].decode("utf-16-le", "ignore")
    return f"{kept}...[truncated {length(text) - length(kept)} chars]"


def _string(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    return written if written.isascii() else _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", written)

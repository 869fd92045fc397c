"""JSON values made fit to be shown: not too deep, not too wide, not too long (seed: Structured Stream Notes).

The original's limits and marks. Nearly every value needs nothing: one pass finds that out, and gives back the value
itself.
"""

from __future__ import annotations

from math import isfinite

from dragoman.hub.events import Json

DEEPEST = 8
"""Levels of objects and lists."""

MOST_ITEMS = 128
"""Items of a list, and keys of an object."""

LONGEST_TEXT = 4000
"""UTF-16 units of a text, as JavaScript counts them."""

_SURELY_SHORT = LONGEST_TEXT // 2
_LEAST, _MOST = -(2**63), 2**64 - 1
"""Numbers that JSON is written with; others are written as text."""

_LEAVES = frozenset({bool, type(None)})


def sanitise(value: Json, depth: int = 0) -> Json:
    """The value, cut where it passes a limit; the same object where it does not.

    ``depth`` is how many levels the value already lies deep. It may even contain itself. Never raises.
    """
    return value if _is_fit(value, depth) else _fitted(value, depth, ())


def _is_fit(value: Json, depth: int) -> bool:
    kind = type(value)
    if kind is not dict and kind is not list:
        return _is_fit_text(value) if kind is str else kind in _LEAVES or _is_fit_number(value)
    if depth >= DEEPEST or len(value) > MOST_ITEMS:
        return False
    depth += 1
    for inner in value.values() if kind is dict else value:
        kind = type(inner)
        if kind is str:
            if len(inner) > _SURELY_SHORT and not _is_fit_text(inner):
                return False
        elif kind is int:
            if not _LEAST <= inner <= _MOST:
                return False
        elif kind not in _LEAVES and not _is_fit(inner, depth):
            return False
    return True


def _is_fit_text(text: str) -> bool:
    return len(text) <= _SURELY_SHORT or _units(text) <= LONGEST_TEXT


def _is_fit_number(value: Json) -> bool:
    kind = type(value)
    if kind is int:
        return bool(_LEAST <= value <= _MOST)
    return kind is float and isfinite(value)


def _fitted(value: Json, depth: int, above: tuple[int, ...]) -> Json:
    """``above`` has the objects that the value lies in. No deeper than ``DEEPEST`` calls."""
    if isinstance(value, str):
        return _shortened(value)
    if isinstance(value, dict | list | tuple):
        if depth >= DEEPEST:
            return "[max_depth]"
        if id(value) in above:
            return "[circular]"
        above = (*above, id(value))
        return _fitted_object(value, depth, above) if isinstance(value, dict) else _fitted_list(value, depth, above)
    if _is_fit_number(value) or type(value) in _LEAVES:
        return value
    return _number_text(value)


def _fitted_list(value: list[Json] | tuple[Json, ...], depth: int, above: tuple[int, ...]) -> list[Json]:
    kept = [_fitted(inner, depth + 1, above) for inner in value[:MOST_ITEMS]]
    if len(value) > MOST_ITEMS:
        kept.append(f"[truncated {len(value) - MOST_ITEMS} items]")
    return kept


def _fitted_object(value: dict[str, Json], depth: int, above: tuple[int, ...]) -> dict[str, Json]:
    kept = {name: _fitted(inner, depth + 1, above) for name, inner in list(value.items())[:MOST_ITEMS]}
    if len(value) > MOST_ITEMS:
        kept["__truncatedKeys"] = len(value) - MOST_ITEMS
    return kept


def _shortened(text: str) -> str:
    units = _units(text)
    if units <= LONGEST_TEXT:
        return text
    kept, used = LONGEST_TEXT, LONGEST_TEXT
    if units != len(text):
        kept, used = _characters_within(text, LONGEST_TEXT)
    return f"{text[:kept]}...[truncated {units - used} chars]"


def _units(text: str) -> int:
    """Its length as JavaScript counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _characters_within(text: str, units: int) -> tuple[int, int]:
    """How many characters fit into so many units, and how many units those are: no pair is cut in two."""
    used = 0
    for place, character in enumerate(text):
        size = 2 if character > "\uffff" else 1
        if used + size > units:
            return place, used
        used += size
    return len(text), used


def _number_text(number: float) -> str:
    """A number that JSON has no word for, in JavaScript's."""
    if isinstance(number, int) and number.bit_length() < _SURELY_SHORT:
        return str(number)
    if number != number:  # noqa: PLR0124  what is not equal to itself is no number
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"

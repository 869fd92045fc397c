"""The bytes that a signature over a JSON object may be made of (onion, spec §4).

Everybody sorts keys and leaves spaces out, but not everybody alike: Python's clients escape what is not ASCII,
JavaScript's do not, and older ones of those sort the outermost object only. Each form is JSON of the same value, so
whichever of them a signature covers, it covers that value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

from dragoman.hub.events import Json
from dragoman.hub.sizes import holds_more

MOST_VALUES = 200
"""Values that a payload may have, all levels counted. Honest ones have a dozen. Each costs time in each form, and it is
anybody's payload that is written out to see whether its signature is right."""

_Order = Callable[[Iterable[str]], list[str]]


class _Number(str):
    """A number as it is spelled."""

    __slots__ = ()


def canonical_forms(payload: bytes) -> Iterator[bytes]:
    """Every form, each once, the likeliest first: keys sorted and escaped; sorted; only the outermost sorted.

    ``payload`` is the object as it stood in its frame, in UTF-8: the order of inner keys and the spelling of numbers
    are known only there. Raises ``ValueError`` for what is no JSON object, has a key twice, or too many values.
    """
    if holds_more(payload, MOST_VALUES):
        raise ValueError(f"it has more than {MOST_VALUES} values")
    try:
        fields = json.loads(
            payload.decode(),
            parse_float=_Number,
            parse_int=_Number,
            parse_constant=_refuse,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(fields, dict):
        raise ValueError("it is no object")  # noqa: TRY004  a value that is wrong, whatever its type
    seen = set()
    for form in _forms(fields):
        if form not in seen:
            seen.add(form)
            yield form


def escaped_form(payload: Json) -> bytes:
    """The first form, of a value that is not on the wire yet. Raises ``ValueError`` for what JSON cannot say."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _forms(fields: dict[str, Json]) -> Iterator[bytes]:
    # First with numbers as Python writes them, which is what hosts sign with; then as they were sent: that is how
    # JavaScript writes them, and the two differ (1e-07, 1e-7).
    for number in (_as_python, str):
        yield _written(fields, sorted, sorted, _escaped, number)
        yield _written(fields, sorted, sorted, _plain, number)
        yield _written(fields, sorted, list, _plain, number)
        yield _written(fields, _as_javascript, list, _plain, number)


def _written(
    fields: dict[str, Json], outer: _Order, inner: _Order, text: Callable[[str], str], number: Callable[[str], str]
) -> bytes:
    def write(value: Json, order: _Order) -> str:
        if isinstance(value, _Number):
            return number(value)
        if isinstance(value, str):
            return text(value)
        if isinstance(value, dict):
            return "{" + ",".join(f"{text(key)}:{write(value[key], inner)}" for key in order(value)) + "}"
        if isinstance(value, list):
            return "[" + ",".join(write(item, inner) for item in value) + "]"
        return {None: "null", True: "true", False: "false"}[value]

    try:
        # Halves of a surrogate pair have no UTF-8: those that stand alone are escaped in every form.
        return write(fields, outer).encode("utf-8", "backslashreplace")
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _as_python(spelled: str) -> str:
    if not any(mark in spelled for mark in ".eE"):
        return "0" if spelled == "-0" else spelled
    return json.dumps(float(spelled))


def _as_javascript(keys: Iterable[str]) -> list[str]:
    """Sorted as JavaScript sorts, and then in the order that its objects have: what counts as an index goes first."""
    given = sorted(keys, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
    indices = sorted((key for key in given if _is_index(key)), key=int)
    return indices + [key for key in given if not _is_index(key)]


def _is_index(key: str) -> bool:
    return key.isascii() and key.isdigit() and len(key) <= 10 and str(int(key)) == key and int(key) < 2**32 - 1


def _escaped(text: str) -> str:
    return json.dumps(text)


def _plain(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        # Which of the two counts is then anybody's guess.
        raise ValueError("a key stands there twice")
    return fields


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")

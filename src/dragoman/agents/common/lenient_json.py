"""JSON as programs write it that are not careful with it: half characters, ``NaN``."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

from dragoman.hub.errors import NOT_JSON

T = TypeVar("T")


def decode_lenient(text: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """What it says. Half a character becomes a question mark, as does what is no UTF-8; a number that is none, null.

    Check its size and its values first. Raises what ``msgspec`` does.
    """
    try:
        return decoder.decode(text)
    except NOT_JSON as problem:
        mended = _mended(text)
        if mended is None:
            raise problem from None
    return decoder.decode(mended)


def _mended(text: bytes) -> bytes | None:
    try:
        value = json.loads(text.decode("utf-8", "replace"), parse_constant=lambda _: None)
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return None

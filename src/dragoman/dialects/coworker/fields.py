"""A message's fields, each read when its turn comes to be checked.

What a client sends beside them is never made into objects: so sixteen megabytes of brackets cost little.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import msgspec
from msgspec import Raw

from .javascript import number, trimmed
from .messages import ErrorCode

T = TypeVar("T")

ABSENT = Raw()
"""A field that was not given."""


class Wrong(Exception):
    """A message, or a field of it, is not what it should be; the text says which, as the protocol does (spec 2)."""

    def __init__(self, text: str, code: ErrorCode = "validation_failed") -> None:
        super().__init__(text)
        self.code: ErrorCode = code


_text = msgspec.json.Decoder(str)
_bool = msgspec.json.Decoder(bool)
_number: msgspec.json.Decoder[int | float] = msgspec.json.Decoder(int | float)
_texts = msgspec.json.Decoder(tuple[str, ...])


def read(raw: Raw, decoder: msgspec.json.Decoder[T]) -> T | None:
    """The value, or None for what is absent or of another type."""
    if not given(raw):
        return None
    try:
        return decoder.decode(raw)
    except msgspec.MsgspecError:
        return None


def given(raw: Raw) -> bool:
    """Whether there is such a field, be it null."""
    return memoryview(raw).nbytes > 0


def read_text(raw: Raw) -> str | None:
    """A text, or None for anything else."""
    return read(raw, _text)


def text(raw: Raw, wrong: str) -> str:
    """Any text, an empty one too. Raises ``Wrong``, as all below."""
    found = read(raw, _text)
    if found is None:
        raise Wrong(wrong)
    return found


def filled(raw: Raw, wrong: str) -> str:
    """A text that is not blank, as it was given."""
    found = read(raw, _text)
    if found is None or not trimmed(found):
        raise Wrong(wrong)
    return found


def maybe_text(raw: Raw, wrong: str) -> str | None:
    """Any text, or None where there is no such field. Null is no text."""
    return text(raw, wrong) if given(raw) else None


def flag(raw: Raw, wrong: str) -> bool:
    """A boolean."""
    found = read(raw, _bool)
    if found is None:
        raise Wrong(wrong)
    return found


def finite(raw: Raw, wrong: str) -> int | float:
    """A number that JavaScript has."""
    found = read(raw, _number)
    known = number(found) if found is not None else None
    if known is None:
        raise Wrong(wrong)
    return known


def maybe_finite(raw: Raw, wrong: str) -> int | float | None:
    """A number, or None where there is no such field."""
    return finite(raw, wrong) if given(raw) else None


def texts(raw: Raw, wrong: str) -> tuple[str, ...]:
    """A list of texts."""
    found = read(raw, _texts)
    if found is None:
        raise Wrong(wrong)
    return found


def one_of(raw: Raw, known: Collection[str], wrong: str) -> str:
    """One of those texts."""
    found = read(raw, _text)
    if found is None or found not in known:
        raise Wrong(wrong)
    return found

"""Reading what agents write: any field may be missing or of another type, and that is no error."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from dragoman.hub.events import Json

_EXACT = 2**53
"""Numbers from here on are not counts: JSON readers disagree about them."""


def text_of(record: dict[str, Any], *names: str) -> str | None:
    """The first of these fields that is a text with something in it."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return None


def dict_of(record: dict[str, Any], name: str) -> dict[str, Any]:
    """The object in this field, or an empty one."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def dicts_of(value: Json) -> Iterator[dict[str, Any]]:
    """The objects of a list, whatever else is in it; a single text counts as one text block."""
    if isinstance(value, str):
        yield {"type": "text", "text": value}
    elif isinstance(value, list):
        yield from (entry for entry in value if isinstance(entry, dict))


def count_of(record: dict[str, Any], name: str) -> int | None:
    """A number that counts something."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < _EXACT else None


def total(*counts: int | None) -> int | None:
    """The sum of those that are known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def millis_of(record: dict[str, Any], name: str = "timestamp") -> int | None:
    """A time in milliseconds since 1970, given as such or in ISO form."""
    value = record.get(name)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError, OSError):
            return None
    return count_of(record, name)


def joined_text(value: Json) -> str:
    """The texts of a list of content blocks, or the text itself."""
    return "\n".join(text for block in dicts_of(value) if (text := text_of(block, "text")) is not None)

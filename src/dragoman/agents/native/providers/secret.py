"""A provider's key, and how it stays out of everything that can be seen."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from urllib.parse import quote

from dragoman.hub.events import Json

HIDDEN = "[key]"
_SHOWN_ENDS = 3
"""Characters of a key by which a provider's own shortened form of it ("sk-pr****wxyz") is known."""

_LONG = 16
"""Characters from which a key is no word: local servers are given ``ollama`` or ``none``."""

_PIECE = 12
"""Characters of the beginning or the end of a long key that are taken for a piece of it."""


class Secret:
    """A key, or none. Its ``repr`` says nothing; ``value`` is for the one header that carries it."""

    def __init__(self, value: str | None) -> None:
        self.value = (value or "").strip()
        self._bytes = self.value.encode()
        self._form = _form(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    @property
    def sendable(self) -> bool:
        """Whether it can stand in a header: printable ASCII."""
        return self.value.isascii() and self.value.isprintable()

    def within(self, data: bytes) -> bool:
        """Whether the key stands in these bytes, and is no word that may stand there by chance."""
        return len(self._bytes) >= _LONG and self._bytes in data

    def hide(self, value: Json) -> Json:
        """The same value without the key, nor a piece, a shortened or an encoded form of it."""
        if self._form is None:
            return value
        if isinstance(value, str):
            return self._form.sub(HIDDEN, value)
        if isinstance(value, list):
            return [self.hide(entry) for entry in value]
        if isinstance(value, dict):
            return {self.hide(name): self.hide(entry) for name, entry in value.items()}
        return value


def _form(key: str) -> re.Pattern[str] | None:
    return re.compile("|".join(_forms(key))) if key else None


def _forms(key: str) -> Iterable[str]:
    yield re.escape(key)
    if len(key) > 2 * _SHOWN_ENDS:
        yield re.escape(key[:_SHOWN_ENDS]) + r"[\w-]{0,64}(?:\*{2,}|\.{3}|…)[\w-]*"  # without a limit quadratic
    if len(key) < _LONG:
        return
    yield from map(re.escape, _encoded(key))
    yield re.escape(key[:_PIECE]) + r"[\w-]*"
    yield re.escape(key[-_PIECE:])


def _encoded(key: str) -> Iterable[str]:
    """Percent-encoded, and in base64, wherever in a text the key begins: what it shares with others is left out."""
    if (quoted := quote(key, safe="")) != key:
        yield quoted
    given = key.encode()
    for before in range(3):
        whole = given[-before % 3 :]
        yield base64.b64encode(whole[: len(whole) // 3 * 3]).decode()

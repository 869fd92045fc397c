"""A provider's key, and how it stays out of everything that can be seen."""

from __future__ import annotations

import re

from dragoman.hub.events import Json

HIDDEN = "[key]"
_SHOWN_ENDS = 3
"""Characters of a key by which a provider's own shortened form of it ("sk-pr****wxyz") is known."""


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
        """Whether the key stands in these bytes."""
        return bool(self._bytes) and self._bytes in data

    def hide(self, value: Json) -> Json:
        """The same value without the key, nor a shortened form of it."""
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
    if not key:
        return None
    shortened = re.escape(key[:_SHOWN_ENDS]) + r"[\w-]*(?:\*{2,}|\.{3}|…)[\w-]*"
    return re.compile(re.escape(key) + "|" + shortened if len(key) > 2 * _SHOWN_ENDS else re.escape(key))

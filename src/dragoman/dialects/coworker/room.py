"""Values made short enough to be shown beside something else."""

from __future__ import annotations

from dragoman.hub.events import Json

from .javascript import cut, length

_DEEPEST = 4
"""Levels that are shown; for what is inside them stands ``...``."""

_KEY = 100
"""Characters of a field's name."""


class Room:
    """How many characters there still are for one value: ``most`` in all, ``each`` at most in one text.

    ``items`` of a list, and fields of an object, are shown at most.
    """

    def __init__(self, most: int, *, each: int, items: int) -> None:
        self._left = most
        self._each = each
        self._items = items

    def shown(self, value: Json, level: int = 0) -> Json:
        """The value, with what there is no room for left out, and a word for that. It is JSON still."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict | list | tuple):
            if level >= _DEEPEST and value:
                return "..."
            return self._object(value, level) if isinstance(value, dict) else self._list(value, level)
        if isinstance(value, int) and abs(value) >= 2**1024:  # thousands of digits; JavaScript knows no such number
            return None
        self._left -= 1
        return value

    def _text(self, text: str) -> str:
        kept = cut(text, max(min(self._each, self._left), 0))
        self._left -= length(kept)
        return kept

    def _object(self, value: dict[str, Json], level: int) -> Json:
        shown: dict[str, Json] = {}
        for key, inner in value.items():
            # Of the outermost object each field is shown, if only as what there was no room for.
            if len(shown) == self._items or (level and self._left <= 0):
                shown["__truncatedKeys"] = len(value) - len(shown)
                break
            self._left -= min(len(key), _KEY)
            shown[cut(key, _KEY)] = self.shown(inner, level + 1)
        return shown

    def _list(self, value: list[Json] | tuple[Json, ...], level: int) -> Json:
        shown: list[Json] = []
        for inner in value:
            if len(shown) == self._items or self._left <= 0:
                shown.append(f"[truncated {len(value) - len(shown)} items]")
                break
            shown.append(self.shown(inner, level + 1))
        return shown

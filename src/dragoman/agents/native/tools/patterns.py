"""Glob patterns: ``*``, ``?`` and ``[…]`` within a name, ``**`` for any folders, and nothing else.

Braces and backslashes mean nothing. A name that begins with a dot is matched only by a part that does. A pattern is
matched part by part on the way down, so that folders it cannot reach are not looked into.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator

from .tool import ToolFailed

LONGEST = 8192
"""Characters of a pattern: twice what a path may have."""

Places = frozenset[int]
"""How far a path has come in its pattern: each is the number of parts matched, along one way of matching them."""


class Pattern:
    """A pattern that stays below the folder it starts in. Raises ``ToolFailed`` where it would not."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise ToolFailed(f"glob: the pattern is longer than {LONGEST} characters")
        self.negated = text.startswith("!")
        plain = text.removeprefix("!").replace("\\", "/")
        if plain.startswith("/") or re.match(r"[A-Za-z]:/", plain):
            raise ToolFailed("glob blocked: pattern must be relative to cwd")
        parts = plain.split("/")
        if ".." in parts:
            raise ToolFailed("glob blocked: pattern cannot escape cwd")
        self._parts = [_Part(part) for part in _shortened(parts)]
        if parts[-1] in ("", "."):
            self._parts.append(_Part(""))  # `src/` names a folder, and no file is one
        self.start = self._closed({0})

    def step(self, places: Places, name: str) -> Places:
        """Where ``name`` leads from there; empty is nowhere."""
        ahead: set[int] = set()
        for place in places:
            if place == len(self._parts):
                continue
            part = self._parts[place]
            if part.any_folders and not name.startswith("."):
                ahead.add(place)
            elif not part.any_folders and part.matches(name):
                ahead.add(place + 1)
        return self._closed(ahead)

    def reached(self, places: Places) -> bool:
        """Whether a file there is matched."""
        return len(self._parts) in places

    def goes_on(self, places: Places) -> bool:
        """Whether anything below a folder there can be."""
        return any(place < len(self._parts) for place in places)

    def _closed(self, places: set[int]) -> Places:
        """``**`` may stand for no folder at all."""
        closed = set(places)
        for place in sorted(places):
            after = place
            while after < len(self._parts) and self._parts[after].any_folders:
                after += 1
                closed.add(after)
        return frozenset(closed)


def _shortened(parts: Iterable[str]) -> Iterator[str]:
    """Without what says nothing: ``**`` after ``**`` would only be another way of matching the same."""
    last = ""
    for part in parts:
        if part not in ("", ".") and not part == last == "**":
            yield part
            last = part


class _Part:
    def __init__(self, text: str) -> None:
        self.any_folders = text == "**"
        self._dotted = text.startswith(".")
        self._match = re.compile(fnmatch.translate(text)).match

    def matches(self, name: str) -> bool:
        return (self._dotted or not name.startswith(".")) and self._match(name) is not None

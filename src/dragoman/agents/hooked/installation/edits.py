"""Changes to a text that can be taken back exactly."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Edit(msgspec.Struct, frozen=True, array_like=True):
    """At this character, ``removed`` was there and ``inserted`` is now."""

    at: int
    removed: str
    inserted: str


class Text:
    """A text under way; ``edits`` say what was done to it, one after the other."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.edits: list[Edit] = []

    def put(self, start: int, end: int, inserted: str) -> None:
        """Have this in place of what lies between two characters."""
        self.edits.append(Edit(start, self.text[start:end], inserted))
        self.text = self.text[:start] + inserted + self.text[end:]

    def insert(self, at: int, inserted: str) -> None:
        self.put(at, at, inserted)

    def cut(self, start: int, end: int) -> None:
        self.put(start, end, "")


def undone(text: str, edits: Iterable[Edit]) -> str:
    """The text from before these edits. Raises ``ValueError`` for one that they were not made to."""
    for edit in reversed(list(edits)):
        end = edit.at + len(edit.inserted)
        if text[edit.at : end] != edit.inserted:
            raise ValueError("it is another text")
        text = text[: edit.at] + edit.removed + text[end:]
    return text

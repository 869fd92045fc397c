"""Replacing a piece of text, literally, whatever line ends the file has.

A model is shown lines without their ends, so what it wants replaced has ``\\n`` between them. In a file with ``\\r\\n``
that stands for either, and what is put in gets the ends of what it replaces. All else stays as it was, to the byte.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator


class NotOnce(ValueError):
    """The text does not occur, or more than once: ``count``."""

    def __init__(self, count: int) -> None:
        super().__init__(f"it occurs {count} times")
        self.count = count


def replaced(text: str, old: str, new: str, *, every: bool, most: int) -> str:
    """``text`` with ``new`` for the one ``old``, or for every one.

    Raises ``NotOnce``, and ``OverflowError`` before it makes anything of more than ``most`` characters. Occurrences
    that overlap are more than one: it would be a guess which is meant.
    """
    assert old
    ends = _Ends(text)
    old = ends.flat(old)
    count = _count(ends.text, old, every=every)
    if not count or (count > 1 and not every):
        raise NotOnce(count)
    if len(ends.text) + count * (len(new) - len(old)) > most:
        raise OverflowError
    return "".join(_pieces(text, ends, old, new))


def _count(text: str, old: str, *, every: bool) -> int:
    """How often ``old`` occurs; overlaps count where one place is wanted."""
    first = text.find(old)
    if first < 0:
        return 0
    overlaps = not every and text.find(old, first + 1) >= 0
    return max(text.count(old), 2 if overlaps else 1)


def _pieces(text: str, ends: _Ends, old: str, new: str) -> Iterator[str]:
    at = 0
    while (place := ends.text.find(old, at)) >= 0:
        yield text[ends.original(at) : ends.original(place)]
        yield ends.like(place, place + len(old), new)
        at = place + len(old)
    yield text[ends.original(at) :]


class _Ends:
    """A text with ``\\n`` for each ``\\r\\n``, and where those were. A text that has none is taken as it is."""

    def __init__(self, text: str) -> None:
        self._mixed = "\r\n" in text
        self.text = self.flat(text)
        self._returns: list[int] = []
        at = text.find("\r\n")
        while at >= 0:
            self._returns.append(at - len(self._returns))
            at = text.find("\r\n", at + 2)

    def flat(self, text: str) -> str:
        return text.replace("\r\n", "\n") if self._mixed else text

    def original(self, place: int) -> int:
        """Where in the original text that place of ours is."""
        return place + bisect_left(self._returns, place)

    def like(self, start: int, end: int, new: str) -> str:
        """``new`` with the line ends of what stands there, or else of most of the text."""
        if not self._mixed:
            return new
        new = self.flat(new)
        if "\n" in self.text[start:end]:
            returns = bisect_left(self._returns, end) > bisect_left(self._returns, start)
        else:
            returns = 2 * len(self._returns) > self.text.count("\n")
        return new.replace("\n", "\r\n") if returns else new

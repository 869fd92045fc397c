"""Lines of a screen: what is drawn, what is text, and text that the agent has wrapped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dragoman.hub.ports import StyledRun

_EDGES = "│┃|"
_DRAWN = re.compile(r"^[\s─━═╌┄▔▁▀▄╭╮╰╯┌┐└┘├┤│┃╹]*$")
_INVISIBLE = re.compile("[\u200b\u200c\u2060\ufeff]")


class Line(NamedTuple):
    """One line, and which one of the screen it is."""

    at: int
    text: str

    @property
    def indent(self) -> int:
        """Columns before its first sign."""
        return len(self.text) - len(self.text.lstrip())


def clean(text: str) -> str:
    """Blanks of every kind as blanks, and without what takes no room."""
    return _INVISIBLE.sub("", text.replace("\xa0", " ")).rstrip()


def numbered_lines(texts: Sequence[str]) -> list[Line]:
    """The lines of a screen."""
    return [Line(at, clean(text)) for at, text in enumerate(texts)]


def blank(text: str) -> bool:
    """Whether there is nothing to read on this line: blank, or only drawn."""
    return _DRAWN.match(text) is not None


def is_rule(text: str, sign: str, cols: int) -> bool:
    """Whether this is a line of that sign from edge to edge: no text that an agent quotes begins at the very edge."""
    return len(text) >= max(cols - 1, 8) and not text.strip(sign)


def without_blank_ends(lines: Sequence[Line]) -> list[Line]:
    """The lines from the first that says something to the last."""
    told = [at for at, line in enumerate(lines) if not blank(line.text)]
    return list(lines[told[0] : told[-1] + 1]) if told else []


def paragraph(lines: Iterable[Line]) -> str:
    """Wrapped text as one line, without the bar at its left."""
    return " ".join(word for line in lines for word in line.text.strip().lstrip(_EDGES).split())


def block(lines: Sequence[Line]) -> str:
    """Text as shown, without the room and the bar at its left."""
    texts = [line.text for line in without_blank_ends(lines)]
    if texts and all(text.lstrip().startswith("│") for text in texts):
        texts = [text.lstrip()[1:] for text in texts]
    room = min((len(text) - len(text.lstrip()) for text in texts if text.strip()), default=0)
    return "\n".join(text[room:].rstrip() for text in texts)


def was_wrapped(text: str, following: str, width: int) -> bool:
    """Whether ``following`` stands on a line of its own only because its first word did not fit after ``text``."""
    words = following.split(maxsplit=1)
    return bool(words) and len(text) + 1 + len(words[0]) > width


def unwrapped(texts: Sequence[str], width: int) -> str:
    """Lines of an input box as they were typed, as well as that can be told. ``width``: columns for text."""
    said = ""
    for at, text in enumerate(texts):
        before = texts[at - 1] if at else ""
        if not at:
            said = text
        elif not before or not was_wrapped(before, text, width):
            said += "\n" + text
        else:
            last, first = before.rsplit(maxsplit=1)[-1], text.split(maxsplit=1)[0]
            said += ("" if len(before) >= width and len(last) + len(first) > width else " ") + text
    return said


def typed_part(runs: Sequence[StyledRun]) -> str:
    """A line without what is only suggested there: agents draw their own words faint."""
    kept = []
    for at, run in enumerate(runs):
        under_cursor = run.style.inverse and at + 1 < len(runs) and runs[at + 1].style.faint
        if not run.style.faint and not under_cursor:
            kept.append(run.text)
    return clean("".join(kept))

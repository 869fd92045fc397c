"""How paths and long lines are put before the model."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator

MOST_CHARS = 30_000
"""Of what one search shows."""

MOST_OF_FILE = 200_000
"""Of one file: about fifty thousand tokens."""

MOST_IN_LINE = 2000
"""Of one line of a file; the rest is ``...``."""


def each_line(text: str) -> Iterator[str]:
    """Its lines, ends and all, one after the other: a list of all of them can take thirty times the file."""
    return iter(io.StringIO(text, newline="\n"))


def shown_path(path: str) -> str:
    """A path on one line: a name may hold line ends, and bytes that are no text."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return "".join(each if _prints(each) else each.encode("unicode_escape").decode() for each in text)


def shown_line(line: str) -> str:
    """A line without its end, cut to what may be shown of it."""
    line = line.removesuffix("\n").removesuffix("\r")
    return line if len(line) <= MOST_IN_LINE else line[:MOST_IN_LINE] + "..."


def cut(text: str, note: str, most: int = MOST_CHARS) -> str:
    """``text`` if it is short enough; else what fits of it, and the note on a line of its own."""
    return text if len(text) <= most else text[: most - len(note) - 1] + "\n" + note


def _prints(char: str) -> bool:
    return " " <= char < "\x7f" or char > "\x9f"

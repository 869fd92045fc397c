"""What is on the screen, and the fewest bytes that bring it there. Only changed rows are written."""

from __future__ import annotations

import base64
import os
import re
import unicodedata

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
ENTER = "\x1b[?1049h\x1b[?2004h\x1b[?1004h\x1b[?25h\x1b[2J"
LEAVE = "\x1b[?1004l\x1b[?2004l\x1b[?1049l\x1b[?25h"
BANNER = [
    " ▐▛███▜▌   Claude Code v2.1.332",
    "▝▜█████▛▘  Opus 5.5 · API Usage Billing",
]
STAR = "·✢✳✶✻✽"
BUSY = "⠂⠐"


class Picture:
    """The terminal as it was last drawn."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._rows: list[str] = []
        self._size = (0, 0)
        self._cursor = (-1, -1)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows now."""
        try:
            size = os.get_terminal_size(self._file)
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24

    def forget(self) -> None:
        """Nothing on the screen is known any more; the next frame draws it all."""
        self._rows, self._cursor = [], (-1, -1)

    def show(self, lines: list[str], cursor: tuple[int, int], before: str = "") -> None:
        """Bring these lines (the last of them, when there are too many) to the screen, after the bytes ``before``."""
        cols, count = self.size
        if (cols, count) != self._size:
            self._size = cols, count
            self.forget()
        out = [before] if self._rows else [before, "\x1b[2J"]
        skipped = max(len(lines) - count, 0)
        rows = [cut(line, cols) for line in lines[skipped:]]
        rows += [""] * (count - len(rows))
        known = self._rows or [""] * count
        for number, (old, new) in enumerate(zip(known, rows, strict=True), 1):
            if old != new:
                out.append(f"\x1b[{number};1H{new}\x1b[0m\x1b[K")
        place = (max(cursor[0] - skipped, 0) + 1, min(cursor[1], cols - 1) + 1)
        if len(out) > 1 or place != self._cursor:
            out.append(f"\x1b[{place[0]};{place[1]}H")
        self._rows, self._cursor = rows, place
        self.write("".join(out))

    def write(self, text: str | bytes) -> None:
        """Bytes as they are; blocks while the terminal takes none."""
        data = text.encode() if isinstance(text, str) else text
        while data:
            data = data[os.write(self._file, data) :]


def width(text: str) -> int:
    """Columns of a text without control sequences."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cut(line: str, cols: int) -> str:
    """The line, no wider than the screen."""
    if width(ESCAPE.sub("", line)) <= cols:
        return line
    room, kept, at = cols, "", 0
    while at < len(line):
        if found := ESCAPE.match(line, at):
            kept, at = kept + found.group(), found.end()
            continue
        room -= width(line[at])
        if room < 0:
            break
        kept, at = kept + line[at], at + 1
    return kept


def wrap(text: str, cols: int) -> list[str]:
    """The text in lines of at most ``cols`` columns; newlines stay."""
    lines = []
    for part in text.split("\n"):
        line = ""
        for character in part:
            if width(line) + width(character) > cols:
                lines.append(line)
                line = ""
            line += character
        lines.append(line)
    return lines


def title(text: str) -> str:
    """The window's name."""
    return f"\x1b]0;{text}\x07"


def status(state: str | None, kind: str | None = None, message: str | None = None) -> str:
    """The program's status (OSC 7501)."""
    fields = ["app=claude-code", f"state={state}"]
    if kind:
        fields.append(f"kind={kind}")
    if message:
        fields.append(f"msg={base64.b64encode(message.encode()).decode()}")
    return f"\x1b]7501;{':'.join(fields)}\x1b\\"

"""What ``rg --json`` finds, as lines for the model: bounded while it comes, and only of files within the roots.

``rg`` opens files by their paths, so a folder that becomes a link at the right moment leads it out. A line is shown
only where it stands in the file that the guard opens by that name.
"""

from __future__ import annotations

import base64
import codecs
import os
from pathlib import Path
from typing import BinaryIO

import msgspec

from dragoman.agents.native.path_guard import PathGuard, PathInvalid

from .showing import MOST_CHARS, shown_line, shown_path

_MOST_RECORD = 4 * 1024 * 1024
"""Bytes of one record. Its line is cut to two thousand characters anyway, so a longer one is left out."""


_MOST_CONVERTED = 16 * 1024 * 1024
"""Bytes of a file in another encoding that are looked through."""

_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class _Text(msgspec.Struct):
    """Text, or bytes (base64) that are none."""

    text: str | None = None
    coded: str | None = msgspec.field(default=None, name="bytes")

    @property
    def raw(self) -> bytes:
        """As it stands in the file."""
        return self.text.encode() if self.text is not None else base64.b64decode(self.coded or "")

    def __str__(self) -> str:
        return self.text if self.text is not None else os.fsdecode(base64.b64decode(self.coded or ""))


class _Data(msgspec.Struct):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None
    absolute_offset: int = 0


class _Record(msgspec.Struct):
    type: str
    data: _Data


_decoder = msgspec.json.Decoder(_Record)


class Matches:
    """Takes what ``rg`` writes, piece by piece. It asks the file system; feed it in a thread.

    ``folder`` is where ``rg`` runs; None: it reads one file, which needs no name. ``grouped``: matches come with lines
    around them, and ``--`` stands between what is not in one piece.
    """

    def __init__(self, guard: PathGuard, folder: Path | None, *, grouped: bool) -> None:
        self._guard = guard
        self._folder = folder
        self._grouped = grouped
        self._lines: list[str] = []
        self._size = 0
        self._rest = b""
        self._skipping = False
        self._prefix: str | None = None
        self._file: BinaryIO | None = None
        self._last = -1
        self._left_out = 0

    @property
    def full(self) -> bool:
        """Whether more would not be shown."""
        return self._size > MOST_CHARS

    @property
    def left_out(self) -> int:
        """Matches in lines that are too long to be read."""
        return self._left_out

    @property
    def text(self) -> str:
        """What there is, one line each; it may be somewhat more than is to be shown."""
        return "\n".join(self._lines)

    def feed(self, chunk: bytes) -> bool:
        """The next piece; whether it is full."""
        records = (self._rest + chunk).split(b"\n")
        self._rest = records.pop()
        for record in records:
            if self.full:
                break
            if not self._skipping:
                self._take(_decoder.decode(record))
            self._skipping = False
        if len(self._rest) > _MOST_RECORD:
            self._left_out += not self._skipping
            self._skipping = True
        if self._skipping:
            self._rest = b""
        return self.full

    def _take(self, record: _Record) -> None:
        match record.type, record.data:
            case "begin", _Data(path=_Text() as path):
                self._prefix = self._opened(str(path))
            case ("match" | "context") as kind, _Data(lines=_Text() as lines, line_number=int(number)) as data:
                if self._prefix is not None and (
                    self._file is None or _stands(self._file, lines, data.absolute_offset)
                ):
                    self._add(self._prefix, number, "-" if kind == "context" else ":", str(lines))

    def _opened(self, path: str) -> str | None:
        """What stands before the lines of this file; None: it is not to be shown."""
        self._last = -1
        if self._folder is None:
            return ""
        full = str(self._folder / path)
        self.close()
        try:
            self._file = self._guard.open_file("grep", full)
        except (PathInvalid, OSError):  # the guard's refusals are such too
            return None
        return shown_path(full)

    def close(self) -> None:
        """Let go of the file that was compared with last."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _add(self, prefix: str, number: int, mark: str, line: str) -> None:
        if self._grouped and self._lines and number != self._last + 1:
            self._put("--")
        text = _legible(shown_line(line))
        self._put(f"{prefix}{mark}{number}{mark}{text}" if prefix else f"{number}{mark}{text}")
        self._last = number

    def _put(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1


def _stands(file: BinaryIO, lines: _Text, offset: int) -> bool:
    """Whether this is what the file says there; of one that begins with a mark, which ``rg`` converts, anywhere."""
    raw = lines.raw
    if os.pread(file.fileno(), len(raw), offset) == raw:
        return True
    content = os.pread(file.fileno(), _MOST_CONVERTED, 0)
    coding = next((coding for mark, coding in _MARKS.items() if content.startswith(mark)), None)
    return coding is not None and str(lines) in content.decode(coding, "replace")


def _legible(line: str) -> str:
    """Bytes that are no text, which ``os.fsdecode`` kept as half characters, cannot go into JSON."""
    return line if line.isascii() else line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

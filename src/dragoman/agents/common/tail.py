"""Following a session log as the agent writes it: whole lines only, from where we were, across cuts."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from dragoman.hub.errors import LimitReached
from dragoman.hub.limits import HubLimits

from .files import open_regular
from .json_lines import JsonLines, read_line

log = logging.getLogger("dragoman.logs")

READ_AT_ONCE = 256 * 1024
"""Bytes taken in one look."""

KNOWN_BY = 256
"""Bytes before our place that must be what they were: else the file was written anew."""

SOUGHT_WITHIN = 64 * 1024 * 1024
"""Bytes of a file that was written anew in which our place is looked for."""

UNSETTLED = 1_000_000_000
"""Nanoseconds after a file's last change in which another may leave its time, and its size, as they are."""


class Place(msgspec.Struct, frozen=True):
    """How far a file has been read: bytes, all of them whole lines, and a digest of the last of them."""

    offset: int
    digest: str


class LogTail:
    """One file of JSON lines. Missing files are waited for.

    ``from_end`` leaves out what it holds already, but for a line that has no end yet; ``start`` leaves out that many
    bytes, all of them whole lines; ``held`` leaves out what it held when it had that many bytes. ``place`` goes on from
    there, and from the end where the file is no longer what it was.

    A file that was cut, or that another took the place of, is read from its beginning. With ``rejoin`` it is read from
    where it holds the last bytes that were read: one from which old lines were taken brings nothing twice.

    ``own`` reads only a file of this user's, and no link. ``limits.hook_bytes`` and ``hook_values`` bound a line: it
    tells what a hook does. A larger one is skipped, and ``say`` is told.
    """

    def __init__(
        self,
        path: Path,
        limits: HubLimits | None = None,
        *,
        from_end: bool = False,
        start: int = 0,
        held: int | None = None,
        place: Place | None = None,
        rejoin: bool = False,
        own: bool = False,
        say: Callable[[str], None] = log.warning,
    ) -> None:
        self.path = path
        self._limits = limits or HubLimits()
        self._say = say
        self._rejoin = rejoin
        self._own = own
        self._lines = JsonLines(self._limits, self._skipped)
        self._file: tuple[int, int] | None = None
        self._seen: tuple[int, int, int, int] | None = None
        self._offset = 0
        self._before = b""
        self._told = (0, b"")
        self.behind = False
        if from_end or start or held is not None or place is not None:
            self._begin_at(start, from_end=from_end, held=held, place=place)

    @property
    def offset(self) -> int:
        """Bytes read of the file so far."""
        return self._offset

    @property
    def place(self) -> Place:
        """Where to go on if what was told so far is not to be told again."""
        offset, last = self._told
        return Place(offset, _digest(last))

    def stirred(self) -> bool:
        """Whether the file may hold what the last look has not seen. Costs one ``stat``."""
        if self.behind:
            return True
        try:
            return _looks(os.stat(self.path)) != self._seen  # noqa: PTH116  a Path's own is twice as slow
        except (OSError, ValueError):
            return False

    def records(self) -> Iterator[dict[str, Any]]:
        """The records that were completed since the last call. A line without its end waits for it.

        Reads ``READ_AT_ONCE`` at most: ``behind`` says whether there is more.
        """
        data = self._read()
        self.behind = len(data) == READ_AT_ONCE
        yield from self._lines.feed(data)

    def _skipped(self, why: str) -> None:
        self._say(f"a line of {self.path.name} is left out: {why}")

    def _open(self) -> BinaryIO:
        # The path may come from a hook, and so from anything that the agent runs: never wait for what it names.
        return open_regular(self.path, own=self._own)

    def _read(self) -> bytes:
        try:
            with self._open() as file:
                fd = file.fileno()
                found = os.fstat(fd)
                if self._file not in (None, (found.st_dev, found.st_ino)) or found.st_size < self._offset:
                    self._begin(fd)  # replaced, or cut
                self._file = found.st_dev, found.st_ino
                self._seen = None if time.time_ns() - found.st_mtime_ns < UNSETTLED else _looks(found)
                data = os.pread(fd, READ_AT_ONCE + len(self._before), self._offset - len(self._before))
                if not data.startswith(self._before):
                    self._begin(fd)  # written anew in its place
                    data = os.pread(fd, READ_AT_ONCE + len(self._before), self._offset - len(self._before))
        except (OSError, ValueError):  # ValueError: no path at all, with a NUL in it
            return b""
        fresh = data[len(self._before) :]
        lines = data.rfind(b"\n", len(self._before)) + 1
        if lines:
            self._told = self._offset - len(self._before) + lines, data[max(0, lines - KNOWN_BY) : lines]
        self._offset += len(fresh)
        self._before = data[-KNOWN_BY:]
        return fresh

    def _begin(self, fd: int) -> None:
        """The file is not what it was: go on behind what was read last, if it holds that, else from its beginning."""
        joint = _end_of_last(fd, self._before) if self._rejoin and self._before else None
        if joint is not None:
            self._told = joint - self._offset + self._told[0], self._told[1]
            self._offset = joint
            return
        self._offset, self._before, self._told = 0, b"", (0, b"")
        self._lines.begin()

    def _begin_at(self, start: int, *, from_end: bool, held: int | None, place: Place | None) -> None:
        try:
            with self._open() as file:
                fd = file.fileno()
                found = os.fstat(fd)
                if place is not None:
                    from_end = not _is_at(fd, found.st_size, place)
                    start = place.offset
                if held is not None and held <= found.st_size:
                    start = self._line_end(fd, held)
                elif from_end:
                    start = self._line_end(fd, found.st_size)
                if start > found.st_size:
                    return
                self._file, self._offset = (found.st_dev, found.st_ino), start
                self._before = _bytes_before(fd, start)
                self._told = start, self._before
        except (OSError, ValueError):
            return

    def _line_end(self, fd: int, size: int) -> int:
        end = last_line_end(fd, size, self._limits.hook_bytes)
        if end is not None:
            return end
        self._lines.begin(skipping=True)  # in the midst of a line that is too long
        return size


def last_records(path: Path, end: int, limits: HubLimits, *, own: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records in the last ``READ_AT_ONCE`` bytes before this place, each with where it begins.

    None where the file cannot be read.
    """
    first = max(0, end - READ_AT_ONCE)
    try:
        with open_regular(path, own=own) as file:
            data = os.pread(file.fileno(), end - first, first)
    except (OSError, ValueError):
        return
    for number, line in enumerate(data.split(b"\n")[:-1]):
        if first == 0 or number > 0:  # else it may have begun before
            try:
                record = read_line(line, limits)
            except LimitReached:
                record = None
            if record is not None:
                yield first, record
        first += len(line) + 1


def last_line_end(fd: int, size: int, limit: int) -> int | None:
    """Where the last line that has its end ends, among the first ``size`` bytes; 0 where there is none.

    None where that is more than ``limit`` bytes back.
    """
    end = size
    while end > 0 and size - end <= limit:
        first = max(0, end - READ_AT_ONCE)
        at = os.pread(fd, end - first, first).rfind(b"\n")
        if at >= 0:
            return first + at + 1
        end = first
    return 0 if end <= 0 else None


def _is_at(fd: int, size: int, place: Place) -> bool:
    """Whether the file still is what was read up to there."""
    return place.offset <= size and place.digest == _digest(_bytes_before(fd, place.offset))


def _bytes_before(fd: int, offset: int) -> bytes:
    first = max(0, offset - KNOWN_BY)
    return os.pread(fd, offset - first, first)


def _digest(told: bytes) -> str:
    return hashlib.sha256(told).hexdigest()


def _end_of_last(fd: int, known: bytes) -> int | None:
    """Where the last of these bytes in the file ends."""
    end = None
    first = 0
    while first < SOUGHT_WITHIN and (data := os.pread(fd, READ_AT_ONCE + len(known), first)):
        at = data.rfind(known)
        if at >= 0:
            end = first + at + len(known)
        first += READ_AT_ONCE
    return end


def _looks(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

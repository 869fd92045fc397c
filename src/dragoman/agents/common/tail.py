"""Following a session log as the agent writes it: whole lines only, from where we were, across cuts."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dragoman.hub.limits import HubLimits

from .files import open_regular
from .json_lines import JsonLines

log = logging.getLogger("dragoman.logs")

READ_AT_ONCE = 256 * 1024
"""Bytes taken in one look."""

KNOWN_BY = 256
"""Bytes before our place that must be what they were: else the file was written anew."""

UNSETTLED = 1_000_000_000
"""Nanoseconds after a file's last change in which another may leave its time, and its size, as they are."""


class LogTail:
    """One file of JSON lines. Missing files are waited for.

    ``from_end`` leaves out what it holds already, but for a line that has no end yet; ``start`` leaves out that many
    bytes, all of them whole lines. ``limits.hook_bytes`` and ``hook_values`` bound a line: it tells what a hook does.
    A larger one is skipped, and ``say`` is told.
    """

    def __init__(
        self,
        path: Path,
        limits: HubLimits | None = None,
        *,
        from_end: bool = False,
        start: int = 0,
        say: Callable[[str], None] = log.warning,
    ) -> None:
        self.path = path
        self._limits = limits or HubLimits()
        self._say = say
        self._lines = JsonLines(self._limits, self._skipped)
        self._file: tuple[int, int] | None = None
        self._seen: tuple[int, int, int, int] | None = None
        self._offset = 0
        self._before = b""
        self.behind = False
        if from_end or start:
            self._begin_at(None if from_end else start)

    @property
    def offset(self) -> int:
        """Bytes read of the file so far."""
        return self._offset

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

    def _begin(self) -> None:
        self._offset, self._before = 0, b""
        self._lines.begin()

    def _read(self) -> bytes:
        try:
            # The path may come from a hook, and so from anything that the agent runs: never wait for what it names.
            with open_regular(self.path) as file:
                fd = file.fileno()
                found = os.fstat(fd)
                if self._file not in (None, (found.st_dev, found.st_ino)) or found.st_size < self._offset:
                    self._begin()  # replaced, or cut
                self._file = found.st_dev, found.st_ino
                self._seen = None if time.time_ns() - found.st_mtime_ns < UNSETTLED else _looks(found)
                data = os.pread(fd, READ_AT_ONCE + len(self._before), self._offset - len(self._before))
                if not data.startswith(self._before):
                    self._begin()  # written anew in its place
                    data = os.pread(fd, READ_AT_ONCE, 0)
        except (OSError, ValueError):  # ValueError: no path at all, with a NUL in it
            return b""
        fresh = data[len(self._before) :]
        self._offset += len(fresh)
        self._before = data[-KNOWN_BY:]
        return fresh

    def _begin_at(self, start: int | None) -> None:
        try:
            with open_regular(self.path) as file:
                fd = file.fileno()
                found = os.fstat(fd)
                if start is None:
                    start = last_line_end(fd, found.st_size, self._limits.hook_bytes)
                    if start is None:
                        start = found.st_size  # in the midst of a line that is too long
                        self._lines.begin(skipping=True)
                if start > found.st_size:
                    return
                self._file, self._offset = (found.st_dev, found.st_ino), start
                first = max(0, self._offset - KNOWN_BY)
                self._before = os.pread(fd, self._offset - first, first)
        except (OSError, ValueError):
            return


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


def _looks(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

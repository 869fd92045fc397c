"""Following a session log as the agent writes it: whole lines only, from where we were, across cuts."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from dragoman.hub.errors import NOT_JSON, LimitReached
from dragoman.hub.hook_payload import check_hook_payload
from dragoman.hub.limits import HubLimits

from .files import open_regular

log = logging.getLogger("dragoman.terminal")

READ_AT_ONCE = 256 * 1024
"""Bytes taken in one look."""

KNOWN_BY = 256
"""Bytes before our place that must be what they were: else the file was written anew."""

_decode = msgspec.json.Decoder().decode


class LogTail:
    """One file of JSON lines. ``from_end`` leaves out what it holds already. Missing files are waited for.

    ``limits.hook_bytes`` and ``hook_values`` bound a line: it tells what a hook does. A larger one is skipped, and
    ``say`` is told.
    """

    def __init__(
        self,
        path: Path,
        limits: HubLimits | None = None,
        *,
        from_end: bool = False,
        say: Callable[[str], None] = log.warning,
    ) -> None:
        self.path = path
        self._limits = limits or HubLimits()
        self._say = say
        self._file: tuple[int, int] | None = None
        self._offset = 0
        self._before = self._partial = b""
        self._skipping = False
        self.behind = False
        if from_end:
            self._to_end()

    def records(self) -> Iterator[dict[str, Any]]:
        """The records that were completed since the last call. A line without its end waits for it.

        Reads ``READ_AT_ONCE`` at most: ``behind`` says whether there is more.
        """
        data = self._read()
        self.behind = len(data) == READ_AT_ONCE
        *lines, self._partial = (self._partial + data).split(b"\n")
        if lines and self._skipping:
            del lines[0]
            self._skipping = False
        if len(self._partial) > self._limits.hook_bytes:
            if not self._skipping:
                self._skipped(f"it brings more than {self._limits.hook_bytes} bytes (hub.hook_bytes)")
            self._skipping = True
        if self._skipping:
            self._partial = b""
        for line in lines:
            try:
                record = read_line(line, self._limits)
            except LimitReached as problem:
                self._skipped(str(problem))
                continue
            if record is not None:
                yield record

    def _skipped(self, why: str) -> None:
        self._say(f"a line of {self.path.name} is left out: {why}")

    def _begin(self) -> None:
        self._offset, self._before, self._partial, self._skipping = 0, b"", b"", False

    def _read(self) -> bytes:
        try:
            # The path may come from a hook, and so from anything that the agent runs: never wait for what it names.
            with open_regular(self.path) as file:
                fd = file.fileno()
                found = os.fstat(fd)
                if self._file not in (None, (found.st_dev, found.st_ino)) or found.st_size < self._offset:
                    self._begin()  # replaced, or cut
                self._file = found.st_dev, found.st_ino
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

    def _to_end(self) -> None:
        try:
            with open_regular(self.path) as file:
                found = os.fstat(file.fileno())
                self._file, self._offset = (found.st_dev, found.st_ino), found.st_size
                first = max(0, self._offset - KNOWN_BY)
                self._before = os.pread(file.fileno(), self._offset - first, first)
        except (OSError, ValueError):
            return


def read_line(line: bytes, limits: HubLimits) -> dict[str, Any] | None:
    """The record in a line of a log, if any. Raises ``LimitReached`` without taking apart what is too large."""
    if not line.strip():
        return None
    check_hook_payload(line, limits, "it")
    try:
        record = _decode(line)
    except NOT_JSON:
        return None  # damaged, or no JSON at all: the log is the agent's own and may hold anything
    return record if isinstance(record, dict) else None

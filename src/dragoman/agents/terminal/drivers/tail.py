"""Following a session log as the agent writes it: whole lines only, from where we were, across cuts."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from dragoman.hub.errors import NOT_JSON

from .files import open_regular

log = logging.getLogger("dragoman.terminal")

READ_AT_ONCE = 256 * 1024
"""Bytes taken in one look."""

MAX_LINE = 8 * 1024 * 1024
"""A longer line is skipped: no record that we read is near it."""

_decode = msgspec.json.Decoder().decode


class LogTail:
    """One file of JSON lines. ``from_end`` leaves out what it holds already. Missing files are waited for."""

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self.path = path
        self._offset = _size(path) if from_end else 0
        self._partial = b""
        self.behind = False

    def records(self) -> Iterator[dict[str, Any]]:
        """The records that were completed since the last call. A line without its end waits for it.

        Reads ``READ_AT_ONCE`` at most: ``behind`` says whether there is more.
        """
        data = self._read()
        self.behind = len(data) == READ_AT_ONCE
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > MAX_LINE:
            log.warning("a line of %s is too long and left out", self.path.name)
            self._partial = b""
        for line in lines:
            record = _record(line)
            if record is not None:
                yield record

    def _read(self) -> bytes:
        try:
            # The path may come from a hook, and so from anything that the agent runs: never wait for what it names.
            with open_regular(self.path) as file:
                if os.fstat(file.fileno()).st_size < self._offset:  # cut: it begins anew
                    self._offset, self._partial = 0, b""
                data = os.pread(file.fileno(), READ_AT_ONCE, self._offset)
        except (OSError, ValueError):  # ValueError: no path at all, with a NUL in it
            return b""
        self._offset += len(data)
        return data


def _record(line: bytes) -> dict[str, Any] | None:
    if not line.strip():
        return None
    try:
        record = _decode(line)
    except NOT_JSON:
        return None  # damaged, or no JSON at all: the log is the agent's own and may hold anything
    return record if isinstance(record, dict) else None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return 0

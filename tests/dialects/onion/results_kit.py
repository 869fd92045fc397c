"""A results file with a clock that is set by hand, and a disk that is full."""

from __future__ import annotations

import contextlib
import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.dialects.onion.results_file import Line, ResultsFile, shown

MOST = 64 * 1024 * 1024


def line(hub: str, **more: Any) -> Line:
    usual = {"session_id": f"wire-{hub}", "status": "done", "prompt": "p", "created": 1.0, "expires": 1e12, "turn": "t"}
    return Line(hub=hub, **{**usual, **more})


class Reader:
    """A results file with a clock that is set by hand."""

    def __init__(self, folder: Path, most: int = MOST) -> None:
        self.now = 100.0
        self.file = ResultsFile(folder, most=most, now=lambda: self.now)
        self.path = self.file.path
        self.file.open()

    def result(self, hub: str) -> dict[str, Any] | None:
        entry = next((entry for entry in self.file.entries() if entry.hub == hub), None)
        found = self.file.read(entry) if entry is not None else None
        return None if found is None else dict(json.loads(shown(found)))

    @property
    def hubs(self) -> list[str]:
        return [entry.hub for entry in self.file.entries()]


@contextlib.contextmanager
def reading(folder: Path, most: int = MOST) -> Iterator[Reader]:
    reader = Reader(folder, most)
    try:
        yield reader
    finally:
        reader.file.close()


@contextlib.contextmanager
def disk_full_at(size: int) -> Iterator[None]:
    """No file of this process can grow beyond ``size`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

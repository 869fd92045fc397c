"""Looking for files below a folder that is open, and nowhere else. It blocks; run it in a thread."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from .patterns import Pattern, Places

_DEEPEST = 200
"""Folders in folders: each is held open while what is in it is looked at."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Found(NamedTuple):
    """A file: its path from the folder searched, and when it was changed (nanoseconds since 1970)."""

    path: str
    modified: int


class Patience:
    """How long a search may go on: so many seconds, or until it is stopped from another thread."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._stopped = threading.Event()

    def stop(self) -> None:
        """It is over now."""
        self._stopped.set()

    @property
    def over(self) -> bool:
        """Whether the search is to end as it stands."""
        return self._stopped.is_set() or time.monotonic() > self._end


def find(folder: int, pattern: Pattern, patience: Patience) -> Iterator[Found]:
    """Regular files that match, in no order. ``folder`` is a descriptor; it may be one that cannot be read.

    Links are not followed, nor found. What cannot be looked into, or has gone, is left out.
    """
    if not pattern.negated:
        yield from _below(folder, ".", "", pattern, pattern.start, patience)


def _below(above: int, name: str, prefix: str, pattern: Pattern, places: Places, patience: Patience) -> Iterator[Found]:
    try:
        fd = os.open(name, _FOLDER, dir_fd=above)
    except OSError:
        return
    try:
        folders: list[tuple[str, Places]] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                if patience.over:
                    return
                ahead = pattern.step(places, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    if pattern.goes_on(ahead):
                        folders.append((entry.name, ahead))
                elif pattern.reached(ahead) and (modified := _modified(entry)) is not None:
                    yield Found(prefix + entry.name, modified)
        if prefix.count("/") < _DEEPEST:
            for below, ahead in folders:
                yield from _below(fd, below, f"{prefix}{below}/", pattern, ahead, patience)
    finally:
        os.close(fd)


def _modified(entry: os.DirEntry[str]) -> int | None:
    with contextlib.suppress(OSError):  # gone
        if entry.is_file(follow_symlinks=False):
            return entry.stat(follow_symlinks=False).st_mtime_ns
    return None

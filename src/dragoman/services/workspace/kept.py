"""What was made of files, kept for as long as they stay as they were.

Agents ask before each step, and hardly ever has anything changed: to look at the marks of the files takes a fraction of
the time that reading, merging and checking them takes.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Generic, NamedTuple, TypeVar, cast

from .files import UNSETTLED, identity_of

MOST_FOLDERS = 256
"""Folders of which something is kept; the one that was not asked for longest goes."""

Marks = tuple[object, ...]
"""What changes when a file does. Equal ones say that none did."""

T = TypeVar("T")


class _Entry(NamedTuple):
    marks: Marks
    made: object


class Kept(Generic[T]):
    """See the module; one thing for each folder. Safe to use from several threads. ``now`` is in nanoseconds since
    1970."""

    def __init__(self, *, now: Callable[[], int] = time.time_ns) -> None:
        self._now = now
        self._entries: OrderedDict[Path, _Entry] = OrderedDict()
        self._lock = Lock()

    def get(self, folder: Path, marks: Marks) -> T | None:
        """What was kept with these marks."""
        with self._lock:
            entry = self._entries.get(folder)
            if entry is not None:
                self._entries.move_to_end(folder)
        return cast("T", entry.made) if entry is not None and entry.marks == marks else None

    def keep(self, folder: Path, marks: Marks, made: T, *more: Marks) -> None:
        """Keep what was made of files that had these marks before they were read.

        Not of one that changed a moment ago, by ``marks`` or ``more``: its times are not fine enough to tell the next
        change.
        """
        with self._lock:
            self._entries.pop(folder, None)
            if not any(map(self._is_unsettled, (marks, *more))):
                self._entries[folder] = _Entry(marks, made)
            while len(self._entries) > MOST_FOLDERS:
                self._entries.popitem(last=False)

    def _is_unsettled(self, marks: Marks) -> bool:
        now = self._now()
        return any(isinstance(mark, tuple) and now - max(mark[-2:]) <= UNSETTLED for mark in marks)


def marks_of(files: Iterable[Path]) -> Marks:
    """Of files and folders; one that is not there has a mark as well. Blocks."""
    return tuple(map(_mark, files))


def values_of(environment: Mapping[str, str], variables: Iterable[str]) -> Marks:
    """Of variables."""
    return tuple(environment.get(name) for name in variables)


def _mark(path: Path) -> tuple[int, ...] | int:
    """A file's identity; where there is none to look at, why."""
    try:
        return identity_of(path.stat())
    except OSError as error:
        return error.errno or 0
    except ValueError:
        return -1

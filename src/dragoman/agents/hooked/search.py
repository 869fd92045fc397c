"""Searching the user's folders for the logs of sessions that have no hooks of ours.

A log that was there before the server is of a session that is over, unless it was written to a short while ago or is
written to now. To be used in one thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from .log_source import LogSource
from .settings import HookedSettings


class Found(msgspec.Struct, frozen=True):
    """A log of a session that runs. ``held`` is how many bytes of it were there before our time; None: it is new.

    ``state``: nobody writes to it now, so that what it says of now must be read in it. ``at`` is when it was written to
    last, ``since`` when it was not there yet, in milliseconds since 1970.
    """

    source: LogSource
    path: Path
    held: int | None
    state: bool
    at: int
    since: int


class LogSearch:
    """``started`` is when our time began, in seconds since 1970."""

    def __init__(self, sources: Sequence[LogSource], settings: HookedSettings, started: float) -> None:
        self._sources = sources
        self._settings = settings
        self._runs_since = int((started - settings.watch_hours * 3600) * 1e9)
        self._seen: dict[str, tuple[int, int]] = {}
        """Logs that are known, with the time of their last change and their size when they were looked at last."""
        self._new: dict[str, int] = {}
        """When each of those was not there yet that are new and not taken."""
        self._looked_at = int(started * 1000)
        self._folders: dict[Path, int] = {}
        self._turn = 0

    def first(self) -> list[Found]:
        """Those that were written to a short while ago. All that are there are known from now on."""
        found: list[Found] = []
        for source in self._sources:
            for folder in source.folders():
                self._folders[folder] = _changed(folder)
                for path, changed, size in _logs(source, folder):
                    self._seen[path] = changed, size
                    if changed >= self._runs_since:
                        at = changed // 1_000_000
                        found.append(Found(source, Path(path), size, state=True, at=at, since=at))
        return found

    def again(self) -> list[Found]:
        """Those that are new, or were written to, since they were looked at: each until it is ``taken``."""
        began = int(time.time() * 1000)
        found: list[Found] = []
        others: list[tuple[LogSource, Path]] = []
        for source in self._sources:
            busy = source.busy_folders()
            for folder in dict.fromkeys((*busy, *source.folders())):
                changed = _changed(folder)
                if folder not in busy and self._folders.get(folder) == changed:
                    others.append((source, folder))
                    continue
                self._folders[folder] = changed
                found += self._scan(source, folder)[1]
        found += self._in_turn(others)
        self._looked_at = began
        return found

    def taken(self, found: Found) -> None:
        """It need not be told again, until it is written to."""
        try:
            about = found.path.stat()
        except OSError:
            return
        self._seen[str(found.path)] = about.st_mtime_ns, about.st_size
        self._new.pop(str(found.path), None)

    def _in_turn(self, folders: list[tuple[LogSource, Path]]) -> list[Found]:
        """A log that is written to again changes no folder: all are gone through, a few in each search."""
        found: list[Found] = []
        looked_at = 0
        for step in range(len(folders)):
            if looked_at >= self._settings.search_files:
                self._turn += step
                break
            source, folder = folders[(self._turn + step) % len(folders)]
            count, some = self._scan(source, folder)
            looked_at += count
            found += some
        return found

    def _scan(self, source: LogSource, folder: Path) -> tuple[int, list[Found]]:
        found: list[Found] = []
        count = 0
        for path, changed, size in _logs(source, folder):
            count += 1
            known = self._seen.get(path)
            if known != (changed, size):
                held = None if known is None else known[1]
                since = self._new.setdefault(path, self._looked_at) if held is None else self._looked_at
                found.append(Found(source, Path(path), held, state=False, at=changed // 1_000_000, since=since))
        if found:
            self._folders.pop(folder, None)  # looked at again, until they are taken
        return count, found


def _logs(source: LogSource, folder: Path) -> Iterator[tuple[str, int, int]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if source.is_log(entry.name) and entry.is_file(follow_symlinks=False):
                    about = entry.stat(follow_symlinks=False)
                    yield entry.path, about.st_mtime_ns, about.st_size
    except OSError:
        return


def _changed(folder: Path) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116  a Path's own is twice as slow
    except OSError:
        return 0

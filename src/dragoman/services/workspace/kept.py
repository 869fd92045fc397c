"""Configurations that were read, each kept for as long as everything that it was made of stays as it was.

Agents ask before each step, and hardly ever has anything changed: to look at the marks of the files takes a quarter of
the time that reading, merging and checking them takes.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from dragoman.hub.workspace_config import WorkspaceConfig

from .files import UNSETTLED, identity_of

MOST_FOLDERS = 256
"""Folders of which a configuration is kept; the one that was not asked for longest goes."""

Marks = tuple[object, ...]


class _Kept(NamedTuple):
    marks: Marks
    leads: Marks
    config: WorkspaceConfig


class KeptConfigs:
    """See the module. Safe to use from several threads. ``now`` is in nanoseconds since 1970."""

    def __init__(self, *, now: Callable[[], int] = time.time_ns) -> None:
        self._now = now
        self._kept: OrderedDict[Path, _Kept] = OrderedDict()
        self._lock = Lock()

    def get(self, cwd: Path, marks: Marks) -> WorkspaceConfig | None:
        """The folder's configuration, if it was kept with these marks and its folders still lead where they did."""
        with self._lock:
            kept = self._kept.get(cwd)
            if kept is not None:
                self._kept.move_to_end(cwd)
        if kept is None or kept.marks != marks or kept.leads != _leads(cwd, kept.config):
            return None
        return kept.config

    def keep(self, cwd: Path, marks: Marks, config: WorkspaceConfig) -> None:
        """Keep what was made of files that had these marks before they were read.

        Not one with problems or servers: what these lead to may change without a mark. Nor one of a file that changed a
        moment ago: its times are not fine enough to tell the next change.
        """
        with self._lock:
            self._kept.pop(cwd, None)
            if config.problems or config.mcp_servers or self._is_unsettled(marks):
                return
            self._kept[cwd] = _Kept(marks, _leads(cwd, config), config)
            while len(self._kept) > MOST_FOLDERS:
                self._kept.popitem(last=False)

    def _is_unsettled(self, marks: Marks) -> bool:
        now = self._now()
        return any(isinstance(mark, tuple) and now - max(mark[-2:]) <= UNSETTLED for mark in marks)


def marks_of(files: Iterable[Path], environment: Mapping[str, str], variables: Iterable[str]) -> Marks:
    """What changes when one of the files or variables does. Blocks."""
    return (*map(_mark, files), *(environment.get(name) for name in variables))


def _mark(path: Path) -> tuple[int, ...] | int:
    """A file's identity; where there is none to look at, why."""
    try:
        return identity_of(path.stat())
    except OSError as error:
        return error.errno or 0
    except ValueError:
        return -1


def _leads(cwd: Path, config: WorkspaceConfig) -> Marks:
    """Where its folders really are: a link in the project may have come or gone."""
    return tuple(_real(path) for path in (cwd, config.output_directory, config.uploads_directory))


def _real(path: Path) -> str | None:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError, RecursionError):
        return None

"""What is in a folder, as it is listed: what can be looked into, and nothing of what leads out of it.

All of it blocks; callers run it in a thread. No more than so many entries are looked at, and the answer says when that
was not all.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from dragoman.services.workspace.inside import Inside, OutsideError

Kind = Literal["file", "directory"]

SKIPPED = frozenset({".git", "node_modules"})
"""Folders that no tree shows: they are large, and nobody's own work."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Entry(msgspec.Struct, frozen=True):
    """One name. ``size`` in bytes, ``modified`` in milliseconds since 1970."""

    name: str
    path: str
    type: Kind
    size: int
    modified: int


class Node(msgspec.Struct, frozen=True, omit_defaults=True):
    """One name in a tree; a folder that was looked into has children."""

    name: str
    path: str
    type: Kind
    children: list[Node] | None = None


class Found(NamedTuple):
    """A name as the system has it, and what it stands for."""

    name: str
    status: os.stat_result
    link: bool

    @property
    def kind(self) -> Kind:
        return "directory" if stat.S_ISDIR(self.status.st_mode) else "file"

    @property
    def order(self) -> tuple[bool, str, str]:
        """Directories first, then by name."""
        return self.kind == "file", self.name.casefold(), self.name


class Budget:
    """So many entries may be looked at; ``spent`` once there were more."""

    def __init__(self, entries: int) -> None:
        self.left = entries
        self.spent = False

    def take(self) -> bool:
        """Whether there may be one more."""
        self.left -= 1
        self.spent = self.spent or self.left < 0
        return self.left >= 0


def listed(inside: Inside, folder: Path, budget: Budget) -> list[Entry]:
    """A folder's entries that are not hidden. Raises ``OutsideError``, ``OSError``, ``ValueError``."""
    with inside.folder(folder) as opened:
        found = _found(inside, folder, opened, budget, hidden=False)
    return [
        Entry(shown(each.name), _path(folder, each.name), each.kind, each.status.st_size, _milliseconds(each.status))
        for each in found
    ]


def tree(inside: Inside, folder: Path, depth: int, budget: Budget, *, hidden: bool) -> list[Node]:
    """What is in a folder and below it, ``depth`` deep. Links are shown and not followed. Raises as ``listed``."""
    with inside.folder(folder) as opened:
        return _tree(inside, folder, opened, depth, budget, hidden=hidden)


def shown(name: str) -> str:
    """A name of the system as text: a byte that is none is shown as such."""
    return os.fsencode(name).decode(errors="replace")


def _tree(inside: Inside, folder: Path, opened: int, depth: int, budget: Budget, *, hidden: bool) -> list[Node]:
    nodes = []
    for each in _found(inside, folder, opened, budget, hidden=hidden):
        if each.name in SKIPPED:
            continue
        children: list[Node] | None = None
        if each.kind == "directory" and not each.link and depth > 1:
            children = []
            # Gone, or not for us to read, or another one by now.
            with contextlib.suppress(OSError, OutsideError), _below(inside, opened, each.name) as below:
                children = _tree(inside, folder / each.name, below, depth - 1, budget, hidden=hidden)
        nodes.append(Node(shown(each.name), _path(folder, each.name), each.kind, children))
    return nodes


def _found(inside: Inside, folder: Path, opened: int, budget: Budget, *, hidden: bool) -> list[Found]:
    found = []
    with os.scandir(opened) as entries:
        for entry in entries:
            if not budget.take():
                break
            if (hidden or not entry.name.startswith(".")) and (each := _looked_at(inside, folder, entry)) is not None:
                found.append(each)
    return sorted(found, key=lambda each: each.order)


def _looked_at(inside: Inside, folder: Path, entry: os.DirEntry[str]) -> Found | None:
    """None for what is no file and no folder, for a link that leads out, and for what is the server's own."""
    try:
        link = entry.is_symlink()
        status = inside.status(folder / entry.name) if link else entry.stat(follow_symlinks=False)
    except (OutsideError, OSError, ValueError):
        return None
    if inside.is_private(status) or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return None
    return Found(entry.name, status, link)


@contextlib.contextmanager
def _below(inside: Inside, opened: int, name: str) -> Iterator[int]:
    below = os.open(name, _FOLDER, dir_fd=opened)
    try:
        if inside.is_private(os.fstat(below)):
            raise OutsideError
        yield below
    finally:
        os.close(below)


def _path(folder: Path, name: str) -> str:
    return shown(os.path.join(folder, name))  # noqa: PTH118


def _milliseconds(status: os.stat_result) -> int:
    return status.st_mtime_ns // 1_000_000

"""What the store's own tests share: a store on a folder, a workspace, and a look at a tree that owes nothing to it."""

from __future__ import annotations

import asyncio
import hashlib
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dragoman.services.checkpoints import CheckpointSettings, CheckpointStore

PATIENCE = 10.0
"""Seconds that a test waits for something that must happen."""

Shape = dict[str, tuple[Any, ...]]


def quick(**changes: Any) -> CheckpointSettings:
    """Settings that wait for no disk."""
    return CheckpointSettings(**{"sync": False, "walk_pause": 0.001, **changes})


def shape(root: Path) -> Shape:
    """All of a tree by path: kind, mode, time, and what is in it; hard links by the first path of the same file."""
    found: Shape = {}
    inodes: dict[int, str] = {}
    _look(root, root, found, inodes)
    return found


def _look(path: Path, root: Path, found: Shape, inodes: dict[int, str]) -> None:
    status, name = path.lstat(), str(path.relative_to(root))
    what: object = None
    if stat.S_ISREG(status.st_mode):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        what = (status.st_size, digest, inodes.setdefault(status.st_ino, name))
    elif stat.S_ISLNK(status.st_mode):
        what = path.readlink()
    found[name] = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), status.st_mtime_ns, what)
    if stat.S_ISDIR(status.st_mode):
        for below in sorted(path.iterdir()):
            _look(below, root, found, inodes)


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(it.name for it in folder.iterdir())


def stored(folder: Path) -> set[str]:
    """All objects of a store, by name."""
    return {it.parent.name + it.name for it in (folder / ".store" / "objects").glob("*/*")}


def unfinished(folder: Path) -> list[str]:
    """What a store has left lying about: there should be nothing."""
    inner = folder / ".store"
    return [it.name for place in ("new", "restores") for it in (inner / place).iterdir()]


async def until(condition: Callable[[], Any], what: str = "") -> Any:
    """Wait until the condition gives something true, and return it."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while not (value := condition()):
        assert loop.time() < deadline, f"not within {PATIENCE:g} s: {what or condition}"
        await asyncio.sleep(0.001)
    return value


class Desk:
    """A store and a workspace, with one session that has checkpoints ``cp-0000``, ``cp-0001``, …"""

    def __init__(self, tmp_path: Path, settings: CheckpointSettings | None = None) -> None:
        self.folder = tmp_path / "store"
        self.work = tmp_path / "work"
        self.work.mkdir(exist_ok=True)
        self.settings = settings if settings is not None else quick()
        self.store = CheckpointStore(self.settings, self.folder)
        self.count = 0

    def next(self) -> str:
        """The id of the next checkpoint."""
        self.count += 1
        return f"cp-{self.count - 1:04}"

    async def take(self, session: str = "s1") -> tuple[str, Any]:
        """Take the next one: its id, and what the store says."""
        name = self.next()
        first = None if self.count == 1 else "cp-0000"
        return name, await self.store.take(session, self.work, name, first=first)

    async def restore(self, checkpoint: str, session: str = "s1") -> tuple[str, Any]:
        """Restore: the safety checkpoint's id, and what the store says."""
        safety = self.next()
        saved = await self.store.restore(session, self.work, checkpoint, safety=safety, first="cp-0000")
        return safety, saved

    async def again(self, settings: CheckpointSettings | None = None) -> None:
        """A new store on the same folder, as after a restart."""
        await self.store.close()
        self.store = CheckpointStore(settings or self.settings, self.folder)

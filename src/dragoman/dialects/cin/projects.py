"""Folders in which sessions were started, by how lately and how often (spec §2.4, §3.4)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from .disk import Disk, Kept
from .settings import CinSettings


class Project(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``last_used`` is in milliseconds since 1970."""

    path: str
    name: str
    last_used: int
    use_count: int


class Stored(msgspec.Struct, frozen=True):
    """The file."""

    projects: tuple[Project, ...] = ()


class Projects:
    """What is remembered of them, in a file."""

    def __init__(self, disk: Disk, path: Path, settings: CinSettings, now: Callable[[], int]) -> None:
        self._most = settings.projects_kept
        self._now = now
        self._kept = Kept(disk, path, Stored, Stored())

    async def all(self) -> list[Project]:
        """The one that was used last comes first. Raises ``StorageUnavailable``."""
        return list((await self._kept.begin()).projects)

    async def used(self, folder: str) -> None:
        """A session was started there. Raises ``StorageUnavailable``."""

        def changed(stored: Stored) -> Stored:
            before = next((each for each in stored.projects if each.path == folder), None)
            count = 1 if before is None else before.use_count + 1
            name = os.path.basename(folder) or folder  # noqa: PTH119
            new = Project(path=folder, name=name, last_used=self._now(), use_count=count)
            others = (each for each in stored.projects if each.path != folder)
            return Stored((new, *others)[: self._most])

        await self._kept.change(changed)

    async def forget(self, folder: str) -> bool:
        """Whether it was there to be forgotten. Raises ``StorageUnavailable``."""
        there = False

        def changed(stored: Stored) -> Stored:
            nonlocal there
            rest = tuple(each for each in stored.projects if each.path != folder)
            there = len(rest) < len(stored.projects)
            return Stored(rest)

        await self._kept.change(changed)
        return there

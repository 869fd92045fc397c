"""The folders that skills lie in, and the names that they may have."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from dragoman.hub.skills import SkillSource
from dragoman.services.workspace.configs import BUILT_IN_DIRECTORY
from dragoman.services.workspace.files import contained, same_folder

BUILT_IN = Path(__file__).parent / "built_in"

_NAME_CHARS = 100

_MOST_ENTRIES = 10_000
"""What is looked at in one place; a folder with more holds something else than skills."""


class Place(NamedTuple):
    """A folder of skills. ``inside``: what its skills must lie in. Those of one that is not ``enabled`` are off."""

    folder: Path
    source: SkillSource
    enabled: bool = True
    inside: tuple[Path, ...] = ()

    def names(self, most: int) -> list[str]:
        """The skills that there may be, by name; at most so many. Links that lead out of the place are left out."""
        try:
            with os.scandir(self.folder) as entries:
                looked_at = islice(entries, _MOST_ENTRIES)
                names = [entry.name for entry in looked_at if is_name(entry.name) and _is_folder(entry)]
        except OSError:
            return []
        return [name for name in by_name(names)[:most] if contained(self.folder / name, self.inside)]

    def holds(self, name: str) -> tuple[Path, ...]:
        """What all files of this skill must lie in: what comes with a skill is not to lead out of it."""
        return (self.folder / name, *self.inside)


class Places:
    """Knows them all. ``home`` and ``environment`` are looked at anew each time."""

    def __init__(self, home: Path, environment: Mapping[str, str], more: Iterable[str], built_in: Path) -> None:
        self._home = home
        self._environment = environment
        self._more = tuple(more)
        self._built_in = built_in

    @property
    def enabled(self) -> Path:
        """Global skills."""
        return self._home / ".cowork" / "skills"

    @property
    def disabled(self) -> Path:
        """Global skills that were switched off."""
        return self._home / ".cowork" / "disabled-skills"

    def of(self, cwd: Path) -> Iterator[Place]:
        """The places for a folder, the highest first: a skill takes the place of all below that have its name."""
        person = self._home / ".agent" / "skills"
        project = cwd / ".agent" / "skills"
        if not same_folder(person, project):
            yield Place(project, "project", inside=(cwd,))
        yield Place(self.enabled, "global")
        yield Place(self.disabled, "global", enabled=False)
        yield Place(person, "user")
        for folder in self._more:
            yield Place(self._expanded(folder), "user")
        extra = Path(self._environment.get(BUILT_IN_DIRECTORY, ""))
        if extra.is_absolute():
            yield Place(extra / "skills", "built-in")
        yield Place(self._built_in, "built-in")

    def _expanded(self, folder: str) -> Path:
        return self._home / folder[2:] if folder.startswith("~/") else Path(folder).absolute()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # links that lead to each other
        return False


def is_name(name: str) -> bool:
    """Whether a skill may be called so. It leads nowhere else, and can be shown in one line."""
    plain = name.isprintable() and name == name.strip() and not set(name) & {"/", "\\"}
    return plain and 0 < len(name) <= _NAME_CHARS and not name.startswith(".")


def by_name(names: Iterable[str]) -> list[str]:
    """Sorted as people would, the same on every machine."""
    return sorted(names, key=lambda name: (name.casefold(), name))

"""The ``Skills`` port on folders: what docs/skills.md says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from dragoman.hub.errors import InvalidRequest, LimitReached
from dragoman.hub.skills import Command, Expanded, Skill, SkillContent
from dragoman.hub.workspace_config import CommandTemplate, WorkspaceConfigs
from dragoman.services.workspace.kept import Kept, Marks, marks_of

from .commands import Defined, built_in_commands, commands_by_name
from .moves import move, remove
from .places import BUILT_IN, Places, by_name
from .settings import SkillSettings
from .shelf import Shelf
from .templates import expand, largest, with_arguments


class _Used(NamedTuple):
    """The skills in use in a folder, and the marks of all files that might have been one."""

    files: tuple[Path, ...]
    marks: Marks
    skills: tuple[Skill, ...]


class SkillFolders:
    """See the module. Every call looks at the disk anew, in a thread; a file is read again only once it changed.

    ``home`` is the person's home folder, ``environment`` the server's. ``configs`` has the commands of configuration.
    ``now`` is in nanoseconds since 1970.
    """

    def __init__(
        self,
        home: Path,
        environment: Mapping[str, str],
        configs: WorkspaceConfigs,
        *,
        settings: SkillSettings | None = None,
        built_in: Path = BUILT_IN,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._used: Kept[_Used] = Kept(now=now)
        self._settings = settings or SkillSettings()
        self._configs = configs
        self._places = Places(home, environment, self._settings.folders, built_in)
        self._shelf = Shelf(self._places, self._settings)
        self._built_in = built_in_commands()
        self._moving = Lock()

    # Skills

    async def skills(self, cwd: Path) -> tuple[Skill, ...]:
        """Every skill that can be listed: the highest place first, then by name. See ``Skills``."""
        return await asyncio.to_thread(lambda: tuple(self._shelf.with_interfaces(self._shelf.listed(cwd))))

    async def in_use(self, cwd: Path) -> tuple[Skill, ...]:
        """Those of ``skills`` that are switched on, without what is for UIs: agents ask this before each step."""
        return await asyncio.to_thread(self.in_use_blocking, cwd)

    def in_use_blocking(self, cwd: Path) -> tuple[Skill, ...]:
        """As ``in_use``, for who is in a thread already."""
        places = marks_of(self._shelf.places(cwd))
        kept = self._used.get(cwd, places)
        if kept is not None and kept.marks == marks_of(kept.files):
            return kept.skills
        files = self._shelf.files(cwd)
        marks = marks_of(files)
        skills = tuple(it.skill for it in self._shelf.listed(cwd) if it.skill.enabled)
        self._used.keep(cwd, places, _Used(files, marks, skills), marks)
        return skills

    async def read(self, cwd: Path, name: str) -> SkillContent | None:
        """One of ``skills`` with its text."""
        return await asyncio.to_thread(self._read, cwd, name)

    async def load(self, cwd: Path, name: str) -> SkillContent | None:
        """One of ``in_use`` with its text; else the file ``NAME.md`` of a place, which no list has."""
        return await asyncio.to_thread(self._load, cwd, name)

    def _read(self, cwd: Path, name: str) -> SkillContent | None:
        listed = self._shelf.find(cwd, name)
        return None if listed is None else self._shelf.content(listed)

    def _load(self, cwd: Path, name: str) -> SkillContent | None:
        listed = self._shelf.find(cwd, name) or self._shelf.find_file(cwd, name)
        return self._shelf.content(listed) if listed is not None and listed.skill.enabled else None

    # Switching them

    async def disable(self, cwd: Path, name: str) -> None:
        """Switch a global skill off. Raises ``InvalidRequest``, ``StorageUnavailable``; nothing has changed then."""
        await asyncio.to_thread(self._switch, cwd, name, on=False)

    async def enable(self, cwd: Path, name: str) -> None:
        """Switch it on again. Raises as ``disable``."""
        await asyncio.to_thread(self._switch, cwd, name, on=True)

    async def delete(self, cwd: Path, name: str) -> None:
        """Remove a global skill for good, switched on or off. Raises as ``disable``; what could not be erased is no
        skill any more, and is tried again with the next removal.
        """
        await asyncio.to_thread(self._delete, cwd, name)

    def _switch(self, cwd: Path, name: str, *, on: bool) -> None:
        verb = "enable" if on else "disable"
        with self._moving:
            skill = self._global(cwd, name, f"{verb}d")
            if skill.enabled is on:
                return
            folder = self._places.enabled if on else self._places.disabled
            move(skill.name, Path(skill.path).parent, folder / skill.name, verb)

    def _delete(self, cwd: Path, name: str) -> None:
        with self._moving:
            skill = self._global(cwd, name, "deleted")
            remove(skill.name, Path(skill.path).parent)

    def _global(self, cwd: Path, name: str, participle: str) -> Skill:
        listed = self._shelf.find(cwd, name)
        if listed is None:
            raise InvalidRequest(f'Skill "{name.strip()[:100]}" not found.')
        if listed.skill.source != "global":
            raise InvalidRequest(f"Only global skills can be {participle} in v1.")
        return listed.skill

    # Commands

    async def commands(self, cwd: Path) -> tuple[Command, ...]:
        """The slash commands, sorted by name in any case."""
        found = await self._commands(cwd)
        names = by_name(defined.command.name for defined in found.values())
        return tuple(found[name.casefold()].command for name in names)

    async def expand(self, cwd: Path, name: str, arguments: str) -> Expanded | None:
        """What a command means, spelled in any case; None when there is none. Its text may come to nothing.

        Raises ``LimitReached`` for one that may come to more than ``expanded_chars``.
        """
        defined = (await self._commands(cwd)).get(name.strip().casefold())
        if defined is None:
            return None
        shown = " ".join(part for part in (f"/{defined.command.name}", arguments.strip()) if part)
        meant = await self._meaning(defined, arguments)
        return None if meant is None else Expanded(shown, meant)

    async def _meaning(self, defined: Defined, arguments: str) -> str | None:
        if defined.skill is not None:
            text = await asyncio.to_thread(self._shelf.text, defined.skill)
            return None if text is None else with_arguments(text, arguments)  # None: it went, since it was listed
        if largest(defined.template, arguments) > self._settings.expanded_chars:
            most = self._settings.expanded_chars
            raise LimitReached(f"/{defined.command.name} would come to more than {most} characters (expanded_chars)")
        return expand(defined.template, arguments)

    async def _commands(self, cwd: Path) -> dict[str, Defined]:
        configured = (await self._configs.read(cwd)).commands
        return await asyncio.to_thread(self._found, cwd, configured)

    def _found(self, cwd: Path, configured: dict[str, CommandTemplate]) -> dict[str, Defined]:
        return commands_by_name(self._built_in, configured, self._shelf.listed(cwd))

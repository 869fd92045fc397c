"""Which skills there are for a folder, and what they say. Looks at the disk each time; all of it blocks."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from dragoman.hub.skills import Skill, SkillContent, SkillInterface
from dragoman.services.workspace.files import FileCache, FileProblem, Once, file_identity, read_whole

from .document import Document, description, document, triggers
from .interface import Interfaces, icons_size, without_icons
from .places import Place, Places, is_name
from .settings import SkillSettings

log = logging.getLogger("dragoman.skills")

FILE = "SKILL.md"


class Listed(NamedTuple):
    """A skill with what the list does not say: what its files must lie in, and whether its text is ``blank``."""

    skill: Skill
    inside: tuple[Path, ...]
    blank: bool


class _Said(NamedTuple):
    """A file's part in a ``Skill``."""

    description: str
    triggers: tuple[str, ...]
    blank: bool


class Shelf:
    """See the module. Safe to use from several threads."""

    def __init__(self, places: Places, settings: SkillSettings) -> None:
        self._places = places
        self._settings = settings
        self._said: FileCache[_Said] = FileCache()
        self._interfaces = Interfaces(settings)
        self._warned = Once()

    def listed(self, cwd: Path) -> Iterator[Listed]:
        """Every skill of the folder: by place, the highest first, then by name.

        The first of a name hides all others, whether it is switched on or off: what is off is off.
        """
        names: set[str] = set()
        for place in self._places.of(cwd):
            for name in place.names(self._settings.most):
                if name not in names and (skill := self._skill(place, name)) is not None:
                    names.add(name)
                    yield skill

    def places(self, cwd: Path) -> list[Path]:
        """The folders that are looked into."""
        return [place.folder for place in self._places.of(cwd)]

    def files(self, cwd: Path) -> tuple[Path, ...]:
        """The files that are skills, or would be if they were there."""
        most = self._settings.most
        return tuple(place.folder / name / FILE for place in self._places.of(cwd) for name in place.names(most))

    def find(self, cwd: Path, name: str) -> Listed | None:
        """The skill of this name, spelled exactly so but for white space around it."""
        name = name.strip()
        if not is_name(name):
            return None
        found = (self._skill(place, name) for place in self._places.of(cwd) if name in place.names(self._settings.most))
        return next((skill for skill in found if skill is not None), None)

    def find_file(self, cwd: Path, name: str) -> Listed | None:
        """The skill that is a file ``NAME.md`` in one of the places."""
        name = name.strip()
        if not is_name(name):
            return None
        places = (place for place in self._places.of(cwd) if place.enabled)
        found = (self._skill_at(place, name, place.folder / f"{name}.md", place.inside) for place in places)
        return next((skill for skill in found if skill is not None), None)

    def with_interfaces(self, listed: Iterator[Listed]) -> Iterator[Skill]:
        """The skills with what UIs may show. Icons that would make the list too long are left out."""
        room = self._settings.icons_bytes
        for each in listed:
            interface = self._interface(each)
            if interface is not None:
                size = icons_size(interface)
                if size > room:
                    interface = without_icons(interface)
                else:
                    room -= size
            yield msgspec.structs.replace(each.skill, interface=interface)

    def content(self, listed: Listed) -> SkillContent | None:
        """The skill with its text as it is now; None when it is gone, or has become one that cannot be used."""
        given = self._document(listed)
        if given is None:
            return None
        return SkillContent(next(self.with_interfaces(iter([listed]))), given.body, given.file)

    def text(self, listed: Listed) -> str | None:
        """Its text alone, without the front matter."""
        given = self._document(listed)
        return None if given is None else given.body

    def _document(self, listed: Listed) -> Document | None:
        path = Path(listed.skill.path)
        try:
            data = read_whole(path, self._settings.skill_bytes, inside=listed.inside)
            return None if data is None else document(data)
        except FileProblem as problem:
            self._warn(path, "skill %s is skipped: %s", problem)
            return None

    def _skill(self, place: Place, name: str) -> Listed | None:
        return self._skill_at(place, name, place.folder / name / FILE, place.holds(name))

    def _skill_at(self, place: Place, name: str, path: Path, inside: tuple[Path, ...]) -> Listed | None:
        def say(data: bytes) -> _Said:
            given = document(data)
            return _Said(description(name, given), triggers(name, given), not given.body)

        try:
            said = self._said.get(path, self._settings.skill_bytes, say, inside=inside)
        except FileProblem as problem:
            self._warn(path, "skill %s is skipped: %s", problem)
            return None
        if said is None:
            return None
        skill = Skill(
            name=name,
            path=str(path),
            source=place.source,
            enabled=place.enabled,
            triggers=said.triggers,
            description=said.description,
        )
        return Listed(skill, inside, said.blank)

    def _interface(self, listed: Listed) -> SkillInterface | None:
        path = Path(listed.skill.path)
        folder = path.parent
        if path.name != FILE:
            return None
        try:
            return self._interfaces.read(folder, listed.inside)
        except FileProblem as problem:
            self._warn(folder / "agents", "skill %s has no interface: %s", problem)
            return None

    def _warn(self, path: Path, line: str, problem: FileProblem) -> None:
        """Once for each file and problem, and again when the file has changed."""
        said: Hashable = (path, str(problem), file_identity(path))
        if self._warned.first(said):
            log.warning(line, path, problem)

"""A person's home and a project with skills in them, for these tests."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

import msgspec

from dragoman.hub.skills import Command, Skill
from dragoman.services.skills import SkillFolders, SkillSettings
from dragoman.services.workspace import LayeredConfigs

SVG = b"<svg/>\n"
SVG_URI = "data:image/svg+xml;base64," + base64.b64encode(SVG).decode()


class Rig:
    """``project``, ``enabled``, ``disabled``, ``person`` and ``built_in`` are the places, the highest first."""

    def __init__(self, folder: Path, settings: SkillSettings | None = None) -> None:
        self.home = folder / "home"
        self.cwd = folder / "project"
        self.project = self.cwd / ".agent" / "skills"
        self.enabled = self.home / ".cowork" / "skills"
        self.disabled = self.home / ".cowork" / "disabled-skills"
        self.person = self.home / ".agent" / "skills"
        self.built_in = folder / "built-in"
        self.home.mkdir(parents=True)
        self.cwd.mkdir()
        self.environment: dict[str, str] = {}
        self.configs = LayeredConfigs(self.home, self.environment, ())
        self.service = SkillFolders(
            self.home, self.environment, self.configs, settings=settings, built_in=self.built_in
        )

    def put(self, place: Path, name: str, text: str = "Text\n") -> Path:
        """A skill; gives its folder."""
        folder = place / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(text, encoding="utf-8")
        return folder

    def say(self, **commands: object) -> None:
        """The person's slash commands."""
        folder = self.home / ".agent"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_bytes(msgspec.json.encode({"command": commands}))

    async def skills(self) -> dict[str, Skill]:
        return {skill.name: skill for skill in await self.service.skills(self.cwd)}

    async def names(self) -> list[str]:
        """The listed skills, those that are off in brackets."""
        return [name if skill.enabled else f"({name})" for name, skill in (await self.skills()).items()]

    async def in_use(self) -> list[str]:
        return [skill.name for skill in await self.service.in_use(self.cwd)]

    async def commands(self) -> dict[str, Command]:
        return {command.name: command for command in await self.service.commands(self.cwd)}

    async def own_commands(self) -> set[str]:
        return (await self.commands()).keys() - {"init", "review"}

    async def expanded(self, name: str, arguments: str = "") -> tuple[str, str]:
        expanded = await self.service.expand(self.cwd, name, arguments)
        assert expanded is not None
        return expanded.shown, expanded.text


def yaml(*lines: str) -> str:
    return "\n".join(["interface:", *(f"  {line}" for line in lines)])


def agent(skill: Path, text: str, name: str = "openai.yaml") -> None:
    """Write one of a skill's ``agents``."""
    (skill / "agents").mkdir(exist_ok=True)
    (skill / "agents" / name).write_text(text)


def warnings(records: Iterable[object]) -> list[str]:
    return [record.getMessage() for record in records]  # type: ignore[attr-defined]

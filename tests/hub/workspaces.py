"""What surrounds a session, in memory: skills and commands, a configuration, checkpoints of a flat folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dragoman.hub.checkpoints import CheckpointProblem, Saved
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.skills import Command, Expanded, Skill, SkillContent, SkillInterface, SkillSource
from dragoman.hub.workspace_config import Observability, QueryEndpoints, WorkspaceConfig


class KnownSkills:
    """The same for every folder; ``asked`` are the folders that were asked about. Commands replace ``$ARGUMENTS``."""

    def __init__(self) -> None:
        self.known: dict[str, SkillContent] = {}
        self.templates: dict[str, tuple[str, str | None]] = {}
        self.asked: list[Path] = []

    def add(
        self,
        name: str,
        content: str = "Do it well.",
        *,
        description: str = "",
        source: SkillSource = "global",
        enabled: bool = True,
    ) -> None:
        skill = Skill(
            name=name,
            path=f"/skills/{name}/SKILL.md",
            source=source,
            enabled=enabled,
            triggers=(name,),
            description=description or f"What {name} is for",
            interface=SkillInterface(display_name=name.title()),
        )
        head = f"---\ndescription: {skill.description}\n---\n"
        self.known[name] = SkillContent(skill, content, f"{head}{content}")

    async def skills(self, cwd: Path) -> tuple[Skill, ...]:
        self.asked.append(cwd)
        return tuple(found.skill for found in self.known.values())

    async def in_use(self, cwd: Path) -> tuple[Skill, ...]:
        return self.in_use_blocking(cwd)

    def in_use_blocking(self, cwd: Path) -> tuple[Skill, ...]:
        self.asked.append(cwd)
        return tuple(found.skill for found in self.known.values() if found.skill.enabled)

    async def read(self, cwd: Path, name: str) -> SkillContent | None:
        self.asked.append(cwd)
        return self.known.get(name)

    async def load(self, cwd: Path, name: str) -> SkillContent | None:
        found = await self.read(cwd, name)
        return found if found is not None and found.skill.enabled else None

    async def disable(self, cwd: Path, name: str) -> None:
        self._switch(name, on=False)

    async def enable(self, cwd: Path, name: str) -> None:
        self._switch(name, on=True)

    async def delete(self, cwd: Path, name: str) -> None:
        self._found(name)
        del self.known[name]

    async def commands(self, cwd: Path) -> tuple[Command, ...]:
        self.asked.append(cwd)
        return tuple(
            Command(name=name, source="command", hints=("$ARGUMENTS",), description=description)
            for name, (_, description) in sorted(self.templates.items())
        )

    async def expand(self, cwd: Path, name: str, arguments: str) -> Expanded | None:
        self.asked.append(cwd)
        template, _ = self.templates.get(name.lower(), (None, None))
        if template is None:
            return None
        given = arguments.strip()
        return Expanded(f"/{name.lower()} {given}".rstrip(), template.replace("$ARGUMENTS", given))

    def _found(self, name: str) -> SkillContent:
        found = self.known.get(name)
        if found is None:
            raise InvalidRequest(f'Skill "{name}" not found.')
        if found.skill.source != "global":
            raise InvalidRequest("Only global skills can be changed.")
        return found

    def _switch(self, name: str, *, on: bool) -> None:
        found = self._found(name)
        skill = msgspec.structs.replace(found.skill, enabled=on)
        self.known[name] = msgspec.structs.replace(found, skill=skill)


class KnownConfigs:
    """The same for every folder; ``said`` are its fields, which a test may change at any time. ``asked`` are the
    folders that were asked about."""

    def __init__(self, **said: Any) -> None:
        self.said = said
        self.asked: list[Path] = []

    async def read(self, cwd: Path) -> WorkspaceConfig:
        return self.read_blocking(cwd)

    def read_blocking(self, cwd: Path) -> WorkspaceConfig:
        self.asked.append(cwd)
        return msgspec.structs.replace(_nothing_said(cwd), **self.said)


def _nothing_said(cwd: Path) -> WorkspaceConfig:
    nowhere = "http://127.0.0.1:9"
    return WorkspaceConfig(
        provider=None,
        model=None,
        sub_agent_model=None,
        working_directory=cwd,
        output_directory=cwd / "output",
        uploads_directory=cwd / "uploads",
        user_name=None,
        knowledge_cutoff=None,
        enable_mcp=True,
        observability=Observability(
            enabled=False,
            otlp_endpoint=nowhere,
            queries=QueryEndpoints(logs=nowhere, metrics=nowhere, traces=nowhere),
            default_window=300,
        ),
        report_only=True,
        strict_mode=False,
        commands={},
        mcp_servers=(),
        memory=None,
    )


class KeptCheckpoints:
    """Holds what the files at the top of a folder say. ``problem`` is what every further call fails with."""

    def __init__(self) -> None:
        self.images: dict[tuple[str, str], dict[str, str]] = {}
        self.problem: str | None = None

    def folder(self, session: str) -> Path:
        return Path("/checkpoints") / session

    async def take(self, session: str, cwd: Path, checkpoint: str, *, first: str | None) -> Saved:
        self._check()
        image = self.images[session, checkpoint] = _image(cwd)
        size = sum(map(len, image.values()))
        return Saved(changed=first is not None and image != self.images[session, first], size=size)

    async def restore(self, session: str, cwd: Path, checkpoint: str, *, safety: str, first: str) -> Saved:
        self._check()
        saved = await self.take(session, cwd, safety, first=first)
        for path in cwd.iterdir():
            if path.is_file():
                path.unlink()
        for name, text in self.images[session, checkpoint].items():
            (cwd / name).write_text(text)
        return saved

    async def delete(self, session: str, checkpoint: str) -> None:
        self._check()
        del self.images[session, checkpoint]

    def closed(self, session: str) -> None:
        """Nothing more will be taken."""

    def dropped(self, session: str) -> None:
        self.images = {key: image for key, image in self.images.items() if key[0] != session}

    async def close(self) -> None:
        """Nothing runs."""

    def _check(self) -> None:
        if self.problem is not None:
            raise CheckpointProblem(self.problem)


def _image(cwd: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in cwd.iterdir() if path.is_file()}

"""``skill``: instructions for a kind of task, from a folder of the project or of the person."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta

from dragoman.agents.native.path_guard import PathGuard

from .files import failures, read_text
from .showing import MOST_OF_FILE, cut, shown_path
from .tool import Result, ToolContext, ToolInput, in_thread


class SkillInput(ToolInput, frozen=True):
    """Input of ``skill``."""

    skill_name: Annotated[str, Meta(description="The skill's exact name")]


class Skill:
    """See the module."""

    name: ClassVar[str] = "skill"
    description: ClassVar[str] = (
        "Load a skill by name: instructions for one kind of task. When a skill fits what you are asked to do, load it "
        "before you begin, and follow it."
    )
    input: ClassVar[type[ToolInput]] = SkillInput

    async def run(self, given: SkillInput, context: ToolContext) -> Result:
        """The skill's file as it is now, front matter and all, or ``Skill "N" not found.``"""
        return await in_thread(_load, given.skill_name, context)


def _load(name: str, context: ToolContext) -> Result:
    if _is_name(name):
        for guard, path in _places(name, context):
            with failures("skill", str(path)):
                try:
                    content = read_text(guard, "skill", str(path), context.settings.tools.read_bytes).text
                except (FileNotFoundError, NotADirectoryError):
                    continue
            content = cut(content, "... (cut here; read shows the rest)", MOST_OF_FILE)
            return Result(
                content, f"{content}\n\n(This skill is {shown_path(str(path))}; paths in it start at its folder.)"
            )
    return Result(f'Skill "{name}" not found.')


def _is_name(name: str) -> bool:
    return bool(name) and not name.startswith(".") and not set(name) & {"/", "\\", "\0"} and len(name) <= 100


def _places(name: str, context: ToolContext) -> Iterator[tuple[PathGuard, Path]]:
    """Where the skill may be, and who guards that: each folder of skills is closed in itself."""
    project = context.roots[0] / ".agent" / "skills"
    yield context.guard, project / name / "SKILL.md"
    yield context.guard, project / f"{name}.md"
    for setting in context.settings.skills:
        folder = Path(os.path.expanduser(setting))  # noqa: PTH111 - pathlib raises for a home that there is not
        guard = PathGuard(folder, [folder])
        yield guard, folder / name / "SKILL.md"
        yield guard, folder / f"{name}.md"

"""``skill``: instructions for a kind of task, as whoever knows the skills of the folder gives them."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from dragoman.hub.skills import Skills

from .showing import MOST_OF_FILE, cut, shown_path
from .tool import Result, ToolContext, ToolInput


class SkillInput(ToolInput, frozen=True):
    """Input of ``skill``."""

    skill_name: Annotated[str, Meta(description="The skill's exact name")]


class Skill:
    """See the module. Without ``skills`` there are none."""

    name: ClassVar[str] = "skill"
    description: ClassVar[str] = (
        "Load a skill by name: instructions for one kind of task. When a skill fits what you are asked to do, load it "
        "before you begin, and follow it."
    )
    input: ClassVar[type[ToolInput]] = SkillInput

    def __init__(self, skills: Skills | None = None) -> None:
        self._skills = skills

    async def run(self, given: SkillInput, context: ToolContext) -> Result:
        """The skill's file as it is now, front matter and all, or ``Skill "N" not found.``"""
        found = await self._skills.load(context.cwd, given.skill_name) if self._skills is not None else None
        if found is None:
            return Result(f'Skill "{given.skill_name}" not found.')
        content = cut(found.file or found.content, "... (cut here; read shows the rest)", MOST_OF_FILE)
        where = f"(This skill is {shown_path(found.skill.path)}; paths in it start at its folder.)"
        return Result(content, f"{content}\n\n{where}")

"""Skills and slash commands of the hub in this protocol's words (seed: ``skills_list``, ``skill_content``,
``commands``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec import UNSET, UnsetType

from dragoman.hub import skills as hub

from . import workspace_messages as around

T = TypeVar("T")


def skills_list(session: str, skills: Iterable[hub.Skill]) -> around.SkillsList:
    """All of them, in the order given."""
    return around.SkillsList(session_id=session, skills=tuple(map(skill_entry, skills)))


def skill_content(session: str, content: hub.SkillContent) -> around.SkillContent:
    """One of them, with its text as it is shown: without the front matter."""
    return around.SkillContent(session_id=session, skill=skill_entry(content.skill), content=content.content)


def commands_list(session: str, listed: Iterable[hub.Command]) -> around.Commands:
    """All of them, in the order given."""
    infos = (
        around.CommandInfo(
            name=each.name,
            description=_given(each.description),
            source=each.source,
            hints=each.hints,
        )
        for each in listed
    )
    return around.Commands(session_id=session, commands=tuple(infos))


def skill_entry(skill: hub.Skill) -> around.SkillEntry:
    """One skill."""
    return around.SkillEntry(
        name=skill.name,
        path=skill.path,
        source=skill.source,
        enabled=skill.enabled,
        triggers=skill.triggers,
        description=skill.description,
        interface=UNSET if skill.interface is None else _interface(skill.interface),
    )


def _interface(shown: hub.SkillInterface) -> around.SkillInterface:
    return around.SkillInterface(
        display_name=_given(shown.display_name),
        short_description=_given(shown.short_description),
        icon_small=_given(shown.icon_small),
        icon_large=_given(shown.icon_large),
        default_prompt=_given(shown.default_prompt),
        agents=_given(shown.agents),
    )


def _given(value: T | None) -> T | UnsetType:
    """What nobody said is left out; null is none of the seed's values."""
    return UNSET if value is None else value

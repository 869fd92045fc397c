"""Answers about what surrounds a session: checkpoints of its folder, skills, and slash commands."""

from __future__ import annotations

import msgspec

from dragoman.hub.skills import Command, Skill, SkillContent, SkillSource
from dragoman.hub.state import SavedCheckpoint


class CheckpointList(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoints, oldest first, as they are at cursor ``seq``; those that failed have a ``problem``.

    ``wanted``: they are taken by themselves, when the session begins and after each turn. ``folder`` is where they lie
    on the server's machine, null when the server keeps none.
    """

    seq: int
    wanted: bool
    folder: str | None
    checkpoints: tuple[SavedCheckpoint, ...]


class CheckpointSaved(msgspec.Struct, frozen=True):
    """The folder is saved; durable at ``seq``."""

    seq: int
    saved: SavedCheckpoint


class ShownInterface(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a UI may show a skill. Icons are ``data:`` URIs; ``agents`` are the names of the files that say so."""

    display_name: str | None = None
    short_description: str | None = None
    icon_small: str | None = None
    icon_large: str | None = None
    default_prompt: str | None = None
    agents: tuple[str, ...] | None = None


class ShownSkill(msgspec.Struct, frozen=True, kw_only=True):
    """One skill. ``source``: ``project``, ``global``, ``user`` or ``built-in``; only global ones can be changed."""

    name: str
    path: str
    source: SkillSource
    enabled: bool
    triggers: tuple[str, ...]
    description: str
    interface: ShownInterface | None


class SkillList(msgspec.Struct, frozen=True):
    """The skills, those that are switched off among them."""

    skills: tuple[ShownSkill, ...]


class SkillText(msgspec.Struct, frozen=True):
    """A skill with its text, without the front matter."""

    skill: ShownSkill
    content: str


class CommandList(msgspec.Struct, frozen=True):
    """The slash commands, sorted by name."""

    commands: tuple[Command, ...]


def show_skills(skills: tuple[Skill, ...]) -> SkillList:
    """The list on the wire."""
    return SkillList(tuple(map(_shown, skills)))


def show_text(found: SkillContent) -> SkillText:
    """A skill and its text on the wire."""
    return SkillText(_shown(found.skill), found.content)


def _shown(skill: Skill) -> ShownSkill:
    return msgspec.convert(skill, ShownSkill, from_attributes=True)

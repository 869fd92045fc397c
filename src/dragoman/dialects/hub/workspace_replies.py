"""Answers about what surrounds a session: checkpoints of its folder, skills, and slash commands."""

from __future__ import annotations

import msgspec

from dragoman.hub.skills import Command, Skill
from dragoman.hub.standing import SavedCheckpoint


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


class SkillList(msgspec.Struct, frozen=True):
    """The skills, those that are switched off among them."""

    skills: tuple[Skill, ...]


class SkillText(msgspec.Struct, frozen=True):
    """A skill with its text, without the front matter."""

    skill: Skill
    content: str


class CommandList(msgspec.Struct, frozen=True):
    """The slash commands, sorted by name."""

    commands: tuple[Command, ...]

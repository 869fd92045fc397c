"""Client messages about what surrounds a session: checkpoints of its folder, skills, and slash commands."""

from __future__ import annotations

from .bodies import CommandBody, Name, RestoreBody
from .ops import OnSession, RequestId


class ListCheckpoints(OnSession, frozen=True, kw_only=True, tag="checkpoints"):
    """The checkpoints of the session's folder."""


class TakeCheckpoint(OnSession, frozen=True, kw_only=True, tag="take_checkpoint"):
    """Save the folder now."""


class RestoreCheckpoint(RestoreBody, frozen=True, kw_only=True, tag_field="op", tag="restore_checkpoint"):
    """Make the folder what a checkpoint holds."""

    session: Name
    id: RequestId = None


class DeleteCheckpoint(OnSession, frozen=True, kw_only=True, tag="delete_checkpoint"):
    """Let a checkpoint go."""

    checkpoint: Name


class ListSkills(OnSession, frozen=True, kw_only=True, tag="skills"):
    """The skills of the session's folder."""


class OnSkill(OnSession, frozen=True, kw_only=True):
    """Base of the messages that name a skill."""

    skill: Name


class ReadSkill(OnSkill, frozen=True, kw_only=True, tag="read_skill"):
    """One of them with its text."""


class EnableSkill(OnSkill, frozen=True, kw_only=True, tag="enable_skill"):
    """Switch a global skill on."""


class DisableSkill(OnSkill, frozen=True, kw_only=True, tag="disable_skill"):
    """Switch a global skill off, for every session of the server."""


class DeleteSkill(OnSkill, frozen=True, kw_only=True, tag="delete_skill"):
    """Remove a global skill for good."""


class ListCommands(OnSession, frozen=True, kw_only=True, tag="commands"):
    """The slash commands of the session's folder."""


class RunCommand(CommandBody, frozen=True, kw_only=True, tag_field="op", tag="run_command"):
    """Submit what a slash command means."""

    session: Name
    command: Name
    id: RequestId = None

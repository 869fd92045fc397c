"""What a client may ask of what surrounds a session: checkpoints of its folder, skills, and slash commands.

No path comes from a client: everything is about the folder of a session, so whoever may not see the session learns
nothing of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from dragoman.hub.errors import ConflictingRepeat, InvalidRequest, NotPermitted, Unsupported
from dragoman.hub.events import Json, PromptSubmitted
from dragoman.hub.log import prompt_key
from dragoman.hub.permissions import Principal, Right
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.hub.skills import Expanded, Skills

from . import workspace_messages as ask
from .bodies import CommandBody
from .errors import UnknownCommand, UnknownSkill
from .replies import At, Submitted
from .workspace_replies import (
    CheckpointList,
    CheckpointSaved,
    CommandList,
    SkillList,
    SkillText,
)

COMMAND = "command"
"""Where a prompt that was a slash command keeps in its ``detail`` what was called."""


class WorkspaceCommands:
    """One function per wish, as in ``commands``. Without ``skills`` what is asked of them raises ``Unsupported``.

    ``via`` is how the dialect names itself in the log.
    """

    def __init__(self, registry: Registry, skills: Skills | None, *, via: str) -> None:
        self._registry = registry
        self._skills = skills
        self._via = via

    # Checkpoints

    async def checkpoints(self, principal: Principal, session: str) -> CheckpointList:
        found = await self._registry.get(principal, session)
        folder = found.checkpoint_folder
        return CheckpointList(
            seq=found.shown.seq,
            wanted=found.wants_checkpoints,
            folder=str(folder) if folder is not None else None,
            checkpoints=tuple(found.shown.checkpoints.values()),
        )

    async def take(self, principal: Principal, session: str) -> CheckpointSaved:
        found = await self._registry.get(principal, session)
        saved = await found.checkpoint(principal)
        return CheckpointSaved(found.shown.seq, saved)

    async def restore(self, principal: Principal, session: str, checkpoint: str | None) -> At:
        """The first one, by its id or without any, or a later one."""
        found = await self._registry.get(principal, session)
        wanted = None if checkpoint is not None and checkpoint == _first(found) else checkpoint
        return At((await found.restore_checkpoint(principal, wanted)).seq)

    async def delete_checkpoint(self, principal: Principal, session: str, checkpoint: str) -> At:
        found = await self._registry.get(principal, session)
        if checkpoint == _first(found):
            raise InvalidRequest("the first checkpoint stays as long as its session")
        return At((await found.delete_checkpoint(principal, checkpoint)).seq)

    # Skills

    async def skills(self, principal: Principal, session: str) -> SkillList:
        cwd = await self._folder(principal, session)
        return SkillList(await self._known().skills(cwd))

    async def read_skill(self, principal: Principal, session: str, skill: str) -> SkillText:
        cwd = await self._folder(principal, session)
        found = await self._known().read(cwd, skill)
        if found is None:
            raise UnknownSkill(skill)
        return SkillText(found.skill, found.content)

    async def enable_skill(self, principal: Principal, session: str, skill: str) -> SkillList:
        cwd = await self._folder_of_all(principal, session)
        await self._known().enable(cwd, skill)
        return SkillList(await self._known().skills(cwd))

    async def disable_skill(self, principal: Principal, session: str, skill: str) -> SkillList:
        cwd = await self._folder_of_all(principal, session)
        await self._known().disable(cwd, skill)
        return SkillList(await self._known().skills(cwd))

    async def delete_skill(self, principal: Principal, session: str, skill: str) -> SkillList:
        cwd = await self._folder_of_all(principal, session)
        await self._known().delete(cwd, skill)
        return SkillList(await self._known().skills(cwd))

    # Slash commands

    async def commands(self, principal: Principal, session: str) -> CommandList:
        cwd = await self._folder(principal, session)
        return CommandList(await self._known().commands(cwd))

    async def run(self, principal: Principal, session: str, command: str, body: CommandBody) -> Submitted:
        """Submit what the command means. Sent again it is what it was, even if the command means something else now."""
        found = await self._registry.get(principal, session)
        principal.check(session, Right.WRITE)
        called: dict[str, Json] = {"name": command, "arguments": body.arguments}
        meant = await self._earlier(found, principal, body, called) or await self._expanded(found, command, body)
        try:
            return await self._submit(found, principal, body, called, meant)
        except ConflictingRepeat:
            earlier = await self._earlier(found, principal, body, called)  # recorded while this one was looked up
            if earlier is None:
                raise
            return await self._submit(found, principal, body, called, earlier)

    async def _submit(
        self, found: Session, principal: Principal, body: CommandBody, called: dict[str, Json], meant: Expanded
    ) -> Submitted:
        receipt = await found.submit(
            principal,
            meant.shown,
            via=self._via,
            client_message_id=body.client_message_id,
            when_busy=body.when_busy,
            content=meant.text,
            detail={COMMAND: called},
        )
        return Submitted(receipt.prompt, receipt.seq, receipt.disposition, receipt.turn, receipt.duplicate)

    async def _earlier(
        self, found: Session, principal: Principal, body: CommandBody, called: dict[str, Json]
    ) -> Expanded | None:
        """What this very call was submitted as, if it was before."""
        if body.client_message_id is None:
            return None
        fact = await found.fact_of(prompt_key(self._via, principal.id, body.client_message_id))
        if not isinstance(fact, PromptSubmitted) or fact.detail.get(COMMAND) != called:
            return None
        return Expanded(fact.text, fact.content or "")

    async def _expanded(self, found: Session, command: str, body: CommandBody) -> Expanded:
        expanded = await self._known().expand(Path(found.shown.cwd), command, body.arguments)
        if expanded is None:
            raise UnknownCommand(command)
        if not expanded.text.strip():
            raise InvalidRequest(f'Command "{command}" expanded to empty prompt')
        return expanded

    # Inside

    def _known(self) -> Skills:
        if self._skills is None:
            raise Unsupported("this server knows no skills and no slash commands")
        return self._skills

    async def _folder(self, principal: Principal, session: str) -> Path:
        return Path((await self._registry.get(principal, session)).shown.cwd)

    async def _folder_of_all(self, principal: Principal, session: str) -> Path:
        """The folder, for whoever may change what every session of the server has. Raises ``NotPermitted``."""
        cwd = await self._folder(principal, session)
        principal.check(session, Right.WRITE)
        if principal.only is not None:
            raise NotPermitted(Right.WRITE)
        return cwd


def _first(session: Session) -> str | None:
    """The id of the session's first checkpoint."""
    first = session.shown.first_checkpoint
    return first.checkpoint if first is not None else None


Wish = Callable[[WorkspaceCommands, Principal, Any], Awaitable[msgspec.Struct]]

WISHES: dict[type, Wish] = {
    ask.ListCheckpoints: lambda workspace, who, asked: workspace.checkpoints(who, asked.session),
    ask.TakeCheckpoint: lambda workspace, who, asked: workspace.take(who, asked.session),
    ask.RestoreCheckpoint: lambda workspace, who, asked: workspace.restore(who, asked.session, asked.checkpoint),
    ask.DeleteCheckpoint: lambda workspace, who, asked: workspace.delete_checkpoint(
        who, asked.session, asked.checkpoint
    ),
    ask.ListSkills: lambda workspace, who, asked: workspace.skills(who, asked.session),
    ask.ReadSkill: lambda workspace, who, asked: workspace.read_skill(who, asked.session, asked.skill),
    ask.EnableSkill: lambda workspace, who, asked: workspace.enable_skill(who, asked.session, asked.skill),
    ask.DisableSkill: lambda workspace, who, asked: workspace.disable_skill(who, asked.session, asked.skill),
    ask.DeleteSkill: lambda workspace, who, asked: workspace.delete_skill(who, asked.session, asked.skill),
    ask.ListCommands: lambda workspace, who, asked: workspace.commands(who, asked.session),
    ask.RunCommand: lambda workspace, who, asked: workspace.run(who, asked.session, asked.command, asked),
}
"""The messages that ask for them. All of it waits: for the disk, or for a turn."""

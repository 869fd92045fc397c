"""The routes about what surrounds a session: checkpoints of its folder, skills, and slash commands."""

from __future__ import annotations

import msgspec

from . import bodies
from .replies import At, Submitted
from .route import Call, Route, on
from .workspace_replies import CheckpointList, CheckpointSaved, CommandList, SkillList, SkillText


async def _checkpoints(call: Call) -> msgspec.Struct:
    return await call.commands.workspace.checkpoints(call.principal, call.session)


async def _take_checkpoint(call: Call) -> msgspec.Struct:
    return await call.commands.workspace.take(call.principal, call.session)


async def _restore_checkpoint(call: Call) -> msgspec.Struct:
    return await call.commands.workspace.restore(call.principal, call.session, call.body.checkpoint)


async def _delete_checkpoint(call: Call) -> msgspec.Struct:
    return await call.commands.workspace.delete_checkpoint(call.principal, call.session, call.path["checkpoint"])


async def _skills(call: Call) -> msgspec.Struct:
    return await call.commands.workspace.skills(call.principal, call.session)


async def _read_skill(call: Call) -> msgspec.Struct:
    return await call.commands.workspace.read_skill(call.principal, call.session, call.path["skill"])


async def _enable_skill(call: Call) -> msgspec.Struct:
    return await call.commands.workspace.enable_skill(call.principal, call.session, call.path["skill"])


async def _disable_skill(call: Call) -> msgspec.Struct:
    return await call.commands.workspace.disable_skill(call.principal, call.session, call.path["skill"])


async def _delete_skill(call: Call) -> msgspec.Struct:
    return await call.commands.workspace.delete_skill(call.principal, call.session, call.path["skill"])


async def _commands(call: Call) -> msgspec.Struct:
    return await call.commands.workspace.commands(call.principal, call.session)


async def _run_command(call: Call) -> msgspec.Struct:
    body = call.keyed(call.body)
    return await call.commands.workspace.run(call.principal, call.session, call.path["command"], body)


_CHECKPOINTS = "/sessions/{session}/checkpoints"
_SKILL = "/sessions/{session}/skills/{skill}"
_COMMAND = "/sessions/{session}/commands/{command}"

WORKSPACE_ROUTES: tuple[Route, ...] = (
    on("GET", _CHECKPOINTS, "The checkpoints of its folder", _checkpoints, CheckpointList),
    on("POST", _CHECKPOINTS, "Save its folder now", _take_checkpoint, CheckpointSaved, status=201),
    on("DELETE", f"{_CHECKPOINTS}/{{checkpoint}}", "Let a checkpoint go", _delete_checkpoint, At),
    on(
        "POST",
        "/sessions/{session}/restore",
        "Make its folder what a checkpoint holds",
        _restore_checkpoint,
        At,
        body=bodies.RestoreBody,
    ),
    on("GET", "/sessions/{session}/skills", "The skills of its folder", _skills, SkillList),
    on("GET", _SKILL, "One of them with its text", _read_skill, SkillText),
    on("POST", f"{_SKILL}/enable", "Switch a global skill on", _enable_skill, SkillList),
    on("POST", f"{_SKILL}/disable", "Switch a global skill off", _disable_skill, SkillList),
    on("DELETE", _SKILL, "Remove a global skill for good", _delete_skill, SkillList),
    on("GET", "/sessions/{session}/commands", "The slash commands of its folder", _commands, CommandList),
    on("POST", _COMMAND, "Submit what a command means", _run_command, Submitted, body=bodies.CommandBody),
)
"""Every one of them, below the dialect's root."""

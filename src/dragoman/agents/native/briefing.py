"""What an agent is told of its place: the folder, the person, what is to be known there, and the skills in use.

Read anew for each step, from whoever knows: so an edited file, or a skill that was switched off, counts from the next
step on. What nobody knows is left out.
"""

from __future__ import annotations

import asyncio
from datetime import date, datetime
from pathlib import Path

import msgspec

from dragoman.hub.log import SessionLog
from dragoman.hub.skills import Skill

from .calls import Place
from .path_guard import PathGuard
from .surroundings import Surroundings, SurroundingsReader

MEMORY = Path(".agent") / "AGENT.md"
"""What the project wants every agent to know, below the project's folder."""

MEMORY_LIMIT = 32_000
"""Bytes of it that go into the prompt, where no configuration service reads it."""


class Briefing(msgspec.Struct, frozen=True, kw_only=True):
    """See the module. ``memory`` says itself whose it is; ``skills`` are those that an agent here may load."""

    cwd: Path
    today: date
    user_name: str | None = None
    knowledge_cutoff: str | None = None
    memory: str | None = None
    skills: tuple[Skill, ...] = ()


class Briefings:
    """Makes them for one turn. ``first`` is what the turn's beginning has read: the first step need not read it again.

    Where nobody reads configuration, the project's memory is all that is to be known.
    """

    def __init__(self, session: SessionLog, place: Place, reader: SurroundingsReader, first: Surroundings) -> None:
        self._session = session
        self._place = place
        self._reader = reader
        self._first: Surroundings | None = first

    async def read(self) -> Briefing:
        """What holds now."""
        cwd = self._place.cwd
        around, self._first = self._first, None
        if around is None or not self._reader.holds(around, cwd):
            around = await self._reader.read(cwd)
        return await briefing_of(around, self._place.guard, self._place.roots[0], self._session.clock.now())


async def briefing_of(around: Surroundings, guard: PathGuard, root: Path, now: int) -> Briefing:
    """The briefing of a folder that says this. ``root`` is the project's folder, ``now`` in milliseconds since 1970."""
    config = around.config
    return Briefing(
        cwd=around.cwd,
        today=datetime.fromtimestamp(now / 1000).astimezone().date(),
        user_name=config.user_name if config is not None else None,
        knowledge_cutoff=config.knowledge_cutoff if config is not None else None,
        memory=config.memory if config is not None else await _memory(guard, root),
        skills=around.skills,
    )


async def _memory(guard: PathGuard, root: Path) -> str | None:
    memory = await asyncio.to_thread(project_memory, guard, root)
    return f"What this project wants you to know ({MEMORY}):\n\n{memory}" if memory is not None else None


def project_memory(guard: PathGuard, root: Path) -> str | None:
    """The project's memory file, cut to its limit; None where there is none, or it leads out of the project. Blocks."""
    try:
        with guard.open_file("memory", str(root / MEMORY)) as file:
            data = file.read(MEMORY_LIMIT + 1)
    except OSError:  # the guard's refusals are such too
        return None
    text = data[:MEMORY_LIMIT].decode(errors="replace").strip()
    return (text + "\n[cut here]" if len(data) > MEMORY_LIMIT else text) or None

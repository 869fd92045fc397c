"""What a session's folder says to its agent: its configuration, and the skills in use there.

Read anew for each step. The first reading of a turn begins before the turn does: it has no effect, and the turn's
beginning waits for a disk that takes as long.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from dragoman.hub.clock import Clock
from dragoman.hub.log import SessionLog
from dragoman.hub.skills import Skill, Skills
from dragoman.hub.workspace_config import WorkspaceConfig, WorkspaceConfigs

FRESH_SECONDS = 1.0
"""How old what was read may be and still be what holds now: a turn may wait long before its first step."""


class Surroundings(msgspec.Struct, frozen=True):
    """See the module. ``config`` is None where nobody reads it, ``at`` when reading began, by the monotonic clock."""

    cwd: Path
    config: WorkspaceConfig | None
    skills: tuple[Skill, ...]
    at: float


async def read_surroundings(
    cwd: Path, skills: Skills | None, configs: WorkspaceConfigs | None, clock: Clock
) -> Surroundings:
    """What holds now in this folder."""

    def both() -> tuple[WorkspaceConfig | None, tuple[Skill, ...]]:
        """In one go: each way to a thread and back takes as long as all that is done there."""
        config = configs.read_blocking(cwd) if configs is not None else None
        return config, skills.in_use_blocking(cwd) if skills is not None else ()

    at = clock.monotonic()
    config, in_use = await asyncio.to_thread(both)
    return Surroundings(cwd, config, in_use, at)


class SurroundingsReader:
    """Reads them for one session."""

    def __init__(self, session: SessionLog, skills: Skills | None, configs: WorkspaceConfigs | None) -> None:
        self._session = session
        self._skills = skills
        self._configs = configs
        self._ahead: asyncio.Task[Surroundings] | None = None

    def read_ahead(self) -> None:
        """Begin to read what ``first`` will be asked for."""
        self._ahead = self._session.tasks.start(self.read(self._cwd), "read-ahead")

    async def first(self) -> Surroundings:
        """What holds as a turn begins: as it was read ahead, where that is fresh."""
        ahead, self._ahead = self._ahead, None
        found = await asyncio.shield(ahead) if ahead is not None else None
        return found if found is not None and self.holds(found, self._cwd) else await self.read(self._cwd)

    def holds(self, read: Surroundings, cwd: Path) -> bool:
        """Whether this is fresh, and of this folder."""
        return read.cwd == cwd and self._session.clock.monotonic() - read.at < FRESH_SECONDS

    async def read(self, cwd: Path) -> Surroundings:
        """What holds now."""
        return await read_surroundings(cwd, self._skills, self._configs, self._session.clock)

    async def config(self, cwd: Path) -> WorkspaceConfig | None:
        """The configuration alone."""
        return await self._configs.read(cwd) if self._configs is not None else None

    @property
    def _cwd(self) -> Path:
        return Path(self._session.state.cwd)

"""What surrounds the agents of a server: the person's and the project's configuration, skills, checkpoints."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from dragoman.hub.checkpoints import CheckpointProblem
from dragoman.services.artifacts import ArtifactStore
from dragoman.services.checkpoints import CheckpointStore
from dragoman.services.skills import SkillFolders
from dragoman.services.workspace import LayeredConfigs

from .settings import Settings

log = logging.getLogger("dragoman.server")


class Surroundings:
    """One for a server. ``data`` is its data folder, ``providers`` are the ids that a configuration may name."""

    def __init__(self, settings: Settings, data: Path, providers: Collection[str]) -> None:
        self.home = _home()
        self.configs = LayeredConfigs(self.home, os.environ, providers, settings=settings.workspace)
        self.skills = SkillFolders(self.home, os.environ, self.configs, settings=settings.skills)
        self.kept = Path(os.path.expanduser(settings.checkpoints.folder))  # noqa: PTH111 - as for the home
        # What people send is not the agent's work: no checkpoint has it.
        sent = str(PurePosixPath(settings.uploads.folder))
        self.checkpoints = CheckpointStore(settings.checkpoints, self.kept, apart=(data,), everywhere=(sent,))
        self.artifacts = ArtifactStore(settings.artifacts, data / "artifacts")
        self._recovery: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Put right what a lost server left halfway in a workspace. Whoever needs checkpoints waits for that."""
        self._recovery = asyncio.create_task(self._recover(), name="server: checkpoints")

    async def _recover(self) -> None:
        try:
            await self.checkpoints.recover()
        except CheckpointProblem as problem:
            log.warning("no checkpoints can be kept: %s", problem)

    async def close(self, limit: float) -> None:
        """End what runs, within ``limit`` seconds."""
        if self._recovery is not None:
            self._recovery.cancel()
        await self.checkpoints.close(limit)
        await self.artifacts.close()


def _home() -> Path:
    """Not Path.home(), which raises where a user has none: such a one has no configuration."""
    return Path(os.path.expanduser("~"))  # noqa: PTH111

"""What surrounds windie's conversations: installs, users' artifacts and settings, runs."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from dragoman.dialects.base import TokenCheck, is_loopback
from dragoman.hub.clock import Clock
from dragoman.hub.tasks import TaskOwner
from dragoman.services.artifacts import OwnedArtifacts
from dragoman.services.installs import Access, Installs
from dragoman.services.runs import Runs
from dragoman.services.user_settings import UserSettings

from .settings import Settings

log = logging.getLogger("dragoman.server")


class WindieServices:
    """One for a server; made by ``start``. All of it lies in ``windie`` in the data folder."""

    def __init__(self, settings: Settings, data: Path, *, clock: Clock, token: TokenCheck | None) -> None:
        folder = data / "windie"
        self.installs = Installs(settings.installs, folder / "installs", clock=clock)
        self.access = Access(settings.installs, self.installs, loopback=is_loopback(settings.server.host), token=token)
        self.artifacts = OwnedArtifacts(settings.owned_artifacts, folder / "artifacts", clock)
        self.users = UserSettings(folder / "users", clock=clock)
        self.runs = Runs(folder / "runs", settings.runs, clock=clock)
        self._tasks = TaskOwner("windie services")

    @classmethod
    async def start(cls, settings: Settings, data: Path, *, clock: Clock, token: TokenCheck | None) -> WindieServices:
        """Raises ``AccessProblem``, and ``RunsUnavailable`` for runs that cannot be read. All else is opened when it is
        asked for. Without a key nobody can ask for runs, and their file is not touched."""
        services = cls(settings, data, clock=clock, token=token)
        services._tasks.start(services.artifacts.keep_sweeping(), "sweep artifacts")
        if settings.dialects.windie.runs_key is not None:
            await services.runs.open()
        return services

    async def end_polls(self) -> None:
        """Answer those that wait for a run's events: their connections are about to be closed."""
        await self.runs.close()

    async def close(self, budget: float) -> None:
        """Let go of all of it, within about ``budget`` seconds."""
        await self._tasks.close(budget / 2)
        closing = (self.installs.close(budget / 2), self.artifacts.close(), self.users.close(), self.runs.close())
        _, late = await asyncio.wait([asyncio.ensure_future(each) for each in closing], timeout=budget / 2)
        for each in late:
            log.warning("%s did not end in time", each)

"""All by which agents elsewhere are heard of: the socket of their hooks, their session logs, and the intake of both."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from dragoman.hub.registry import Registry

from .factory import HookedFactory
from .installation.problems import CannotInstall
from .installation.program import refresh_program
from .intake import Intake
from .user_hooks import UserHooks
from .watchers import Watchers

log = logging.getLogger("dragoman.hooked")


class Hearing:
    """Open it once the registry is open, close it before sessions are ended: they must not be taken for gone.

    ``data`` is the data folder, ``programs`` the one of what installed hooks run. ``listens`` is false for a server
    that only takes what is posted to it by HTTP: the socket and the logs belong to another.
    """

    def __init__(
        self, registry: Registry, factory: HookedFactory, data: Path, programs: Path, *, listens: bool = True
    ) -> None:
        settings = factory.settings
        self._programs = programs
        self.intake = Intake(registry, factory)
        self._hooks = UserHooks(self.intake, settings.socket_path(data), registry.limits, settings) if listens else None
        self._logs = Watchers(self.intake, settings, registry.limits, kept=data / "logs.json") if listens else None
        if self._logs is not None:
            self.intake.transcript_named = self._logs.named
            self.intake.hurry_logs = self._logs.hurry

    async def open(self) -> None:
        """Begin to hear."""
        await self.intake.open()
        if self._logs is not None:
            await self._logs.open()
        if self._hooks is not None:
            await self._hooks.open()
            await asyncio.to_thread(self._refresh)

    def _refresh(self) -> None:
        try:
            if refresh_program(self._programs):
                log.info("what installed hooks run is of this version now (%s)", self._programs)
        except CannotInstall as problem:
            log.warning("what installed hooks run stays that of another version: %s", problem)

    async def close(self) -> None:
        """Hear nothing more; agents elsewhere go on."""
        if self._hooks is not None:
            await self._hooks.close()
        if self._logs is not None:
            await self._logs.close()
        await self.intake.close()

"""The logs of users' settings. No secret belongs in them (design, invariant 2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from dragoman.hub.clock import Clock
from dragoman.hub.events import Json

from .file import SettingsFile, SettingsUnavailable

T = TypeVar("T")

Change = Callable[[Mapping[str, Json]], Awaitable[None]]
"""Adds a change to a user's log; it is on disk when this returns. Raises ``SettingsUnavailable``, ``LimitReached``."""


class UserSettings:
    """See the module. ``folder`` is made for its owner only. Methods belong to one event loop.

    What is asked about one user is done in the order in which it was asked.
    """

    def __init__(self, folder: Path, *, clock: Clock) -> None:
        self._clock = clock
        self._file = SettingsFile(folder)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="user-settings")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._closed = False

    async def read(self, user: str) -> dict[str, Json]:
        """What the user's changes fold to; null takes a setting away. Raises ``SettingsUnavailable``."""
        async with self._turn(user):
            return await self._in_thread(lambda: self._file.read(user))

    async def change(self, user: str, changes: Mapping[str, Json]) -> None:
        """Add a change to the user's log; it is on disk when this returns. Raises ``SettingsUnavailable``,
        ``LimitReached`` (of too many users, or too much of one)."""
        async with self.changing(user) as change:
            await change(changes)

    @asynccontextmanager
    async def changing(self, user: str) -> AsyncIterator[Change]:
        """For a change that takes more than to write it down: whoever asks for this user's settings meanwhile waits,
        and is told what they are then. Ask for no settings of this user inside."""
        async with self._turn(user):

            async def change(changes: Mapping[str, Json]) -> None:
                now = self._clock.now()
                await self._in_thread(lambda: self._file.add(user, now, changes))

            yield change

    async def close(self) -> None:
        """Let go of the file."""
        if self._closed:
            return
        self._closed = True
        await asyncio.wrap_future(self._thread.submit(self._file.close))
        self._thread.shutdown(wait=False)

    def _turn(self, user: str) -> asyncio.Lock:
        return self._turns.setdefault(user, asyncio.Lock())

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise SettingsUnavailable("the server stops")
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))

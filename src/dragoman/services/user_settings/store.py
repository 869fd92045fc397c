"""The logs of users' settings, in one file. No secret belongs in them (design, invariant 2)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from dragoman.hub.clock import Clock
from dragoman.hub.events import Json

T = TypeVar("T")

FILE = "user-settings.db"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS changes (
    user TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, changes BLOB NOT NULL, PRIMARY KEY (user, seq)
) WITHOUT ROWID
"""


class SettingsUnavailable(Exception):
    """They cannot be read or written now; nothing was changed."""


class UserSettings:
    """See the module. ``folder`` is made for its owner only. Methods belong to one event loop."""

    def __init__(self, folder: Path, *, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="user-settings")
        self._file: sqlite3.Connection | None = None
        self._closed = False

    async def read(self, user: str) -> dict[str, Json]:
        """What the user's changes fold to; null takes a setting away. Raises ``SettingsUnavailable``."""
        return await self._in_thread(lambda: self._fold(user))

    async def change(self, user: str, changes: Mapping[str, Json]) -> None:
        """Add a change to the user's log; it is on disk when this returns. Raises ``SettingsUnavailable``."""
        data, now = msgspec.json.encode(dict(changes)), self._clock.now()
        await self._in_thread(lambda: self._add(user, now, data))

    async def close(self) -> None:
        """Let go of the file."""
        if self._closed:
            return
        self._closed = True
        await asyncio.wrap_future(self._thread.submit(self._close))
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise SettingsUnavailable("the server stops")
        try:
            return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))
        except (OSError, sqlite3.Error, msgspec.MsgspecError) as problem:
            raise SettingsUnavailable(f"the settings of users cannot be used: {problem}") from problem

    # In the thread

    def _opened(self) -> sqlite3.Connection:
        if self._file is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._folder / FILE
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            file.execute("PRAGMA journal_mode=WAL")
            file.execute("PRAGMA synchronous=FULL")
            file.execute(_SCHEMA)
            self._file = file
        return self._file

    def _fold(self, user: str) -> dict[str, Json]:
        folded: dict[str, Json] = {}
        for (data,) in self._opened().execute("SELECT changes FROM changes WHERE user = ? ORDER BY seq", (user,)):
            folded.update(msgspec.json.decode(data))
        return {name: value for name, value in folded.items() if value is not None}

    def _add(self, user: str, now: int, data: bytes) -> None:
        self._opened().execute(
            "INSERT INTO changes SELECT ?1, COALESCE(MAX(seq), 0) + 1, ?2, ?3 FROM changes WHERE user = ?1",
            (user, now, data),
        )

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

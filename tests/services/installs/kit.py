"""What tests of installs need: a store with a clock that stands, and a look at what lies on the disk."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from dragoman.services.installs import Installs, InstallSettings
from tests.hub.rig import FakeClock

SERVER_TOKEN = "the-servers-own-token"

PATIENCE = 10.0
"""Seconds until what should become true is given up."""


@asynccontextmanager
async def installs(folder: Path, *, clock: FakeClock | None = None, **settings: Any) -> AsyncIterator[Installs]:
    """A store in this folder: a second one after the first was closed is a restart."""
    store = Installs(InstallSettings(**{"registrations_per_minute": 0, **settings}), folder, clock=clock or FakeClock())
    try:
        yield store
    finally:
        await store.close()


def shows_server_token(given: str | None) -> bool:
    """The server's check of its own token."""
    return given == SERVER_TOKEN


def rows(folder: Path) -> list[dict[str, Any]]:
    """What the file holds, without our own code."""
    with closing(sqlite3.connect(folder / "installs.db")) as connection:
        connection.row_factory = sqlite3.Row
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        return [dict(row) for row in connection.execute("SELECT * FROM installs ORDER BY registered_at")]


def holds(folder: Path, text: str) -> bool:
    """Whether any file below the folder has this in it."""
    return any(text.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def until(holds_now: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE):
        while not holds_now():
            await asyncio.sleep(0.005)

"""What tests of users' settings need: a store with a clock that stands, and a look at what lies on the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from dragoman.services.user_settings import UserSettings
from tests.hub.rig import FakeClock


@asynccontextmanager
async def user_settings(folder: Path) -> AsyncIterator[UserSettings]:
    """A store in this folder: a second one after the first was closed is a restart."""
    store = UserSettings(folder, clock=FakeClock())
    try:
        yield store
    finally:
        await store.close()


def numbers(folder: Path, user: str) -> list[int]:
    """The numbers of a user's changes that the file has, without our own code."""
    with closing(sqlite3.connect(folder / "user-settings.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        return [row[0] for row in connection.execute("SELECT seq FROM changes WHERE user = ? ORDER BY seq", (user,))]

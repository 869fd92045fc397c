"""Our hub in a process without sockets, as ``serve`` puts it together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dragoman.agents.scripted import ScriptedFactory
from dragoman.hub.events import PartDelta
from dragoman.hub.folder import DataFolder
from dragoman.hub.permissions import LOCAL
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.hub.sqlite import SqliteJournal

TEXT = "x" * 110
"""Makes an event of about 200 bytes on disk."""


def delta() -> PartDelta:
    """The fact that is recorded most: a piece of a model's text."""
    return PartDelta(turn="00000000-0000-4000-8000-000000000000", part="part-1", kind="text", text=TEXT)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Registry]:
    """The hub on this data folder."""
    with DataFolder(folder) as data:
        registry = Registry(SqliteJournal(data.journal, epoch=data.epoch), [ScriptedFactory()])
        await registry.open()
        try:
            yield registry
        finally:
            await registry.close()


async def new_session(registry: Registry, folder: Path) -> Session:
    """A session that nothing runs in."""
    return await registry.create(LOCAL, kind="scripted", cwd=str(folder.absolute()))

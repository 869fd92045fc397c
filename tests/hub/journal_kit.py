"""What the journal tests share: events and rows, a hub that listens, and one rig per implementation."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from dragoman.hub.events import Event, LogWritten
from dragoman.hub.journal import Journal, SessionRow
from dragoman.hub.memory import MemoryJournal
from dragoman.hub.sqlite import SqliteJournal

PATIENCE = 10.0
"""Seconds that a test waits for something that must happen."""


def row(session: str, head: int, **changes: Any) -> SessionRow:
    fields: dict[str, Any] = {
        "session": session,
        "kind": "scripted",
        "agent": "unknown",
        "cwd": "/somewhere",
        "title": f"title at {head}",
        "owner": "local",
        "status": "idle",
        "created_at": 1,
        "changed_at": head,
        "head": head,
    }
    return SessionRow(**(fields | changes))


def event(seq: int, text: str = "", epoch: str = "epoch-1") -> Event:
    return Event(seq, 1000 + seq, epoch, LogWritten(line=text or f"line {seq}"))


def append(journal: Journal, session: str, first: int, last: int | None = None, *, text: str = "") -> None:
    """Events ``first`` to ``last`` of a session."""
    for seq in range(first, (first if last is None else last) + 1):
        journal.append(event(seq, text), row(session, seq))


def lines(events: list[Event]) -> list[str]:
    found = []
    for one in events:
        assert isinstance(one.fact, LogWritten)
        found.append(one.fact.line)
    return found


def seqs(events: list[Event]) -> list[int]:
    return [one.seq for one in events]


async def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait for something that nothing tells of."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


class Listener:
    """The hub's end of a journal: what it was told."""

    def __init__(self) -> None:
        self.durable: dict[str, int] = {}
        self.commits: list[dict[str, int]] = []
        self._told = asyncio.Event()

    def __call__(self, heads: Mapping[str, int]) -> None:
        for session, seq in heads.items():
            assert seq > self.durable.get(session, 0), "told twice, or backwards"
        self.durable.update(heads)
        self.commits.append(dict(heads))
        self._told.set()

    async def until(self, session: str, seq: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.durable.get(session, 0) < seq:
                self._told.clear()
                await self._told.wait()


class Flaky(sqlite3.Connection):
    """A connection whose COMMIT fails while ``failing``: before it took effect, or (``late``) after."""

    failing = False
    late = False
    attempts = 0

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if sql == "COMMIT" and self.failing:
            type(self).attempts += 1
            if self.late:
                super().execute(sql, parameters)
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, parameters)


def flaky() -> type[Flaky]:
    """A class of its own for each test, so that its switches are too."""
    return type("FlakyConnection", (Flaky,), {})


class Rig(Protocol):
    """Makes journals of one kind, and makes them fail."""

    def make(self, **limits: Any) -> Journal:
        """A journal on the rig's store: a second one after the first was closed is a restart."""

    def fail(self) -> None: ...
    def heal(self) -> None: ...


class MemoryRig:
    def __init__(self) -> None:
        self._journal: MemoryJournal | None = None

    def make(self, **limits: Any) -> Journal:
        store = None if self._journal is None else self._journal.store
        self._journal = MemoryJournal(store, **limits)
        return self._journal

    def fail(self) -> None:
        assert self._journal is not None
        self._journal.fail("the disk is full")

    def heal(self) -> None:
        assert self._journal is not None
        self._journal.heal()


class SqliteRig:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.db"
        self._connection = flaky()

    def make(self, **limits: Any) -> Journal:
        return SqliteJournal(self.path, connection=self._connection, **limits)

    def fail(self) -> None:
        self._connection.failing = True

    def heal(self) -> None:
        self._connection.failing = False

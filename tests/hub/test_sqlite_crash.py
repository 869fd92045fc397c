"""Killing the writer for real, and disks that fail: what was acknowledged is there, once, whatever happens."""

from __future__ import annotations

import asyncio
import json
import random
import resource
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dragoman.hub.errors import StorageUnavailable
from dragoman.hub.sqlite import SqliteJournal

from .journal_kit import Listener, append, event, flaky, row, seqs, until
from .journal_writer import text_of

KILLS = 15


async def run_and_kill(path: Path, seed: int, wanted: int) -> list[list[str]]:
    """Let the writer run until it has said ``wanted`` lines more than ``open``, kill it, and return all it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.hub.journal_writer", str(path), str(seed), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    said = [await process.stdout.readline() for _ in range(wanted + 1)]
    process.send_signal(signal.SIGKILL)
    said += (await process.stdout.read()).splitlines()
    assert await process.wait() == -signal.SIGKILL
    return [line.decode().split() for line in said if line.endswith(b"\n") or line]


class Acknowledged:
    """All that the killed writers were told."""

    def __init__(self) -> None:
        self.heads: dict[str, int] = {}
        self.dropped: set[str] = set()

    def hear(self, said: list[list[str]]) -> None:
        for word, *rest in said:
            if word == "durable" and len(rest) == 2:
                self.heads[rest[0]] = int(rest[1])
            elif word == "dropped" and rest:
                self.dropped.add(rest[0])

    def check(self, path: Path) -> None:
        """Look into the file without our own code."""
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            logs: dict[str, list[int]] = {}
            for session, seq, fact in connection.execute("SELECT session, seq, fact FROM log ORDER BY position"):
                logs.setdefault(session, []).append(seq)
                assert json.loads(fact)["line"] == text_of(session, seq)
            tombstones = {name for (name,) in connection.execute("SELECT session FROM sessions WHERE dropped_at > 0")}
            rows = dict(connection.execute("SELECT session, head FROM sessions WHERE dropped_at IS NULL"))
        for session, found in logs.items():
            assert found == list(range(1, len(found) + 1)), f"{session} is not contiguous"
        assert rows == {session: len(found) for session, found in logs.items()}
        assert self.dropped <= tombstones
        for session, head in self.heads.items():
            assert session in tombstones or rows[session] >= head, f"{session} lost what was acknowledged"


async def test_killing_the_writer_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path, chance, acknowledged = tmp_path / "journal.db", random.Random(4), Acknowledged()
    for seed in range(KILLS):
        acknowledged.hear(await run_and_kill(path, seed, wanted=chance.randint(0, 60)))
        acknowledged.check(path)
    assert len(acknowledged.heads) > 10
    assert acknowledged.dropped
    journal = SqliteJournal(path)
    rows = await journal.open(Listener())
    for known in rows:
        events = await journal.read(known.session, 0, 100_000)
        assert len(events) == (0 if known.dropped_at else known.head)
        if not known.dropped_at:
            assert await journal.find_key(known.session, f"key {known.head}") == known.head
    await journal.close()


# -- a disk that fails -----------------------------------------------------------------------


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """The kernel refuses to let any file of this process grow beyond ``size``: a write error, for real."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_disk_that_takes_no_more_loses_and_doubles_nothing(tmp_path: Path) -> None:
    path, listener = tmp_path / "journal.db", Listener()
    journal = SqliteJournal(path, flush_limit=0.1, batch_events=100)
    await journal.open(listener)
    append(journal, "a", 1, 50)
    await journal.flush()
    wal = tmp_path / "journal.db-wal"
    with files_no_longer_than(wal.stat().st_size + 200_000):
        append(journal, "a", 51, 1500, text="y" * 500)
        await until(lambda: journal.problem)
        assert "cannot be written" in str(journal.problem)
        with pytest.raises(StorageUnavailable, match="cannot be written"):
            await journal.flush()
        stuck = listener.durable["a"]
        assert 50 < stuck < 1500, "some of it found room"
        assert seqs(await journal.read("a", 0, 5000)) == list(range(1, stuck + 1))
    await listener.until("a", 1500)
    assert journal.problem is None
    assert seqs(await journal.read("a", 0, 5000)) == list(range(1, 1501))
    await journal.close()
    again = SqliteJournal(path)
    assert [known.head for known in await again.open(Listener())] == [1500]
    assert seqs(await again.read("a", 0, 5000)) == list(range(1, 1501))
    await again.close()


async def test_a_full_database_is_a_full_disk(tmp_path: Path) -> None:
    """``max_page_count`` makes SQLite answer exactly as when the disk is full."""

    class Small(sqlite3.Connection):
        """Lets the file have as many pages as the test says."""

        pages = 30

        def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
            if sql.startswith("BEGIN"):
                super().execute(f"PRAGMA max_page_count = {self.pages}")
            return super().execute(sql, parameters)  # type: ignore[arg-type]

    listener = Listener()
    journal = SqliteJournal(tmp_path / "journal.db", connection=Small, batch_events=20)
    await journal.open(listener)
    append(journal, "a", 1, 200, text="z" * 1000)
    await until(lambda: journal.problem)
    assert "the disk is full" in str(journal.problem)
    Small.pages = 10_000
    await listener.until("a", 200)
    assert journal.problem is None
    assert seqs(await journal.read("a", 0, 1000)) == list(range(1, 201))
    await journal.close()


async def test_a_commit_that_fails_and_succeeds_at_once_is_not_doubled(tmp_path: Path) -> None:
    connection = flaky()
    connection.late = True
    journal, listener = SqliteJournal(tmp_path / "journal.db", connection=connection), Listener()
    await journal.open(listener)
    append(journal, "a", 1, 10)
    await journal.flush()
    connection.failing = True
    append(journal, "a", 11, 20)
    journal.append(event(21), row("a", 21), key="m")
    # It is on disk although COMMIT reported an error: the retry finds it there and does not write it again.
    await listener.until("a", 21)
    assert journal.problem is None
    assert connection.attempts == 1
    connection.failing = False
    append(journal, "a", 22)
    await journal.flush()
    assert seqs(await journal.read("a", 0, 100)) == list(range(1, 23))
    assert await journal.find_key("a", "m") == 21
    await journal.close()


async def test_drops_and_aliases_survive_a_commit_of_unknown_outcome(tmp_path: Path) -> None:
    connection = flaky()
    connection.late = True
    path = tmp_path / "journal.db"
    journal, listener = SqliteJournal(path, connection=connection), Listener()
    await journal.open(listener)
    append(journal, "a", 1, 10)
    append(journal, "b", 1)
    await journal.flush()
    connection.failing = True
    dropping = asyncio.ensure_future(journal.drop(row("a", 10, dropped_at=5)))
    forgetting = asyncio.ensure_future(journal.forget("a"))
    binding = asyncio.ensure_future(journal.bind_alias("coop", "p", "n", "b"))
    await until(lambda: connection.attempts)
    append(journal, "c", 1, 3)
    connection.failing = False
    await asyncio.gather(dropping, forgetting, binding)
    await listener.until("c", 3)
    await journal.close()
    again = SqliteJournal(path)
    assert await again.open(Listener()) == [row("b", 1), row("c", 3)]
    assert seqs(await again.read("c", 0, 10)) == [1, 2, 3]
    assert await again.alias("coop", "p", "n") == "b"
    await again.close()


async def test_what_trouble_overtakes_happens_when_it_is_over(tmp_path: Path) -> None:
    connection = flaky()
    journal, listener = SqliteJournal(tmp_path / "journal.db", connection=connection, flush_limit=0.05), Listener()
    await journal.open(listener)
    append(journal, "a", 1)
    await journal.flush()
    connection.failing = True
    assert journal.problem is None, "nobody knows yet"
    with pytest.raises(StorageUnavailable):
        await journal.bind_alias("coop", "p", "n", "a")
    connection.failing = False
    append(journal, "a", 2)
    await listener.until("a", 2)
    assert await journal.alias("coop", "p", "n") == "a"
    await journal.close()


async def test_closing_on_a_failing_disk_is_bounded_and_says_what_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connection = flaky()
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path, connection=connection, close_limit=0.1)
    await journal.open(Listener())
    append(journal, "a", 1, 3)
    await journal.flush()
    connection.failing = True
    append(journal, "a", 4, 10)
    async with asyncio.timeout(5):
        await journal.close()
    assert "closed with 7 changes unwritten" in caplog.text
    again = SqliteJournal(path)
    assert [known.head for known in await again.open(Listener())] == [3]
    await again.close()

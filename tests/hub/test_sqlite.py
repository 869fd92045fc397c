"""The file itself: how it grows and shrinks, who reads it beside the writer, and how it is brought up to date."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from time import perf_counter

import pytest

from dragoman.hub.errors import DataFolderError
from dragoman.hub.journal import SessionRow
from dragoman.hub.sqlite import SqliteJournal, schema, writer
from dragoman.hub.sqlite.schema import SCHEMA, Schema

from .journal_kit import Listener, append, event, lines, row, seqs, until


async def opened(path: Path, **options: object) -> SqliteJournal:
    journal = SqliteJournal(path, **options)  # type: ignore[arg-type]
    await journal.open(Listener())
    return journal


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def free_pages(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


# -- what lies on the disk -------------------------------------------------------------------


async def test_the_file_is_for_its_owner_only_and_alone_after_close(path: Path) -> None:
    journal = await opened(path)
    append(journal, "a", 1)
    await journal.flush()
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    await journal.close()
    assert [file.name for file in path.parent.iterdir()] == ["journal.db"]


async def test_the_log_can_be_read_without_us(path: Path) -> None:
    journal = await opened(path)
    append(journal, "a", 1, 2, text="héllo")
    await journal.close()
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(
            "SELECT session, seq, at, epoch, json_extract(fact, '$.type'), json_extract(fact, '$.line') FROM log"
        ).fetchall()
    assert found == [("a", seq, 1000 + seq, "epoch-1", "log.written", "héllo") for seq in (1, 2)]


async def test_an_event_is_on_disk_before_the_hub_is_told(path: Path) -> None:
    seen: list[int] = []

    def told(heads: object) -> None:
        seen.append(count(path, "events"))

    journal = SqliteJournal(path)
    await journal.open(told)
    append(journal, "a", 1, 7)
    await journal.flush()
    assert seen == [7]
    await journal.close()


async def test_a_session_row_is_written_once_per_commit(path: Path) -> None:
    statements: list[str] = []

    class Listening(sqlite3.Connection):
        def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
            statements.append(sql)
            return super().execute(sql, parameters)  # type: ignore[arg-type]

    journal = await opened(path, connection=Listening)
    append(journal, "a", 1, 100)
    await journal.flush()
    writes = [sql for sql in statements if sql.startswith("INSERT INTO sessions")]
    assert [sql.count("(?,") for sql in writes] == [1]
    await journal.close()


async def test_a_long_queue_is_written_in_bounded_batches(path: Path) -> None:
    journal, listener = SqliteJournal(path, batch_events=100), Listener()
    await journal.open(listener)
    append(journal, "a", 1, 1000)
    await journal.flush()
    heads = [commit["a"] for commit in listener.commits]
    assert len(heads) >= 10
    assert all(after - before <= 100 for before, after in zip([0, *heads], heads, strict=False))
    await journal.close()


# -- reading beside the writer ---------------------------------------------------------------


async def test_reads_do_not_wait_for_the_writer(path: Path) -> None:
    journal = await opened(path)
    append(journal, "a", 1, 500)
    await journal.flush()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        append(journal, "a", 501, 600)
        # The writer stands still behind the other program's lock; whoever reads does not notice.
        assert seqs(await journal.read("a", 490, 100)) == list(range(491, 501))
        assert seqs(await journal.read_back("a", 100, 2)) == [98, 99]
        assert [one.seq for _, one in await journal.newest(1)] == [500]
        assert await journal.find_key("a", "m") is None
        other.execute("ROLLBACK")
    await journal.flush()
    assert seqs(await journal.read("a", 595, 100)) == list(range(596, 601))
    await journal.close()


async def test_a_reader_that_keeps_up_sees_every_event_once(path: Path) -> None:
    journal, listener = SqliteJournal(path, batch_events=64), Listener()
    await journal.open(listener)

    async def write() -> None:
        for seq in range(1, 5001, 50):
            append(journal, "a", seq, seq + 49)
            await asyncio.sleep(0)
        await journal.flush()

    async def follow() -> list[int]:
        found: list[int] = []
        while len(found) < 5000:
            batch = seqs(await journal.read("a", len(found), 333))
            if not batch:
                await listener.until("a", len(found) + 1)
            found += batch
        return found

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write())
        followers = [tasks.create_task(follow()) for _ in range(3)]
    assert all(follower.result() == list(range(1, 5001)) for follower in followers)
    await journal.close()


async def test_a_loop_that_never_rests_does_not_starve_the_writer(path: Path) -> None:
    journal, listener = SqliteJournal(path), Listener()
    await journal.open(listener)
    append(journal, "a", 1)
    patience = perf_counter() + 5
    while not listener.durable:
        assert perf_counter() < patience
        begun = perf_counter()
        while perf_counter() - begun < 0.0005:
            pass
        await asyncio.sleep(0)
    await journal.close()


# -- what does not grow for ever -------------------------------------------------------------


async def test_sessions_that_come_and_go_do_not_make_the_file_grow(path: Path) -> None:
    journal = await opened(path)
    sizes = []
    for cycle in range(300):
        name = f"session {cycle}"
        append(journal, name, 1, 30, text="w" * 1000)
        await journal.bind_alias("coop", "p", name, name)
        await journal.drop(row(name, 30, dropped_at=1))
        await journal.forget(name)
        sizes.append(path.stat().st_size)
    await until(lambda: count(path, "purges") == 0)
    assert [count(path, table) for table in ("events", "sessions", "keys", "aliases", "snapshots")] == [0] * 5
    await journal.close()
    written = 300 * 30 * 1000
    assert max(sizes) < written / 3
    assert path.stat().st_size < writer.FREE_PAGES_KEPT * 4096 + 100_000


async def test_a_dropped_log_gives_its_room_back_and_cannot_be_read_any_more(path: Path) -> None:
    journal = await opened(path)
    append(journal, "kept", 1)
    append(journal, "dropped", 1, 1500, text="the secret plan " * 500)
    await journal.flush()
    await journal.drop(row("dropped", 1500, dropped_at=1))
    await until(lambda: count(path, "purges") == 0)
    await until(lambda: free_pages(path) <= writer.FREE_PAGES_KEPT)
    await journal.close()
    assert path.stat().st_size < writer.FREE_PAGES_KEPT * 4096 + 100_000
    assert b"the secret plan" not in path.read_bytes()


async def test_taking_a_log_off_the_disk_goes_on_after_a_restart(path: Path) -> None:
    journal = await opened(path)
    append(journal, "a", 1, 5000)
    await journal.drop(row("a", 5000, dropped_at=1))
    await journal.close()
    journal = await opened(path)
    await until(lambda: count(path, "events") == 0)
    await until(lambda: count(path, "purges") == 0)
    await journal.close()


async def test_others_are_served_while_a_long_log_is_taken_off_the_disk(path: Path) -> None:
    journal = await opened(path)
    append(journal, "long", 1, 20_000)
    await journal.flush()
    await journal.drop(row("long", 20_000, dropped_at=1))
    append(journal, "other", 1)
    await journal.flush()
    assert count(path, "purges") == 1, "it takes a while; the other's event did not wait for its end"
    await journal.close()


async def test_a_long_reader_cannot_make_the_write_ahead_log_grow_for_ever(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 500_000
    monkeypatch.setattr(writer, "WAL_BYTES_MOST", most)
    monkeypatch.setattr(writer, "WAL_EVERY", 0.0)
    monkeypatch.setattr(writer, "READERS_WAIT", 0.01)
    monkeypatch.setattr(writer, "CHECKPOINT_PAGES", 1_000_000)
    journal = await opened(path)
    wal = path.with_name("journal.db-wal")

    async def write(first: int) -> int:
        append(journal, "a", first, first + 99, text="v" * 1000)
        await journal.flush()
        return wal.stat().st_size

    seq = 1
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        while await write(seq) < 3 * most:
            seq += 100
        reader.execute("COMMIT")
    for first in range(seq + 100, seq + 3000, 100):
        size = await write(first)
    assert size < 2 * most
    await journal.close()


async def test_a_commit_waits_for_the_disk(path: Path) -> None:
    levels: list[int] = []

    class Asking(sqlite3.Connection):
        def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
            if sql == "COMMIT":
                levels.append(super().execute("PRAGMA synchronous").fetchone()[0])
            return super().execute(sql, parameters)  # type: ignore[arg-type]

    journal = await opened(path, connection=Asking)
    append(journal, "a", 1)
    await journal.flush()
    await journal.close()
    assert set(levels) == {2}, "FULL: the write-ahead log is synced in every commit"


# -- damage within the log -------------------------------------------------------------------


async def test_a_hole_in_a_log_is_named_not_skipped(path: Path) -> None:
    journal = await opened(path)
    append(journal, "a", 1, 300)
    append(journal, "b", 1, 3)
    await journal.flush()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("DELETE FROM events WHERE seq = 200")
    with pytest.raises(DataFolderError, match=r"damaged \(session a, seq 200 is missing\)"):
        await journal.read("a", 0, 1000)
    with pytest.raises(DataFolderError, match="session a, seq 200 is missing"):
        await journal.read_back("a", 250, 100)
    with pytest.raises(DataFolderError, match="session a, seq 200 is missing"):
        await journal.newest(1000)
    assert seqs(await journal.read("a", 200, 100)) == list(range(201, 301)), "behind the hole all is well"
    assert seqs(await journal.read("b", 0, 10)) == [1, 2, 3]
    await journal.close()


async def test_a_missing_end_is_a_hole_too(path: Path) -> None:
    journal = await opened(path)
    append(journal, "a", 1, 10)
    await journal.flush()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("DELETE FROM events WHERE seq >= 9")
    with pytest.raises(DataFolderError, match="session a, seq 9 is missing"):
        await journal.read("a", 0, 100)
    await journal.close()


async def test_an_epoch_that_is_not_known_is_damage(path: Path) -> None:
    journal = await opened(path)
    append(journal, "a", 1)
    await journal.flush()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE events SET epoch = 9")
    with pytest.raises(DataFolderError, match="no epoch has the number 9"):
        await journal.read("a", 0, 1)
    await journal.close()


@pytest.mark.parametrize("fact", ["{", '{"type":"no.such.fact"}', '{"type":"log.written","line":5}', b"\xff\xfe"])
async def test_an_unreadable_fact_is_named(path: Path, fact: str | bytes) -> None:
    journal = await opened(path)
    append(journal, "a", 1, 100)
    await journal.flush()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE events SET fact = CAST(? AS TEXT) WHERE seq = 40", (fact,))
    with pytest.raises(DataFolderError, match="session a, seq 40 cannot be decoded"):
        await journal.read("a", 0, 1000)
    with pytest.raises(DataFolderError, match="session a, seq 40 cannot be decoded"):
        await journal.newest(100)
    assert seqs(await journal.read("a", 40, 1000)) == list(range(41, 101))
    await journal.close()


# -- versions --------------------------------------------------------------------------------

VERSION_1 = """
    PRAGMA auto_vacuum = INCREMENTAL;
    PRAGMA application_id = 1146242893;
    CREATE TABLE sessions (number INTEGER PRIMARY KEY, session TEXT NOT NULL UNIQUE, head INTEGER NOT NULL,
        changed INTEGER NOT NULL, dropped_at INTEGER, row TEXT NOT NULL);
    CREATE TABLE epochs (number INTEGER PRIMARY KEY, epoch TEXT NOT NULL UNIQUE);
    CREATE TABLE events (position INTEGER PRIMARY KEY, number INTEGER NOT NULL, seq INTEGER NOT NULL,
        at INTEGER NOT NULL, epoch INTEGER NOT NULL, fact TEXT NOT NULL);
    CREATE UNIQUE INDEX events_by_session ON events (number, seq);
    CREATE TABLE keys (number INTEGER NOT NULL, key TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (number, key))
        WITHOUT ROWID;
    CREATE TABLE snapshots (number INTEGER PRIMARY KEY, seq INTEGER NOT NULL, data BLOB NOT NULL);
    CREATE TABLE aliases (dialect TEXT NOT NULL, principal TEXT NOT NULL, name TEXT NOT NULL, session TEXT NOT NULL,
        PRIMARY KEY (dialect, principal, name)) WITHOUT ROWID;
    CREATE INDEX aliases_by_session ON aliases (session);
    CREATE TABLE purges (number INTEGER PRIMARY KEY);
    CREATE VIEW log AS SELECT position, session, seq, at, epochs.epoch AS epoch, fact
        FROM events JOIN sessions USING (number) JOIN epochs ON epochs.number = events.epoch WHERE dropped_at IS NULL;
    INSERT INTO epochs VALUES (1, 'first');
    INSERT INTO sessions VALUES (5, 'a', 2, 7, NULL, '{"session":"a","kind":"terminal","agent":"claude","cwd":"/w",
        "title":"t","owner":"local","status":"closed","created_at":1,"changed_at":2,"head":2}');
    INSERT INTO events VALUES (6, 5, 1, 1001, 1, '{"type":"log.written","line":"one"}');
    INSERT INTO events VALUES (7, 5, 2, 1002, 1, '{"type":"log.written","line":"two"}');
    INSERT INTO keys VALUES (5, 'm', 2);
    INSERT INTO aliases VALUES ('coop', 'p', 'n', 'a');
    PRAGMA user_version = 1;
"""
"""A file of version 1 as it was written then. It never changes: what replaces the tables must bring it along."""

ROW_1 = SessionRow(
    session="a",
    kind="terminal",
    agent="claude",
    cwd="/w",
    title="t",
    owner="local",
    status="closed",
    created_at=1,
    changed_at=2,
    head=2,
)


def make_version_1(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_1)


async def test_a_file_of_version_1_is_read_and_continued(path: Path) -> None:
    make_version_1(path)
    journal = SqliteJournal(path)
    assert await journal.open(Listener()) == [ROW_1]
    append(journal, "a", 3)
    append(journal, "b", 1)
    await journal.flush()
    assert lines(await journal.read("a", 0, 10)) == ["one", "two", "line 3"]
    assert [one.epoch for one in await journal.read("a", 0, 10)] == ["first", "first", "epoch-1"]
    assert await journal.find_key("a", "m") == 2
    assert await journal.alias("coop", "p", "n") == "a"
    assert [session for session, _ in await journal.newest(10)] == ["a", "a", "a", "b"]
    await journal.close()


def _add_notes(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE notes (number INTEGER PRIMARY KEY, note TEXT)")
    connection.execute("INSERT INTO notes SELECT number, 'note on ' || session FROM sessions")


def _add_colour(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE notes ADD COLUMN colour TEXT")


def _fail(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TABLE keys")
    connection.execute("INSERT INTO nowhere VALUES (1)")


LATER = "CREATE TABLE notes (number INTEGER PRIMARY KEY, note TEXT, colour TEXT)"
VERSION_3 = Schema((*SCHEMA.statements, LATER), (*SCHEMA.migrations, _add_notes, _add_colour))


async def test_an_older_file_is_brought_up_to_date_step_by_step(path: Path) -> None:
    make_version_1(path)
    journal = SqliteJournal(path, schema=VERSION_3)
    assert await journal.open(Listener()) == [ROW_1]
    assert lines(await journal.read("a", 0, 10)) == ["one", "two"]
    await journal.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM notes").fetchall() == [(5, "note on a", None)]
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION_3.version,)
    with pytest.raises(DataFolderError, match="newer dragoman"):
        await SqliteJournal(path).open(Listener())
    journal = await opened(path, schema=VERSION_3)
    await journal.close()


async def test_the_version_is_told_by_the_header_even_if_the_server_is_lost(path: Path) -> None:
    make_version_1(path)
    schema.prepare(path, VERSION_3)
    assert int.from_bytes(path.read_bytes()[60:64], "big") == VERSION_3.version


@pytest.mark.parametrize("last", [_fail, lambda connection: None], ids=["raises", "makes the wrong tables"])
async def test_a_failed_migration_leaves_the_file_as_it_was(path: Path, last: schema.Migration) -> None:
    make_version_1(path)
    broken = Schema((*SCHEMA.statements, LATER), (*SCHEMA.migrations, _add_notes, last))
    with pytest.raises(DataFolderError, match="it was left as it was"):
        await SqliteJournal(path, schema=broken).open(Listener())
    journal = SqliteJournal(path)
    assert await journal.open(Listener()) == [ROW_1]
    assert await journal.read("a", 1, 10) == [event(2, "two", "first")]
    await journal.close()

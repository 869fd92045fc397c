"""Files that must not be used: refused with a reason, and the same afterwards byte for byte."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.hub.errors import DataFolderError
from dragoman.hub.sqlite import SqliteJournal
from dragoman.hub.sqlite.schema import QUICK_CHECK_BYTES

from .journal_kit import Listener, append

PAGE = 4096


async def make(path: Path, events: int = 300, text: str = "") -> None:
    journal = SqliteJournal(path)
    await journal.open(Listener())
    append(journal, "a", 1, events, text=text)
    await journal.close()


async def refusal(path: Path) -> str:
    """Why the file is refused, after making sure that nothing in its folder changed."""

    def contents() -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}

    before = contents()
    with pytest.raises(DataFolderError) as caught:
        await SqliteJournal(path).open(Listener())
    assert contents() == before
    return str(caught.value)


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.mark.parametrize("content", [b"x", b"not a database at all\n" * 50, b"SQLite format 3", b"\0" * 5000])
async def test_a_file_that_is_not_sqlite(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert "is not a dragoman journal" in await refusal(path)


async def test_an_empty_file_is_as_good_as_none(path: Path) -> None:
    path.touch()
    await make(path)
    assert path.stat().st_size > 0


async def test_another_programs_database(path: Path) -> None:
    change(path, "CREATE TABLE cookies (name TEXT)", "PRAGMA application_id = 77")
    reason = await refusal(path)
    assert "belongs to another program (application id 0x4d)" in reason
    assert "choose another data folder" in reason


async def test_a_database_of_nobody(path: Path) -> None:
    change(path, "CREATE TABLE cookies (name TEXT)", "PRAGMA journal_mode = WAL")
    assert "belongs to another program" in await refusal(path)


async def test_a_newer_file(path: Path) -> None:
    await make(path)
    change(path, "PRAGMA user_version = 99", "PRAGMA wal_checkpoint(TRUNCATE)")
    reason = await refusal(path)
    assert "written by a newer dragoman (format 99; this one knows up to 1)" in reason
    assert "update dragoman" in reason


async def test_a_newer_version_that_only_the_write_ahead_log_tells_of(path: Path, tmp_path: Path) -> None:
    await make(path)
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 99")
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", crashed)
    assert "newer dragoman" in await refusal(crashed / "journal.db")


async def test_a_version_that_never_was(path: Path) -> None:
    await make(path)
    change(path, "PRAGMA user_version = 0", "PRAGMA wal_checkpoint(TRUNCATE)")
    assert "damaged (format 0 never was)" in await refusal(path)


def _truncate(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 3 * PAGE - 17)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: overwrite(path, 100, b"\xaa" * (PAGE - 100)),
        lambda path: overwrite(path, 3 * PAGE, b"\xaa" * PAGE),
        lambda path: overwrite(path, path.stat().st_size - 2 * PAGE, b"\0" * PAGE),
        lambda path: overwrite(path, 16, b"\x00\x07"),
        _truncate,
        lambda path: change(path, "DROP TABLE keys"),
        lambda path: change(path, "DROP INDEX events_by_session"),
        lambda path: change(path, "CREATE TABLE surprise (x)"),
        lambda path: change(path, "ALTER TABLE events RENAME COLUMN at TO time"),
        lambda path: change(path, "DELETE FROM events WHERE seq = 300"),
        lambda path: change(path, "UPDATE events SET fact = '{' WHERE seq = 299"),
        lambda path: change(path, "UPDATE sessions SET row = '{}'"),
    ],
    ids=[
        "schema page",
        "a page within",
        "a page near the end",
        "page size",
        "cut short",
        "a table is missing",
        "an index is missing",
        "a table too many",
        "a column is missing",
        "the last event is missing",
        "an unreadable fact",
        "an unreadable row",
    ],
)
async def test_a_damaged_file(path: Path, damage: Callable[[Path], None]) -> None:
    await make(path)
    damage(path)
    reason = await refusal(path)
    assert "damaged" in reason or "is not a dragoman journal" in reason or "cannot read" in reason
    assert str(path) in reason


async def test_a_large_file_is_looked_at_where_it_counts(path: Path) -> None:
    """Not page by page, which would take long; still a log that ends too early is found."""
    await make(path, 600, text="long " * 4000)
    assert path.stat().st_size > QUICK_CHECK_BYTES
    change(path, "DELETE FROM events WHERE seq >= 599")
    assert "session a should end at seq 600 and ends at 598" in await refusal(path)
    _truncate(path)
    assert "damaged" in await refusal(path)


async def test_a_damaged_file_that_a_lost_server_left(path: Path, tmp_path: Path) -> None:
    journal = SqliteJournal(path)
    await journal.open(Listener())
    append(journal, "a", 1, 300)
    await journal.flush()
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", crashed)
    await journal.close()
    with closing(sqlite3.connect(crashed / "journal.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM events WHERE seq = 300")
        damaged = tmp_path / "damaged"
        damaged.mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(f"{crashed / 'journal.db'}{suffix}", damaged)
    assert "should end at seq 300 and ends at 299" in await refusal(damaged / "journal.db")


async def test_a_write_ahead_log_without_its_file_is_not_replayed_into_a_new_one(path: Path) -> None:
    path.with_name("journal.db-wal").write_bytes(b"somebody's pages" * 100)
    assert "missing or empty, but its -wal file is there" in await refusal(path)


async def test_a_folder_in_the_files_place(path: Path) -> None:
    path.mkdir()
    with pytest.raises(DataFolderError, match="cannot use"):
        await SqliteJournal(path).open(Listener())


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataFolderError, match="cannot use"):
        await SqliteJournal(tmp_path / "nowhere" / "journal.db").open(Listener())


async def test_what_a_crash_while_making_the_file_left_is_no_obstacle(path: Path) -> None:
    path.with_name("journal.db.new").write_bytes(b"half")
    path.with_name("journal.db.new-journal").write_bytes(b"half")
    await make(path)
    assert [file.name for file in path.parent.iterdir()] == ["journal.db"]

"""Disks that take nothing, files that are broken, a server that is killed: a change is kept whole or not at all, and
one that was answered is kept."""

from __future__ import annotations

import asyncio
import random
import resource
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dragoman.services.user_settings import SettingsUnavailable
from dragoman.services.user_settings.file import KEPT

from .kit import numbers, user_settings

KILLS = 6


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """The kernel refuses to let any file of this process grow beyond ``size``: a write error, for real."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_disk_that_is_full_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with user_settings(tmp_path / "u") as store:
        await store.change("a", {"s": 1})
        path = tmp_path / "u" / "user-settings.db"
        with files_no_longer_than(path.stat().st_size // 2):
            with pytest.raises(SettingsUnavailable, match="cannot be written now") as refused:
                await store.change("a", {"s": 2})
            assert await store.read("a") == {"s": 1}
        assert str(tmp_path) not in str(refused.value), "clients are told no paths"
        assert str(path) in caplog.text
        await store.change("a", {"t": 3})
        assert await store.read("a") == {"s": 1, "t": 3}
    assert numbers(tmp_path / "u", "a") == [1, 2]


async def test_a_disk_that_is_full_from_the_beginning_leaves_nothing_that_is_in_the_way(tmp_path: Path) -> None:
    async with user_settings(tmp_path / "u") as store:
        with files_no_longer_than(1000), pytest.raises(SettingsUnavailable):
            await store.change("a", {"s": 1})
        await store.change("a", {"s": 2})
        assert await store.read("a") == {"s": 2}


@pytest.mark.parametrize("content", [b"not SQLite" * 100, b"SQLite format 3\0" + b"\xff" * 4000])
async def test_a_file_that_is_none_is_left_as_it_is(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "u" / "user-settings.db"
    path.parent.mkdir()
    path.write_bytes(content)
    async with user_settings(tmp_path / "u") as store:
        for asked in (store.read("a"), store.change("a", {"s": 1})):
            with pytest.raises(SettingsUnavailable):
                await asked
        assert path.read_bytes() == content
        assert "moved away" in caplog.text
        path.rename(path.with_suffix(".broken"))
        await store.change("a", {"s": 1})
        assert await store.read("a") == {"s": 1}


@pytest.mark.parametrize(("pragma", "says"), [("user_version = 2", "format 2"), ("application_id = 7", "another prog")])
async def test_a_file_of_somebody_else_is_not_used(
    tmp_path: Path, pragma: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with user_settings(tmp_path / "u") as store:
        await store.change("a", {"s": 1})
    with closing(sqlite3.connect(tmp_path / "u" / "user-settings.db")) as connection:
        connection.execute(f"PRAGMA {pragma}")
    async with user_settings(tmp_path / "u") as store:
        with pytest.raises(SettingsUnavailable):
            await store.read("a")
    assert says in caplog.text


async def test_a_change_that_is_damaged_is_not_read_as_none(tmp_path: Path) -> None:
    async with user_settings(tmp_path / "u") as store:
        await store.change("a", {"s": 1})
        await store.change("b", {"s": 1})
    with closing(sqlite3.connect(tmp_path / "u" / "user-settings.db")) as connection:
        connection.execute("UPDATE changes SET changes = ? WHERE user = 'a'", (b"[1",))
        connection.commit()
    async with user_settings(tmp_path / "u") as store:
        with pytest.raises(SettingsUnavailable):
            await store.read("a")
        assert await store.read("b") == {"s": 1}


async def test_shortening_that_fails_half_way_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "u" / "user-settings.db"
    async with user_settings(tmp_path / "u") as store:
        for count in range(1, 2 * KEPT):
            await store.change("a", {f"s{count}": count})
        before = await store.read("a")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(
                "CREATE TRIGGER no BEFORE UPDATE ON changes BEGIN SELECT RAISE(ABORT, 'the disk fails'); END"
            )
        with pytest.raises(SettingsUnavailable):
            await store.change("a", {"last": 1})
        assert await store.read("a") == before
        assert numbers(tmp_path / "u", "a") == list(range(1, 2 * KEPT))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TRIGGER no")
        await store.change("a", {"last": 1})
        assert await store.read("a") == {**before, "last": 1}
        assert len(numbers(tmp_path / "u", "a")) == KEPT + 1


async def test_a_folder_that_cannot_be_made_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "u").write_text("a file")
    async with user_settings(tmp_path / "u") as store:
        with pytest.raises(SettingsUnavailable):
            await store.read("a")
        (tmp_path / "u").unlink()
        await store.change("a", {"s": 1})


async def test_a_store_that_is_closed_says_that_the_server_stops(tmp_path: Path) -> None:
    async with user_settings(tmp_path / "u") as store:
        await store.close()
        with pytest.raises(SettingsUnavailable, match="the server stops"):
            await store.read("a")
        await store.close()


async def test_what_was_answered_outlives_servers_that_are_killed(tmp_path: Path) -> None:
    answered = 0
    for _ in range(KILLS):
        answered = await _changed_until_killed(tmp_path / "u", random.randint(1, 12), answered)
        async with user_settings(tmp_path / "u") as store:
            found = await store.read("u")
        assert found["left"] == found["right"], "a change is whole"
        assert found["left"] in (answered, answered + 1), "the last one may not have been answered"
        kept = numbers(tmp_path / "u", "u")
        assert kept == list(range(kept[0], kept[-1] + 1))
        assert isinstance(found["left"], int)
        answered = found["left"]


async def _changed_until_killed(folder: Path, changes: int, before: int) -> int:
    """Let a server of its own process change settings and kill it after so many; the last that it said was kept."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.services.user_settings.changer", str(folder), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    last = before
    for _ in range(changes):
        last = int(await asyncio.wait_for(process.stdout.readline(), 20))
    process.send_signal(signal.SIGKILL)
    rest = await process.stdout.read()
    await process.wait()
    said = [int(line) for line in rest.split(b"\n")[:-1]]
    return said[-1] if said else last

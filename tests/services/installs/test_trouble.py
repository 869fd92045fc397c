"""Disks that take nothing, files that are broken, callers that go, a server that is killed: nothing is half registered,
and what was answered holds."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dragoman.services.installs import Install, Installs, InstallSettings, InstallsUnavailable
from dragoman.services.installs.file import InstallFile, Row
from tests.hub.rig import FakeClock

from .kit import installs, rows, until

KILLS = 8


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """The kernel refuses to let any file of this process grow beyond ``size``: a write error, for real."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_disk_that_is_full_registers_nobody(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        before = await store.register(None)
        with files_no_longer_than((tmp_path / "i" / "installs.db").stat().st_size // 2):
            with pytest.raises(InstallsUnavailable, match=r"installs\.db cannot be written"):
                await store.register(None)
            assert await store.identify(before.token) == before.install, "it is in memory"
        assert [record.install for record in await store.records()] == [before.install]
        after = await store.register(None)
        assert await store.identify(after.token) == after.install
    assert {row["user_id"] for row in rows(tmp_path / "i")} == {before.user_id, after.user_id}


async def test_a_disk_that_is_full_from_the_beginning_leaves_nothing_that_is_in_the_way(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        with files_no_longer_than(1000), pytest.raises(InstallsUnavailable):
            await store.register(None)
        made = await store.register(None)
        assert await store.identify(made.token) == made.install


async def test_a_folder_that_cannot_be_made_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "i").write_text("a file")
    async with installs(tmp_path / "i") as store:
        for asked in (store.open(), store.register(None), store.identify("x"), store.records(), store.revoke("x")):
            with pytest.raises(InstallsUnavailable):
                await asked
        (tmp_path / "i").unlink()
        await store.register(None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
async def test_a_disk_that_may_only_be_read_still_tells_who_is_who(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        made = await store.register(None)
    (tmp_path / "i" / "installs.db").chmod(0o400)
    (tmp_path / "i").chmod(0o500)
    try:
        async with installs(tmp_path / "i") as store:
            assert await store.identify(made.token) == made.install
            with pytest.raises(InstallsUnavailable, match="cannot be written"):
                await store.register(None)
    finally:
        (tmp_path / "i").chmod(0o700)


@contextmanager
def taking_nothing(folder: Path) -> Iterator[None]:
    """SQLite can read the file and not write it: a folder lies where its journal would."""
    in_the_way = folder / "installs.db-journal"
    in_the_way.mkdir()
    try:
        yield
    finally:
        in_the_way.rmdir()


async def test_a_disk_that_takes_nothing_registers_nobody_and_revokes_for_now(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        made = await store.register(None)
        with taking_nothing(tmp_path / "i"):
            with pytest.raises(InstallsUnavailable, match="cannot be written"):
                await store.register(None)
            with pytest.raises(InstallsUnavailable, match="cannot be written"):
                await store.revoke(made.install_id)
            assert await store.identify(made.token) is None, "whoever revokes wants it shut"
        assert [row["user_id"] for row in rows(tmp_path / "i")] == [made.user_id]
        assert await store.revoke(made.install_id) is True
        assert rows(tmp_path / "i") == []


async def test_use_that_cannot_be_noted_is_no_trouble_to_who_is_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    async with installs(tmp_path / "i", clock=clock) as store:
        made = await store.register(None)
        with taking_nothing(tmp_path / "i"):
            clock.pass_days(1)
            for _ in range(5):
                assert await store.identify(made.token) == made.install
            await until(lambda: "cannot be noted" in caplog.text)
        assert caplog.text.count("cannot be noted") == 1


@pytest.mark.parametrize("content", [b"", b"not SQLite" * 100, b"SQLite format 3\0" + b"\xff" * 4000])
async def test_a_file_that_is_none_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "i").mkdir()
    (tmp_path / "i" / "installs.db").write_bytes(content)
    async with installs(tmp_path / "i") as store:
        with pytest.raises(InstallsUnavailable, match=r"installs\.db"):
            await store.register(None)
    assert (tmp_path / "i" / "installs.db").read_bytes() == content


@pytest.mark.parametrize(("pragma", "says"), [("user_version = 2", "format 2"), ("application_id = 7", "another prog")])
async def test_a_file_of_somebody_else_is_not_used(tmp_path: Path, pragma: str, says: str) -> None:
    async with installs(tmp_path / "i") as store:
        await store.register(None)
    with closing(sqlite3.connect(tmp_path / "i" / "installs.db")) as connection:
        connection.execute(f"PRAGMA {pragma}")
    async with installs(tmp_path / "i") as store:
        with pytest.raises(InstallsUnavailable, match=says):
            await store.records()


class Gate:
    """Holds the store's thread in the middle of writing an install, as a disk does that does not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self._opened = threading.Event(), threading.Event()
        add = InstallFile.add

        def held(file: InstallFile, row: Row) -> None:
            add(file, row)
            self.entered.set()
            assert self._opened.wait(30)

        monkeypatch.setattr(InstallFile, "add", held)

    def open(self) -> None:
        self._opened.set()


async def test_a_caller_who_goes_meanwhile_leaves_no_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with installs(tmp_path / "i") as store:
        await store.open()
        gate = Gate(monkeypatch)
        asking = [asyncio.create_task(store.register(None)) for _ in range(2)]
        await until(gate.entered.is_set)
        assert len(rows(tmp_path / "i")) == 1, "it is on disk, and nobody was told"
        for each in asking:
            each.cancel()
        assert all(
            isinstance(each, asyncio.CancelledError) for each in await asyncio.gather(*asking, return_exceptions=True)
        )
        gate.open()
        await until(lambda: rows(tmp_path / "i") == [])
        assert await store.records() == []
        made = await store.register(None)
        assert await store.identify(made.token) == made.install


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Somebody else writes in the file, and does not end."""
    with closing(sqlite3.connect(folder / "installs.db", isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")


async def test_a_disk_that_does_not_answer_is_waited_for_so_long(tmp_path: Path) -> None:
    store = Installs(InstallSettings(), tmp_path / "i", clock=FakeClock(), disk_seconds=0.1)
    await store.open()
    with held(tmp_path / "i"):
        for _ in range(2):
            with pytest.raises(InstallsUnavailable, match=r"has not answered for 0\.1 seconds"):
                await store.register(None)
    await store.close(budget=10)
    assert rows(tmp_path / "i") == [], "what was written after all is taken back"


async def test_a_file_that_somebody_else_holds_cannot_be_written(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        await store.open()
        with held(tmp_path / "i"), pytest.raises(InstallsUnavailable, match="locked"):
            await store.register(None)
        await store.register(None)
    assert len(rows(tmp_path / "i")) == 1


async def test_nor_can_one_that_somebody_else_reads_for_long(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        await store.open()
        with closing(sqlite3.connect(tmp_path / "i" / "installs.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM installs").fetchall()
            with pytest.raises(InstallsUnavailable, match="locked"):
                await store.register(None)
        made = await store.register(None)
    assert [row["user_id"] for row in rows(tmp_path / "i")] == [made.user_id], "the one that failed was rolled back"


async def test_a_store_that_was_closed_says_so(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        await store.register(None)
    with pytest.raises(InstallsUnavailable, match="stops"):
        await store.register(None)
    await store.close()


async def register_and_kill(folder: Path, wanted: int) -> list[tuple[str, str, str]]:
    """Let a process register until it has said so often, kill it with SIGKILL, and return all that it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.services.installs.registrar", str(folder), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    said = [await process.stdout.readline() for _ in range(wanted)]
    process.send_signal(signal.SIGKILL)
    said += (await process.stdout.read()).splitlines(keepends=True)
    assert await process.wait() == -signal.SIGKILL
    made = [line.decode().split() for line in said if line.endswith(b"\n")]
    return [(user, install, token) for user, install, token in made]


async def test_whoever_was_answered_is_known_after_a_kill(tmp_path: Path) -> None:
    chance, answered = random.Random(7), list[tuple[str, str, str]]()
    for _ in range(KILLS):
        answered += await register_and_kill(tmp_path / "i", chance.randint(1, 12))
        async with installs(tmp_path / "i") as store:
            for user, install, token in answered:
                assert await store.identify(token) == Install(user, install)
            listed = len(await store.records())
        assert len(answered) <= listed <= len(answered) + KILLS, "one at most that was stored and not said, each time"
    assert len(answered) >= KILLS

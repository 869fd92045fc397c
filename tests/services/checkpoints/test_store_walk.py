"""Reading a workspace: what is not read again, and what is never taken for an instant that was."""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.checkpoints import CheckpointProblem
from dragoman.services.checkpoints import walk as walks
from dragoman.services.checkpoints.content import read_pieces, write_pieces
from dragoman.services.checkpoints.stop import Stop

from .store_rig import Desk, quick, shape, stored, unfinished

MIB = 1024 * 1024


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of each file that is read, as it is read."""
    sizes: list[int] = []

    def counted(file: int, size: int, *args: Any) -> Any:
        sizes.append(size)
        return read_pieces(file, size, *args)

    monkeypatch.setattr(walks, "read_pieces", counted)
    return sizes


@pytest.fixture
def during(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], None]], None]:
    """Do something just after a file was read; it is told how many were."""

    def install(action: Callable[[int], None]) -> None:
        count = 0

        def then(*args: Any) -> Any:
            nonlocal count
            pieces = read_pieces(*args)
            count += 1
            action(count)
            return pieces

        monkeypatch.setattr(walks, "read_pieces", then)

    return install


async def test_what_did_not_change_is_not_read_again(desk: Desk, read: list[int]) -> None:
    for size in (1, 2, 3):
        (desk.work / str(size)).write_bytes(b"x" * size)
    await desk.take()
    assert sorted(read) == [1, 2, 3]
    await desk.again()
    await desk.take()
    await desk.store.take("s2", desk.work, "cp-0000", first=None)
    assert sorted(read) == [1, 2, 3]
    (desk.work / "2").write_bytes(b"y" * 20)
    await desk.take()
    assert sorted(read) == [1, 2, 3, 20]


async def test_a_change_that_hides_behind_size_and_time_is_seen(desk: Desk) -> None:
    """Git's racily clean file, and worse: the same size, the same inode, the old time put back, within one tick."""
    file = desk.work / "file"
    file.write_text("old")
    await desk.take()
    for number in range(20):
        status = file.stat()
        with file.open("r+") as opened:
            opened.write(f"{number:3}")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        before = shape(desk.work)
        taken, _ = await desk.take()
        with file.open("r+") as opened:
            opened.write("xxx")
        await desk.restore(taken)
        assert shape(desk.work) == before


async def test_a_file_that_changes_while_it_is_read_is_read_again(desk: Desk, during: Any) -> None:
    file = desk.work / "file"
    file.write_text("1")
    during(lambda count: count == 1 and file.write_text("22"))
    first, _ = await desk.take()
    file.unlink()
    await desk.restore(first)
    assert file.read_text() == "22"


@pytest.mark.parametrize("kind", ["grows", "comes and goes", "is renamed", "flips"])
async def test_a_workspace_that_never_stands_still_is_not_saved(desk: Desk, during: Any, kind: str) -> None:
    file, other = desk.work / "file", desk.work / "other"
    file.write_text("1")
    (desk.work / "z").write_text("1")

    def act(count: int) -> None:
        if kind == "grows":
            file.write_text("1" * count)
        elif kind == "comes and goes":
            other.write_text("2")
            other.unlink()
        elif kind == "is renamed":
            (file if file.exists() else other).rename(other if file.exists() else file)
        elif file.is_dir():
            file.rmdir()
            file.write_text("1")
        else:
            file.unlink()
            file.mkdir()
        (desk.work / "z").write_text(str(count))

    during(act)
    with pytest.raises(CheckpointProblem, match="changes while it is being saved"):
        await desk.take()
    assert stored(desk.folder) == set()
    assert unfinished(desk.folder) == []
    assert not (desk.folder / "s1").exists()


async def test_two_files_that_change_in_turn_are_never_both_old_and_new(desk: Desk) -> None:
    """Writer: a, then b, always the same number; an image may show a one ahead of b, and nothing else."""
    a, b = desk.work / "a", desk.work / "zz" / "b"
    b.parent.mkdir()
    a.write_text("0")
    b.write_text("0")
    with _writing(a, b):
        outcomes = []
        for _ in range(8):
            try:
                outcomes.append((await desk.take())[0])
            except CheckpointProblem:
                outcomes.append(None)
    for taken in filter(None, outcomes):
        await desk.restore(taken)
        ahead = int(a.read_text()) - int(b.read_text())
        assert ahead in {0, 1}


@contextmanager
def _writing(a: Path, b: Path) -> Iterator[None]:
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            for path in (a, b):
                new = path.with_name("new")
                new.write_text(str(number))
                new.replace(path)
            ended.wait(0.03 * (number % 4))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


async def test_an_index_that_is_damaged_or_another_workspace_s_is_not_used(desk: Desk, read: list[int]) -> None:
    (desk.work / "file").write_text("text")
    await desk.take()
    (index,) = (desk.folder / ".store" / "workspaces").glob("*.index")
    whole = index.read_bytes()
    for damaged in (b"", b"\x00", whole[: len(whole) // 2], whole[:4], whole[:-1], whole + b"\x00\x00\x00\x01\x90"):
        index.write_bytes(damaged)
        await desk.take()
    index.unlink()
    await desk.take()
    assert set(read) == {4}
    assert len(read) >= 6
    assert (await desk.take())[1].size == 0


async def test_what_was_swept_is_read_again(desk: Desk, read: list[int]) -> None:
    (desk.work / "d").mkdir()
    (desk.work / "d" / "file").write_text("text")
    await desk.store.take("s2", desk.work, "cp-0000", first=None)
    desk.store.dropped("s2")
    await desk.again()
    await desk.store.recover()
    assert await desk.store.sweep()
    assert stored(desk.folder) == set()
    before = shape(desk.work)
    first, _ = await desk.take()
    (desk.work / "d" / "file").unlink()
    await desk.restore(first)
    assert shape(desk.work) == before
    assert read.count(4) == 2


async def test_a_file_that_grows_shares_what_it_had(tmp_path: Path) -> None:
    desk = Desk(tmp_path, quick(chunk=64 * 1024))
    file = desk.work / "log"
    file.write_bytes(os.urandom(640 * 1024))
    await desk.take()
    with file.open("ab") as opened:
        opened.write(os.urandom(1000))
    assert (await desk.take())[1].size < 3000
    await desk.store.close()


async def test_a_gigabyte_of_hole_costs_next_to_nothing(desk: Desk) -> None:
    file = desk.work / "sparse"
    with file.open("wb") as opened:
        opened.truncate(1024 * MIB)
        opened.seek(512 * MIB)
        opened.write(b"data")
        opened.seek(700 * MIB)
        opened.write(b"more")
    if file.stat().st_blocks > 1000:
        pytest.skip("no holes on this filesystem")
    began = time.monotonic()
    first, saved = await desk.take()
    assert saved.size < 100_000
    with file.open("r+b") as opened:
        opened.seek(100)
        opened.write(b"changed")
    await desk.restore(first)
    assert time.monotonic() - began < 5  # to read it would take three times as long
    assert file.stat().st_size == 1024 * MIB
    assert file.stat().st_blocks * 512 < MIB
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        assert (content[512 * MIB : 512 * MIB + 4], content[700 * MIB : 700 * MIB + 4]) == (b"data", b"more")
        assert content[100:107] == bytes(7)


@pytest.mark.parametrize("chunk", [4096, 100_000, MIB])
@pytest.mark.parametrize(
    "extents",
    [[], [(0, 1)], [(0, 300_000)], [(4096, 4096), (500_000, 1)], [(i * 8192, 10) for i in range(60)], [(999_999, 1)]],
)
def test_pieces_give_back_what_they_were_made_of(tmp_path: Path, chunk: int, extents: list[tuple[int, int]]) -> None:
    objects: dict[bytes, bytes] = {}

    def put(data: bytes) -> bytes:
        objects[data[:8] + str(len(objects)).encode()] = data
        return list(objects)[-1]

    with (tmp_path / "a").open("w+b") as file, (tmp_path / "b").open("w+b") as copy:
        file.truncate(1_000_000)
        for start, length in extents:
            os.pwrite(file.fileno(), os.urandom(length), start)
        pieces = read_pieces(file.fileno(), 1_000_000, put, chunk, Stop())
        assert all(it.length <= chunk for it in pieces)
        write_pieces(copy.fileno(), 1_000_000, pieces, objects.__getitem__, Stop())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


async def test_what_cannot_be_read_fails_the_checkpoint_and_names_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk.work / "d").mkdir()
    (desk.work / "d" / "secret\n").write_text("text")
    real = os.open

    def refuse(path: Any, *args: Any, **more: Any) -> int:
        if path == b"secret\n":
            raise PermissionError(13, "Permission denied", path)
        return real(path, *args, **more)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(CheckpointProblem, match=r"d/secret\\n cannot be read: Permission denied"):
        await desk.take()
    assert stored(desk.folder) == set()

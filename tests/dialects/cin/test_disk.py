"""What the bridge keeps in files: whole or not at all, one change after the other, and never waited for without end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.dialects.cin.disk import Disk, Kept, write_whole
from dragoman.hub.errors import StorageUnavailable

Numbers = tuple[int, ...]


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.close()


def kept(disk: Disk, path: Path) -> Kept[Numbers]:
    return Kept(disk, path, Numbers, ())


async def test_changes_at_once_are_made_one_after_the_other_and_told_in_order(disk: Disk, tmp_path: Path) -> None:
    numbers, told = kept(disk, tmp_path / "deep" / "numbers.json"), []

    async def add(number: int) -> None:
        await numbers.change(lambda now: (*now, number), lambda now: told.append(len(now)))

    await asyncio.gather(*(add(number) for number in range(50)))
    assert sorted(numbers.now) == list(range(50))
    assert told == list(range(1, 51))
    assert await kept(disk, tmp_path / "deep" / "numbers.json").begin() == numbers.now
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["numbers.json"]


async def test_a_change_that_cannot_be_written_has_not_happened(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("in the way")
    numbers = kept(disk, tmp_path / "folder" / "numbers.json")
    told: list[Numbers] = []
    with pytest.raises(StorageUnavailable, match="cannot be written"):
        await numbers.change(lambda _now: (1,), told.append)
    assert (numbers.now, told) == ((), [])


async def test_a_change_that_is_none_is_neither_written_nor_told(disk: Disk, tmp_path: Path) -> None:
    numbers = kept(disk, tmp_path / "numbers.json")
    told: list[Numbers] = []
    await numbers.change(lambda now: now, told.append)
    assert told == []
    assert not (tmp_path / "numbers.json").exists()


async def test_whatever_fails_while_it_is_changed_changes_nothing(disk: Disk, tmp_path: Path) -> None:
    numbers = kept(disk, tmp_path / "numbers.json")
    await numbers.change(lambda _now: (1,))

    def fails(now: Numbers) -> Numbers:
        raise ValueError(now)

    with pytest.raises(ValueError, match="1"):
        await numbers.change(fails)
    assert numbers.now == (1,)
    assert await numbers.change(lambda now: (*now, 2)) == (1, 2)


async def test_a_file_is_read_once(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "numbers.json").write_text("[1,2]")
    numbers = kept(disk, tmp_path / "numbers.json")
    found = await asyncio.gather(*(numbers.begin() for _ in range(10)))
    (tmp_path / "numbers.json").unlink()
    assert found == [(1, 2)] * 10
    assert await numbers.begin() == (1, 2)


@pytest.mark.parametrize("left", ["{", '["x"]', "null", "\xff"])
async def test_a_file_that_cannot_be_understood_is_set_aside(disk: Disk, tmp_path: Path, left: str) -> None:
    (tmp_path / "numbers.json").write_text(left)
    numbers = kept(disk, tmp_path / "numbers.json")
    assert await numbers.begin() == ()
    assert (tmp_path / "numbers.json.damaged").read_text() == left
    await numbers.change(lambda _now: (1,))
    assert (tmp_path / "numbers.json").read_text() == "[1]"


async def test_a_disk_that_does_not_answer_is_not_waited_for_without_end(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.dialects.cin.disk.SECONDS", 0.05)
    free = threading.Event()
    try:
        with pytest.raises(StorageUnavailable, match="does not answer"):
            await disk.run(free.wait)
    finally:
        free.set()


async def test_after_the_end_nothing_is_read_or_written(disk: Disk, tmp_path: Path) -> None:
    disk.close()
    with pytest.raises(StorageUnavailable, match="stops"):
        await kept(disk, tmp_path / "numbers.json").begin()


def test_a_file_takes_its_place_whole_and_for_its_person_only(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    write_whole(path, b"one")
    before = path.open("rb")
    write_whole(path, b"another")
    with before:
        assert before.read() == b"one", "whoever reads the old one reads it whole"
    assert path.read_bytes() == b"another"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_no_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("theirs")
    (tmp_path / "file").symlink_to(tmp_path / "elsewhere")
    write_whole(tmp_path / "file", b"ours")
    assert (tmp_path / "elsewhere").read_text() == "theirs"
    assert not (tmp_path / "file").is_symlink()


def test_what_cannot_be_put_in_its_place_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "in").touch()
    with pytest.raises(OSError, match="irectory"):
        write_whole(tmp_path / "file", b"x")
    assert [left.name for left in tmp_path.iterdir()] == ["file"]

"""Reading bounded files inside a folder, and keeping what was made of them."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

import pytest

from dragoman.services.workspace.files import FileCache, FileProblem, Once, contained, file_identity, read_file

LATER = 10_000_000_000


def later() -> int:
    """A clock by which every file of a test changed long ago."""
    return time.time_ns() + LATER


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "inside" / "file"
    path.parent.mkdir()
    path.write_bytes(b"content")
    return path


def test_one_byte_more_than_asked_for_tells_a_longer_file(file: Path) -> None:
    for most, data in ((3, b"cont"), (6, b"content"), (7, b"content"), (100, b"content")):
        content = read_file(file, most)
        assert content is not None
        assert content.data == data


@pytest.mark.parametrize("name", ["nothing", "file/below", "nothing/below", "dangling"])
def test_no_file(file: Path, name: str) -> None:
    (file.parent / "dangling").symlink_to("nothing")
    assert read_file(file.parent / name, 10) is None


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null"), Path("/")):
        with pytest.raises(FileProblem, match="it is no regular file"):
            read_file(path, 10)


def test_a_path_that_no_file_can_have(tmp_path: Path) -> None:
    with pytest.raises(FileProblem):
        read_file(tmp_path / "a\0b", 10)
    with pytest.raises(FileProblem):
        read_file(tmp_path / ("a" * 300), 10)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(FileProblem):
        read_file(tmp_path / "loop", 10)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(file: Path) -> None:
    file.chmod(0)
    with pytest.raises(FileProblem, match="Permission denied"):
        read_file(file, 10)


def test_inside_counts_once_links_are_followed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (file.parent / "out").symlink_to(tmp_path / "secret")
    (file.parent / "in").symlink_to("file")
    (tmp_path / "way").symlink_to("inside")
    for path in (file, file.parent / "in", tmp_path / "way" / "file", file.parent / ".." / "inside" / "file"):
        content = read_file(path, 10, inside=[tmp_path / "way"])
        assert content is not None
        assert content.data == b"content"
    for path in (file.parent / "out", tmp_path / "secret", file.parent / ".." / "secret"):
        with pytest.raises(FileProblem, match="leads out"):
            read_file(path, 10, inside=[file.parent])
        assert not contained(path, [file.parent])
    with pytest.raises(FileProblem, match="leads out"):
        read_file(file, 10, inside=[tmp_path, tmp_path / "other"])


def test_a_link_that_is_swapped_in_meanwhile_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    folder = root / "folder"
    for each in (folder, outside):
        each.mkdir(parents=True)
        (each / "file").write_text(each.name)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            folder.rename(root / "aside")
            folder.symlink_to(outside)
            folder.unlink()
            (root / "aside").rename(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(300):
            with contextlib.suppress(FileProblem):
                content = read_file(folder / "file", 100, inside=[root])
                assert content is None or content.data == b"folder"
    finally:
        stop.set()
        thread.join()


def test_a_file_is_parsed_once_until_it_changes(file: Path) -> None:
    parsed: list[bytes] = []
    cache: FileCache[int] = FileCache(now=later)

    def parse(data: bytes) -> int:
        parsed.append(data)
        return len(data)

    assert [cache.get(file, 10, parse) for _ in range(3)] == [7, 7, 7]
    assert len(parsed) == 1
    file.write_bytes(b"other")
    assert cache.get(file, 10, parse) == 5
    file.unlink()
    assert cache.get(file, 10, parse) is None
    assert len(parsed) == 2


def test_a_file_that_was_not_there_is_found_once_it_is(tmp_path: Path) -> None:
    cache: FileCache[bytes] = FileCache(now=later)
    (tmp_path / "dangling").symlink_to("new")
    for name in ("new", "dangling"):
        assert cache.get(tmp_path / name, 10, bytes, inside=(tmp_path,)) is None
    (tmp_path / "new").write_bytes(b"there")
    for name in ("new", "dangling"):
        assert cache.get(tmp_path / name, 10, bytes, inside=(tmp_path,)) == b"there"


def test_a_file_that_has_just_changed_is_not_kept(file: Path) -> None:
    cache: FileCache[bytes] = FileCache()
    for data in (b"aaaaaaa", b"bbbbbbb", b"ccccccc"):
        file.write_bytes(data)
        os.utime(file, ns=(0, 0))  # a time that says nothing: only that of the change itself is left
        assert cache.get(file, 10, bytes) == data


def test_problems_are_kept_as_well(file: Path) -> None:
    parsed: list[bytes] = []

    def parse(data: bytes) -> int:
        parsed.append(data)
        raise FileProblem("it is odd")

    cache: FileCache[int] = FileCache(now=later)
    for _ in range(3):
        with pytest.raises(FileProblem, match="it is odd"):
            cache.get(file, 10, parse)
    assert len(parsed) == 1


def test_a_file_that_is_too_large_is_a_problem_unless_it_may_be_cut(file: Path) -> None:
    with pytest.raises(FileProblem, match="it is larger than 3 bytes"):
        FileCache[bytes]().get(file, 3, bytes)
    assert FileCache[bytes]().get(file, 3, bytes, cut=True) == b"cont"


def test_the_file_that_was_not_asked_for_longest_is_forgotten(tmp_path: Path) -> None:
    parsed: list[bytes] = []
    cache: FileCache[None] = FileCache(2, now=later)
    for name in "abc":
        (tmp_path / name).write_text(name)
    for name in "abacaba":
        cache.get(tmp_path / name, 10, parsed.append)
    assert b"".join(parsed) == b"abcb"


def test_a_file_in_the_place_of_another_is_another(file: Path) -> None:
    before = file_identity(file)
    file.with_name("new").write_bytes(b"content")
    file.with_name("new").replace(file)
    assert file_identity(file) != before
    assert file_identity(file.with_name("new")) is None


def test_a_thing_is_first_once() -> None:
    once = Once(2)
    assert [once.first(each) for each in "aabac"] == [True, False, True, False, True]
    assert once.first("b")  # forgotten

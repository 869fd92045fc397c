"""Opening what lies in a folder and nothing else, whoever moves things around meanwhile."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.services.workspace.inside import Inside, OutsideError

SECRET = b"outside"
OPEN = b"inside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "root"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "file").write_bytes(OPEN)
    (root.parent / "root-too").mkdir()
    (root.parent / "root-too" / "file").write_bytes(SECRET)
    return root


def read(inside: Inside, path: Path) -> bytes:
    with inside.file(path) as opened:
        return os.read(opened, 100)


def test_what_lies_inside_is_opened(root: Path) -> None:
    inside = Inside([root])
    (root / "link").symlink_to("folder")

    assert read(inside, root / "folder" / "file") == OPEN
    assert read(inside, root / "link" / "file") == OPEN
    with inside.folder(root) as opened:
        assert sorted(os.listdir(opened)) == ["folder", "link"]  # noqa: PTH208  a descriptor
    assert inside.status(root / "folder" / "file").st_size == len(OPEN)
    assert inside.find(root / "not" / "there") == root / "not" / "there"


def test_a_root_may_be_the_whole_system(root: Path) -> None:
    inside = Inside([Path("/")], private=[root / "folder"])
    with inside.folder(Path("/")):
        pass
    assert read(inside, root.parent / "root-too" / "file") == SECRET
    for hidden in (root / "folder" / "file", Path("/proc/self/environ"), Path("/sys/kernel"), Path("/proc")):
        with pytest.raises(OutsideError):
            inside.find(hidden)


@pytest.mark.parametrize(
    "path",
    ["root-too", "root-too/file", ".", "..", "root/..", "root/../root-too/file", "root/folder/../../root-too/file"],
)
def test_what_lies_outside_is_not(root: Path, path: str) -> None:
    inside = Inside([root])
    for way in (inside.file, inside.folder):
        with pytest.raises(OutsideError), way(root.parent / path):
            pass
    with pytest.raises(OutsideError):
        inside.status(root.parent / path)


def test_a_link_leads_out_of_nothing(root: Path) -> None:
    inside = Inside([root])
    (root / "out").symlink_to(root.parent)
    (root / "deep").symlink_to("out/root-too")
    (root / "self").symlink_to("self")
    for path in ("out", "out/root-too/file", "deep/file", "self", "self/x"):
        with pytest.raises(OutsideError):
            read(inside, root / path)


def test_a_root_that_is_a_link_by_now_holds_nothing(root: Path) -> None:
    inside = Inside([root])
    root.rename(root.parent / "moved")
    root.symlink_to(root.parent / "root-too")
    for path in (root, root / "file", root.parent / "root-too" / "file"):
        with pytest.raises(OutsideError):
            read(inside, path)


def test_what_is_private_is_so_by_whatever_name(root: Path) -> None:
    private = root / "private"
    (private / "deep").mkdir(parents=True)
    (private / "deep" / "key").write_bytes(SECRET)
    (root / "alias").symlink_to(private)
    inside = Inside([root], private=[private])

    assert inside.is_private(private.stat())
    for path in ("private", "private/deep/key", "alias", "alias/deep/key", "folder/../private/deep/key"):
        with pytest.raises(OutsideError):
            read(inside, root / path)
    (root / "renamed").mkdir()
    private.rename(root / "renamed" / "private")
    with pytest.raises(OutsideError):
        read(inside, root / "renamed" / "private" / "deep" / "key")


def test_what_is_no_file_is_not_opened_as_one(root: Path) -> None:
    inside = Inside([root])
    os.mkfifo(root / "pipe")
    with pytest.raises(OSError, match="regular"):
        read(inside, root / "pipe")
    with pytest.raises(IsADirectoryError):
        read(inside, root)
    with pytest.raises(NotADirectoryError), inside.folder(root / "folder" / "file"):
        pass
    for missing in ("gone", "gone/x", "folder/file/x"):
        with pytest.raises(FileNotFoundError):
            read(inside, root / missing)
    for none in ("a\0b", "x" * 5000):
        with pytest.raises((OSError, ValueError)):
            read(inside, root / none)


@contextlib.contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """Two names change places all the time, one of them after the other."""
    stop = threading.Event()
    between = one.with_name("between")

    def swap() -> None:
        while not stop.is_set():
            one.rename(between)
            other.rename(one)
            between.rename(other)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("what", ["folder", "file", "root"])
def test_nothing_is_read_outside_though_links_come_and_go(root: Path, what: str) -> None:
    """A folder, a file, or the root itself is a link to something outside half of the time."""
    inside = Inside([root])
    place = {"folder": root / "folder", "file": root / "folder" / "file", "root": root}[what]
    target = {"folder": root.parent / "root-too", "file": root.parent / "root-too" / "file", "root": root.parent}[what]
    if what == "root":
        (root.parent / "folder").mkdir()
        (root.parent / "folder" / "file").write_bytes(SECRET)
    trap = place.with_name("trap")
    trap.symlink_to(target)

    found = set()
    with swapping(place, trap):
        for _ in range(3000):
            with contextlib.suppress(OutsideError, OSError):
                found.add(read(inside, root / "folder" / "file"))
            with contextlib.suppress(OutsideError, OSError), inside.folder(root / "folder") as opened:
                names = os.listdir(opened)  # noqa: PTH208
                assert "root-too" not in names
                assert set(names) <= {"file", "trap", "between"}
    assert found == {OPEN}, "it was read, and only what lies inside"

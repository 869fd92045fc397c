"""Somebody swaps folders and files for links while the path guard opens them: nothing outside is ever touched."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.agents.native import path_guard
from dragoman.agents.native.path_guard import PathBlocked, PathGuard

from .folders import names, read


@contextmanager
def swapping(swap: Callable[[], None]) -> Iterator[None]:
    done = threading.Event()

    def run() -> None:
        while not done.is_set():
            swap()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def folder_for_link(place: Path) -> Callable[[], None]:
    """`root/x` is by turns a folder with a file and a link to `outside`, which has a file of the same name."""
    name, other = place / "root/x", place / "root/y"
    name.mkdir()
    (name / "f").write_text("inside")
    other.symlink_to(place / "outside")
    (place / "outside/f").write_text("secret")
    return lambda: exchange(name, other)


def exchange(one: Path, two: Path) -> None:
    """Both names change places at once, so that neither is ever absent (RENAME_EXCHANGE of renameat2(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, bytes(one), -100, bytes(two), 2):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def file_for_link(place: Path) -> Callable[[], None]:
    """`root/x/f` itself is by turns a file and a link out."""
    folder = place / "root/x"
    folder.mkdir()
    (place / "outside/f").write_text("secret")

    def swap() -> None:
        (folder / "plain").write_text("inside")
        (folder / "plain").rename(folder / "f")
        (folder / "link").symlink_to(place / "outside/f")
        (folder / "link").rename(folder / "f")

    return swap


@pytest.mark.parametrize("race", [folder_for_link, file_for_link])
def test_a_swap_while_opening_never_reads_outside(
    guard: PathGuard, place: Path, race: Callable[[Path], Callable[[], None]]
) -> None:
    seen: set[str] = set()
    with swapping(race(place)):
        for _ in range(3000):
            try:
                seen.add(read(guard, "x/f").decode())
            except PathBlocked:
                seen.add("blocked")
            except OSError as error:
                seen.add(type(error).__name__)
    assert "secret" not in seen
    assert "blocked" in seen


@pytest.mark.parametrize("race", [folder_for_link, file_for_link])
def test_a_swap_while_writing_never_writes_outside(
    guard: PathGuard, place: Path, race: Callable[[Path], Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_guard.os, "fsync", lambda _fd: None)
    outcomes: set[str] = set()
    with swapping(race(place)):
        for _ in range(1000):
            try:
                guard.write_file("write", "x/f", b"written")
                outcomes.add("written")
            except PathBlocked:
                outcomes.add("blocked")
    assert outcomes == {"written", "blocked"}
    assert (place / "outside/f").read_text() == "secret"
    assert names(place / "outside") == ["f", "secret"]


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_link_that_appears_between_the_check_and_the_opening_is_refused(
    guard: PathGuard, place: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The race at its worst moment, without luck: the swap happens right after the check."""
    check = guard.check
    (place / "outside/file").write_text("secret")

    def checked_then_swapped(tool: str, path: str) -> path_guard.Target:
        target = check(tool, path)
        victim = place / "root/sub" if what == "folder" else place / "root/sub/file"
        if not victim.is_symlink():
            victim.rename(place / "root/moved")
            victim.symlink_to(place / "outside" if what == "folder" else place / "outside/file")
        return target

    monkeypatch.setattr(guard, "check", checked_then_swapped)
    with pytest.raises(PathBlocked, match="canonical target"):
        read(guard, "sub/file")

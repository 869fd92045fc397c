"""Whose folder goes when a server starts: that of a server that was killed, and no other."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.agents.terminal.drivers.hook_folder import LOCK, PREFIX, SOCKET, HookFolder, sweep_hook_folders


@pytest.fixture
def place(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(short_path))
    return short_path


def made(place: Path, name: str = "x") -> Path:
    """What a killed server leaves: nobody holds the lock."""
    folder = place / f"{PREFIX}{name}"
    folder.mkdir(mode=0o700)
    (folder / LOCK).touch(mode=0o600)
    (folder / SOCKET).touch()
    return folder


def test_what_nobody_holds_is_removed(place: Path) -> None:
    folder = made(place)
    sweep_hook_folders()
    assert not folder.exists()


def test_what_this_server_holds_is_left_until_it_is_closed(place: Path) -> None:
    folder = HookFolder()
    (place_of,) = place.iterdir()
    assert {path.name for path in place_of.iterdir()} == {LOCK}
    sweep_hook_folders()
    assert (place_of / LOCK).exists()
    folder.close()
    folder.close()
    assert list(place.iterdir()) == []


@pytest.fixture
def another(place: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has such a folder."""
    code = """
import sys
from dragoman.agents.terminal.drivers.hook_folder import HookFolder
folder = HookFolder()
print(folder.socket, flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(place)},
    )
    yield process
    process.kill()
    process.communicate()


def test_another_servers_goes_once_it_was_killed_and_not_before(another: subprocess.Popen[str]) -> None:
    assert another.stdout is not None
    folder = Path(another.stdout.readline().strip()).parent
    sweep_hook_folders()
    assert folder.exists()
    another.send_signal(signal.SIGKILL)
    another.wait()
    sweep_hook_folders()
    assert not folder.exists()


def _more_in_it(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")


def _no_lock(folder: Path) -> None:
    (folder / LOCK).unlink()


def _linked_lock(folder: Path) -> None:
    (folder / LOCK).unlink()
    (folder.parent / "precious").touch()
    (folder / LOCK).symlink_to(folder.parent / "precious")


def _piped_lock(folder: Path) -> None:
    (folder / LOCK).unlink()
    os.mkfifo(folder / LOCK)


def _open_to_others(folder: Path) -> None:
    folder.chmod(0o755)


def _another_name(folder: Path) -> None:
    folder.rename(folder.with_name("dragoman-hook"))


def _a_link(folder: Path) -> None:
    folder.rename(folder.with_name("target"))
    folder.symlink_to(folder.with_name("target"))


def _a_folder_for_a_socket(folder: Path) -> None:
    (folder / SOCKET).unlink()
    (folder / SOCKET).mkdir()


@pytest.mark.parametrize(
    "change",
    [
        _more_in_it,
        _no_lock,
        _linked_lock,
        _piped_lock,
        _open_to_others,
        _another_name,
        _a_link,
        _a_folder_for_a_socket,
    ],
)
def test_what_is_not_proven_to_be_ours_is_left_as_it_is(place: Path, change: Callable[[Path], None]) -> None:
    """And keeps nothing else from being removed."""
    change(made(place))
    before = sorted(place.rglob("*"))
    others = [made(place, name) for name in ("a", "z")]
    sweep_hook_folders()
    assert not any(folder.exists() for folder in others)
    assert sorted(place.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users_is_left(place: Path) -> None:
    folder = made(place)
    os.chown(folder, 12345, 12345)
    sweep_hook_folders()
    assert (folder / LOCK).exists()


def test_no_folder_of_temporary_files_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for nowhere in (tmp_path / "nowhere", tmp_path / "file"):
        monkeypatch.setattr(tempfile, "tempdir", str(nowhere))
        sweep_hook_folders()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# Without a lock, as an earlier version made them

DAYS = 86_400.0


def earlier(place: Path, *, age: float = 2 * DAYS, name: str = "x") -> Path:
    """What an earlier version left: a socket on which nobody listens."""
    folder = place / f"{PREFIX}{name}"
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as once:
        once.bind(str(folder / SOCKET))
    grown(folder, age)
    return folder


def grown(folder: Path, age: float) -> None:
    then = time.time() - age
    os.utime(folder, (then, then))


def test_what_an_earlier_version_left_is_removed_once_it_is_old(place: Path) -> None:
    with_socket, empty, young = earlier(place), earlier(place, name="e"), earlier(place, age=DAYS / 2, name="y")
    (empty / SOCKET).unlink()
    grown(empty, 2 * DAYS)
    sweep_hook_folders()
    assert [path.name for path in place.iterdir()] == [young.name]
    assert not with_socket.exists()


@pytest.mark.parametrize("full", [False, True])
def test_an_earlier_version_that_still_listens_is_left(place: Path, full: bool) -> None:
    folder = earlier(place)
    (folder / SOCKET).unlink()
    with contextlib.ExitStack() as held:
        listener = held.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(folder / SOCKET))
        listener.listen(0)
        while full:
            link = held.enter_context(socket.socket(socket.AF_UNIX))
            link.setblocking(False)
            full = link.connect_ex(str(folder / SOCKET)) == 0
        grown(folder, 2 * DAYS)
        sweep_hook_folders()
        assert (folder / SOCKET).exists()


def _a_file_for_a_socket(folder: Path) -> None:
    (folder / SOCKET).unlink()
    (folder / SOCKET).touch()


def _a_link_for_a_socket(folder: Path) -> None:
    (folder / SOCKET).rename(folder.parent / "theirs")
    (folder / SOCKET).symlink_to(folder.parent / "theirs")


@pytest.mark.parametrize(
    "change",
    [
        _more_in_it,
        _open_to_others,
        _another_name,
        _a_link,
        _a_folder_for_a_socket,
        _a_file_for_a_socket,
        _a_link_for_a_socket,
    ],
)
def test_what_an_earlier_version_did_not_make_is_left(place: Path, change: Callable[[Path], None]) -> None:
    change(earlier(place))
    for path in place.iterdir():
        if path.is_dir():
            grown(path, 2 * DAYS)
    before = sorted(place.rglob("*"))
    sweep_hook_folders()
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("length", [1, 60, 75, 90, 200])
def test_a_socket_has_room_wherever_temporary_files_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    long = tmp_path / ("x" * length)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = HookFolder()
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(folder.socket)
    finally:
        folder.close()
    assert not Path(folder.socket).parent.exists()

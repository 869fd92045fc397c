"""One owner per data folder, told by the kernel and not by what a file says."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.hub.errors import DataFolderError
from dragoman.hub.folder import DataFolder

HOLDER = """
import subprocess, sys
from pathlib import Path
from dragoman.hub.folder import DataFolder
folder = DataFolder(Path(sys.argv[1]))
folder.acquire()
folder.announce("http://127.0.0.1:7337")
child = subprocess.Popen(["sleep", "60"], close_fds=False) if "child" in sys.argv else None
print(child.pid if child else 0, flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(path: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that holds the folder, and the pid of its child if it was asked to have one."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "data"


def test_nothing_is_touched_before_it_is_acquired(path: Path) -> None:
    folder = DataFolder(path)
    assert (folder.journal, folder.terminals, folder.keys) == (path / "journal.db", path / "terminals", path / "keys")
    assert len(folder.epoch) == 16
    assert folder.epoch != DataFolder(path).epoch
    assert not path.exists()
    folder.release()


def test_the_folder_is_made_for_its_owner_only(path: Path) -> None:
    with DataFolder(path, epoch="e") as folder:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert stat.S_IMODE((path / "lock").stat().st_mode) == 0o600
        folder.acquire()
    assert [file.name for file in path.iterdir()] == ["lock"]


def test_the_lock_file_says_whose_it_is(path: Path) -> None:
    with DataFolder(path, epoch="e") as folder:
        folder.announce("http://127.0.0.1:1")
        said = json.loads((path / "lock").read_text())
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", said.pop("started_at"))
        assert said == {"pid": os.getpid(), "epoch": "e", "address": "http://127.0.0.1:1"}
    assert (path / "lock").read_text() == ""


def test_a_second_owner_in_the_same_process_is_refused_too(path: Path) -> None:
    with DataFolder(path), pytest.raises(DataFolderError, match=f"in use by pid {os.getpid()} since "):
        DataFolder(path).acquire()
    with DataFolder(path):
        pass


def test_a_second_process_is_told_who_holds_it(path: Path) -> None:
    with holder(path) as (process, _):
        with pytest.raises(DataFolderError) as caught:
            DataFolder(path).acquire()
        assert re.fullmatch(
            rf"the data folder {re.escape(str(path))} is in use by pid {process.pid} "
            r"\(listening on http://127\.0\.0\.1:7337\) since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
            str(caught.value),
        )
        said = (path / "lock").read_text()
        assert json.loads(said)["pid"] == process.pid, "the refused one wrote nothing"


def test_a_holder_that_was_killed_is_no_obstacle(path: Path) -> None:
    with holder(path) as (process, _):
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert json.loads((path / "lock").read_text())["pid"] == process.pid, "what it wrote is still there"
        with DataFolder(path):
            assert json.loads((path / "lock").read_text())["pid"] == os.getpid()


def test_programs_that_the_holder_started_do_not_hold_it(path: Path) -> None:
    with holder(path, "child") as (process, child):
        try:
            process.send_signal(signal.SIGKILL)
            process.wait()
            os.kill(child, 0)
            with DataFolder(path):
                pass
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_lock_file_that_says_nothing_still_counts(path: Path) -> None:
    with DataFolder(path):
        (path / "lock").write_text("gibberish")
        with pytest.raises(DataFolderError, match="in use by another process"):
            DataFolder(path).acquire()


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataFolderError, match="cannot use the data folder"):
        DataFolder(tmp_path / "file").acquire()
    with pytest.raises(DataFolderError, match="cannot use the data folder"):
        DataFolder(tmp_path / "file" / "below").acquire()

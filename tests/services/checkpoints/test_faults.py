"""Checkpoints when something goes wrong: nothing is half saved, and a workspace is what it was or what it should be.

Every step instead of some: ``STEPS=all pytest tests/services/checkpoints/test_faults.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.hub.checkpoints import CheckpointProblem

from .checker import Entry, check_equal, image, names_in, without_times
from .child import Ending, Task
from .rig import SESSION, Home, Session
from .trees import clear

PROJECT = Path(__file__).parents[3]
ROOT = os.geteuid() == 0
NOBODY = 65534


class Child:
    """Does tasks in a process of its own. Closes with the test."""

    def __init__(self, home: Home) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.services.checkpoints.child", home.work, home.kept],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, **task: Any) -> Ending:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(Task(**task)) + b"\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=Ending)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)


@contextlib.contextmanager
def child_of(home: Home) -> Iterator[Child]:
    child = Child(home)
    try:
        yield child
    finally:
        child.close()


def chosen(steps: int, *, some: int = 12) -> list[int]:
    """Which of that many steps a test tries."""
    if os.environ.get("STEPS") == "all" or steps <= some:
        return list(range(steps))
    return sorted({round(number * (steps - 1) / (some - 1)) for number in range(some)})


def build(work: Path, version: str) -> None:
    """A small workspace of which nearly everything differs between two versions."""
    clear(work)
    second = version == "second"
    (work / "same.txt").write_text("same")
    (work / "changed.txt").write_text(version)
    (work / f"only in the {version}").write_text(version)
    (work / "folder" / "sub").mkdir(parents=True)
    (work / "folder" / "a.txt").write_text(version)
    (work / "folder" / "sub" / "deep.txt").write_text(version * 1000)
    (work / "folder" / version).mkdir()
    (work / "link").symlink_to(version)
    (work / "run.sh").write_text("#!/bin/sh")
    (work / "run.sh").chmod(0o755 if second else 0o644)
    (work / "one").write_text("twins")
    (work / "two").hardlink_to(work / "one")
    if second:
        (work / "flip").write_text("a file")
        (work / "flop" / "deeper").mkdir(parents=True)
        (work / "flop" / "deeper" / "x").write_text("x")
        os.mkfifo(work / "folder" / "pipe")
    else:
        (work / "flip" / "deeper").mkdir(parents=True)
        (work / "flip" / "deeper" / "x").write_text("x")
        (work / "flop").symlink_to("flip")
    (work / "locked").mkdir()
    (work / "locked" / "in.txt").write_text(version)
    (work / "locked").chmod(0o555)
    (work / "folder" / "sub").chmod(0o700 if second else 0o2755)
    work.chmod(0o750 if second else 0o755)


class Scene:
    """A first checkpoint, and a second version of the workspace that a restore would replace by it."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.ids = (f"cp-{number:04}" for number in range(1, 100_000))
        build(self.home.work, "first")
        self.first = self.home.look()

    async def begin(self) -> None:
        async with self.home.store() as store:
            await store.take(SESSION, self.home.work, "cp-0000", first=None)

    def again(self) -> dict[bytes, Entry]:
        """The second version, made anew."""
        build(self.home.work, "second")
        return self.home.look()

    def look_past_leftovers(self) -> dict[bytes, Entry]:
        """The workspace but for a folder of the store's own, which it could not throw away on a disk that fails."""
        own = tuple(os.fsencode(name) for name in names_in(self.home.work) if name.startswith(".dragoman-restore-"))
        return image(self.home.work, without=own)

    def restore(self, **more: Any) -> dict[str, Any]:
        task = {"do": "restore", "session": SESSION, "checkpoint": "cp-0000", "first": "cp-0000"}
        return {**task, "safety": next(self.ids), **more}

    def check_tidy(self) -> None:
        """Nothing is left lying about beside the workspace, and nothing outside was touched."""
        assert names_in(self.home.work.parent) == ["kept", "outside", "work"]
        self.home.check_outside()

    async def check_usable(self) -> None:
        """What was saved is there, and goes on being so."""
        session = Session(self.home, SESSION)
        session.images["cp-0000"] = self.first
        session.first, session.count = "cp-0000", 200_000
        async with self.home.store() as store:
            before = self.again()
            await session.restore(store, "cp-0000")
            await session.restore(store, "cp-200000")
            check_equal(self.home.look(), before)
            await session.take(store)
            await session.check(store)


# Lost servers


async def test_a_server_killed_at_any_step_of_a_restore_leaves_one_state_or_the_other(tmp_path: Path) -> None:
    """Known defect of the original: a failed restore left an emptied workspace."""
    scene = Scene(tmp_path)
    await scene.begin()
    with child_of(scene.home) as child:
        scene.again()
        whole = child.run(**scene.restore())
        assert whole.done, whole
        check_equal(scene.home.look(), scene.first)
        assert whole.steps > 10
        seen = set()
        for step in chosen(whole.steps):
            before = scene.again()
            killed = child.run(**scene.restore(at=step))
            assert killed.done is None or killed.steps <= step, killed
            assert child.run(do="recover").done
            found = scene.home.look()
            seen.add(found == before)
            if found != before:
                check_equal(found, scene.first)
            scene.check_tidy()
        assert seen == {True, False}
    await scene.check_usable()


async def test_a_server_killed_again_while_it_recovers_still_leaves_one_state_or_the_other(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.begin()
    with child_of(scene.home) as child:
        scene.again()
        whole = child.run(**scene.restore()).steps
        for step in chosen(whole, some=6):
            for again in (0, 3, 8):
                before = scene.again()
                child.run(**scene.restore(at=step))
                child.run(do="recover", at=again)
                child.run(do="recover", at=again + 1)
                assert child.run(do="recover").done
                found = scene.home.look()
                if found != before:
                    check_equal(found, scene.first)
                scene.check_tidy()
    await scene.check_usable()


async def test_what_was_written_between_a_crash_and_the_next_server_is_not_lost(tmp_path: Path) -> None:
    """To take a restore back must not take back what came after it."""
    scene = Scene(tmp_path)
    await scene.begin()
    with child_of(scene.home) as child:
        scene.again()
        whole = child.run(**scene.restore()).steps
        for step in chosen(whole):
            scene.again()
            child.run(**scene.restore(at=step))
            for name in ("changed.txt", "fresh.txt", "folder/a.txt", "flip"):
                file = scene.home.work / name
                if file.parent.is_dir() and not file.is_dir():
                    file.write_text(f"since the crash: {name}")
            written = since_the_crash(scene.home.work)
            assert child.run(do="recover").done
            assert since_the_crash(scene.home.work) == written
            scene.check_tidy()
    async with scene.home.store() as store:
        before = scene.again()
        await store.restore(SESSION, scene.home.work, "cp-0000", safety="cp-x", first="cp-0000")
        check_equal(scene.look_past_leftovers(), scene.first)
        await store.restore(SESSION, scene.home.work, "cp-x", safety="cp-y", first="cp-0000")
        check_equal(scene.look_past_leftovers(), before)


async def test_a_workspace_that_was_freed_by_hand_after_a_crash_is_left_alone(tmp_path: Path) -> None:
    """Whoever removed what the restore had put aside, and went on, wants nothing back: no mode and no time."""
    scene = Scene(tmp_path)
    await scene.begin()
    with child_of(scene.home) as child:
        scene.again()
        whole = child.run(**scene.restore()).steps
        for step in chosen(whole, some=8):
            scene.again()
            child.run(**scene.restore(at=step))
            if without_times(scene.look_past_leftovers()) == without_times(scene.first):
                assert child.run(do="recover").done
                continue  # it was done but for what it clears away
            before = scene.again()
            assert child.run(do="recover").done
            check_equal(scene.home.look(), before)
    await scene.check_usable()


def since_the_crash(work: Path) -> set[str]:
    """All that was written then, wherever it lies now."""
    files = [path for path in work.rglob("*") if path.is_file() and not path.is_symlink()]
    return {text for path in files if (text := path.read_text()).startswith("since the crash")}


async def test_a_server_killed_at_any_step_of_a_take_has_saved_all_or_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.begin()
    with child_of(scene.home) as child:
        before = scene.again()
        take = {"do": "take", "session": SESSION, "first": "cp-0000"}
        whole = child.run(**take, checkpoint=next(scene.ids))
        assert whole.done, whole
        for number, step in enumerate(chosen(whole.steps)):
            (scene.home.work / "changed.txt").write_text(f"state {number}")
            before = scene.home.look()
            lost = next(scene.ids)
            killed = child.run(**take, checkpoint=lost, at=step)
            assert killed.done is None or killed.steps <= step, killed
            check_equal(scene.home.look(), before)
            # Nobody was told of it: the next one has its id.
            assert child.run(**take, checkpoint=lost).done
            (scene.home.work / "changed.txt").write_text("later")
            again = child.run(**scene.restore(checkpoint=lost))
            assert again.done, again
            check_equal(scene.home.look(), before)
        scene.check_tidy()
    await scene.check_usable()


# Disks that fail


@pytest.mark.parametrize("fate", ["fails once", "disk full from then on"])
async def test_a_restore_that_fails_at_any_step_leaves_the_workspace_as_it_was(tmp_path: Path, fate: str) -> None:
    scene = Scene(tmp_path)
    await scene.begin()
    failed = 0
    with child_of(scene.home) as child:
        scene.again()
        whole = child.run(**scene.restore())
        for step in chosen(whole.steps):
            before = scene.again()
            ending = child.run(**scene.restore(at=step, fate=fate))
            assert ending.done is not None, ending
            failed += not ending.done
            wanted = scene.first if ending.done else before
            check_equal(scene.look_past_leftovers(), wanted)
            assert child.run(do="recover").done
            check_equal(scene.home.look(), wanted)
            scene.check_tidy()
    assert failed
    await scene.check_usable()


async def test_a_disk_that_breaks_in_a_restore_is_put_right_by_the_next_server(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.begin()
    with child_of(scene.home) as child:
        scene.again()
        whole = child.run(**scene.restore())
        for step in chosen(whole.steps):
            before = scene.again()
            ending = child.run(**scene.restore(at=step, fate="fails from then on"))
            assert ending.done is not None, ending
            assert child.run(do="recover").done
            found = scene.home.look()
            if ending.done or found != before:
                check_equal(found, scene.first)
            scene.check_tidy()
    await scene.check_usable()


@pytest.mark.parametrize("fate", ["fails once", "fails from then on", "disk full from then on"])
async def test_a_take_that_fails_at_any_step_leaves_nothing_to_restore(tmp_path: Path, fate: str) -> None:
    scene = Scene(tmp_path)
    await scene.begin()
    with child_of(scene.home) as child:
        scene.again()
        take = {"do": "take", "session": SESSION, "first": "cp-0000"}
        whole = child.run(**take, checkpoint=next(scene.ids))
        failed = 0
        for number, step in enumerate(chosen(whole.steps)):
            (scene.home.work / "changed.txt").write_text(f"state {number}")
            before = scene.home.look()
            name = next(scene.ids)
            ending = child.run(**take, checkpoint=name, at=step, fate=fate)
            check_equal(scene.home.look(), before)
            (scene.home.work / "changed.txt").write_text("later")
            later = scene.home.look()
            restored = child.run(**scene.restore(checkpoint=name))
            assert ending.done == restored.done, (step, ending, restored)
            check_equal(scene.home.look(), before if ending.done else later)
            failed += not ending.done
        assert failed
        scene.check_tidy()
    await scene.check_usable()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    place = tmp_path / "small disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", str(place)]
    if not ROOT or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


async def test_a_full_disk_under_the_store_fails_the_checkpoint_and_keeps_the_others(
    tmp_path: Path, small_disk: Path
) -> None:
    home = Home(tmp_path, kept=small_disk / "kept", spare=0)
    session = Session(home)
    (home.work / "a").write_bytes(os.urandom(500_000))
    async with home.store() as store:
        await session.take(store)
        for _ in range(3):
            (home.work / "large").write_bytes(os.urandom(6_000_000))
            with pytest.raises(CheckpointProblem):
                await session.take(store)
            with pytest.raises(CheckpointProblem):
                await session.restore(store, "cp-0000")
        (home.work / "large").unlink()
        (home.work / "b").write_bytes(os.urandom(500_000))
        await session.take(store)
        await session.check(store)


async def test_a_full_disk_under_the_workspace_fails_the_restore_and_changes_nothing(
    tmp_path: Path, small_disk: Path
) -> None:
    home = Home(tmp_path, work=small_disk / "work", spare=0)
    session = Session(home)
    (home.work / "large").write_bytes(os.urandom(3_000_000))
    async with home.store() as store:
        await session.take(store)
        (home.work / "large").unlink()
        (home.work / "other").write_bytes(os.urandom(3_000_000))
        with pytest.raises(CheckpointProblem):
            await session.restore(store, "cp-0000")
        assert names_in(small_disk) == ["work"]
        (home.work / "other").unlink()
        await session.restore(store, "cp-0000")


async def test_files_that_cannot_grow_fail_the_checkpoint(tmp_path: Path) -> None:
    """The same without a right to mount anything."""
    scene = Scene(tmp_path)
    await scene.begin()
    (scene.home.work / "large").write_bytes(os.urandom(3_000_000))
    before = scene.home.look()
    with child_of(scene.home) as child:
        ending = child.run(do="take", session=SESSION, checkpoint="cp-0001", first="cp-0000", file_size=100_000)
        assert (ending.done, bool(ending.problem)) == (False, True)
        assert not child.run(**scene.restore(checkpoint="cp-0001")).done
    check_equal(scene.home.look(), before)
    await scene.check_usable()


# Files that are not ours


@pytest.fixture
def open_home() -> Iterator[Home]:
    """A home in reach of whoever the test becomes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        home = Home(folder)
        if ROOT:
            os.chown(home.work, NOBODY, NOBODY)
        yield home
        subprocess.run(["chmod", "-R", "u+rwX", str(home.work)], check=True)


def own(path: Path) -> None:
    if ROOT:
        os.lchown(path, NOBODY, NOBODY)


UNREADABLE = ["file", "folder", "blind folder", "deep file"]


@pytest.mark.parametrize("what", UNREADABLE)
async def test_what_cannot_be_read_fails_the_checkpoint_by_name(open_home: Home, what: str) -> None:
    home = open_home
    (home.work / "a.txt").write_text("mine")
    secret = home.work / "secret"
    if what == "file":
        secret.write_text("s3cret")
        closed, mode = secret, 0o200
    else:
        (secret / "sub").mkdir(parents=True)
        (secret / "sub" / "file").write_text("s3cret")
        closed, mode = {
            "folder": (secret, 0o300),
            "blind folder": (secret, 0o400),
            "deep file": (secret / "sub" / "file", 0o000),
        }[what]
    for path in [home.work / "a.txt", secret, *secret.rglob("*")]:
        own(path)
    closed.chmod(mode)
    uid = NOBODY if ROOT else None
    with child_of(home) as child:
        first = child.run(do="take", session=SESSION, checkpoint="cp-0000", uid=uid)
        assert first.done is False
        assert "secret" in (first.problem or "")
        assert "s3cret" not in (first.problem or "")
        refused = {"do": "restore", "checkpoint": "cp-0000", "safety": "cp-0001", "first": "cp-0000"}
        assert child.run(**refused, session=SESSION, uid=uid).done is False
        closed.chmod(0o700)
        again = child.run(do="take", session=SESSION, checkpoint="cp-0001", uid=uid)
        assert again.done, again


async def test_a_folder_of_somebody_else_in_the_way_changes_nothing(open_home: Home) -> None:
    """Restoring would have to change what may not be changed: it fails as a whole."""
    if not ROOT:
        pytest.skip("only root can make what is not ours")
    home = open_home
    for name in ("a.txt", "theirs/x.txt"):
        (home.work / name).parent.mkdir(exist_ok=True)
        (home.work / name).write_text("first")
        own(home.work / name)
    own(home.work / "theirs")
    with child_of(home) as child:
        task = {"session": SESSION, "uid": NOBODY}
        assert child.run(do="take", checkpoint="cp-0000", **task).done
        (home.work / "a.txt").write_text("second")
        (home.work / "theirs" / "x.txt").unlink()
        (home.work / "theirs" / "y.txt").write_text("second")
        os.chown(home.work / "theirs", 0, 0)
        before = home.look()
        ending = child.run(do="restore", checkpoint="cp-0000", safety="cp-0001", first="cp-0000", **task)
        if ending.done:
            assert without_times(home.look()).keys() == {b".", b"a.txt", b"theirs", b"theirs/x.txt"}
        else:
            check_equal(home.look(), before)
        assert names_in(home.work.parent) == ["kept", "outside", "work"]


async def test_read_only_folders_and_files_come_back_as_they_were(open_home: Home) -> None:
    home = open_home
    locked = home.work / "locked" / "deeper"
    locked.mkdir(parents=True)
    (locked / "x").write_text("first")
    for path in home.work.rglob("*"):
        own(path)
    (locked / "x").chmod(0o400)
    locked.chmod(0o500)
    locked.parent.chmod(0o500)
    first = home.look()
    task = {"session": SESSION, "uid": NOBODY if ROOT else None, "first": "cp-0000"}
    with child_of(home) as child:
        assert child.run(do="take", checkpoint="cp-0000", session=SESSION, uid=task["uid"]).done
        locked.parent.chmod(0o700)
        locked.chmod(0o700)
        (locked / "x").unlink()
        (locked / "y").write_text("second")
        own(locked / "y")
        locked.chmod(0o500)
        locked.parent.chmod(0o500)
        second = home.look()
        for checkpoint, wanted in (("cp-0000", first), ("cp-0001", second), ("cp-0000", first)):
            safety = {"cp-0000": "cp-0001", "cp-0001": "cp-0002"}[checkpoint]
            ending = child.run(do="restore", checkpoint=checkpoint, safety=safety, **task)
            assert ending.done, ending
            check_equal(home.look(), wanted)


# Files that change meanwhile


class Writer(threading.Thread):
    """Writes one number after the other into all files, in order: whoever sees a moment of it can tell that it was one.

    In place, with the length and the time of before, so that only looking helps.
    """

    def __init__(self, work: Path, count: int) -> None:
        super().__init__()
        self._files = [work / f"{number:02}" for number in range(count)]
        self._enough = threading.Event()
        self._number = 0
        self._write()

    def run(self) -> None:
        while not self._enough.is_set():
            self._write()
            if self._number % 5 == 0:
                self._enough.wait(0.03)

    def stop(self) -> None:
        self._enough.set()
        self.join()

    def _write(self) -> None:
        self._number += 1
        for path in self._files:
            path.touch()
            with path.open("r+b", buffering=0) as file:
                file.write(b"%08d" % self._number)
            os.utime(path, ns=(0, 1_000_000_000))


def is_a_moment(numbers: list[int]) -> bool:
    """Whether the files stood like that once: those that were written already are one ahead."""
    return numbers == sorted(numbers, reverse=True) and numbers[0] - numbers[-1] <= 1


async def test_a_workspace_that_changes_meanwhile_is_saved_as_it_was_at_some_moment_or_not_at_all(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    writer = Writer(home.work, 12)
    saved, failed = [], 0
    async with home.store() as store:
        await store.take(SESSION, home.work, "cp-0000", first=None)
        writer.start()
        try:
            for number in range(1, 40):
                name = f"cp-{number:04}"
                try:
                    await store.take(SESSION, home.work, name, first="cp-0000")
                except CheckpointProblem:
                    failed += 1
                else:
                    saved.append(name)
        finally:
            writer.stop()
        assert saved
        for number, name in enumerate(saved):
            await store.restore(SESSION, home.work, name, safety=f"cp-{100 + number:04}", first="cp-0000")
            numbers = [int(path.read_bytes()) for path in sorted(home.work.iterdir())]
            assert is_a_moment(numbers), f"{name}: {numbers}"


class Mover(threading.Thread):
    """Moves one file from folder to folder, and the folders about: at any moment there is exactly one of it."""

    def __init__(self, work: Path) -> None:
        super().__init__()
        self._work = work
        self._enough = threading.Event()
        self._at = 0
        for number in range(6):
            (work / f"{number}").mkdir()
        (work / "0" / "only").write_text("one")

    def run(self) -> None:
        while not self._enough.wait(0.0005 if self._at % 7 else 0.03):
            to = (self._at * 5 + 1) % 6
            here = next(self._work.glob("*/only"))
            if here.parent.name != f"{to}":
                here.rename(self._work / f"{to}" / "only")
            self._at += 1
            if self._at % 3 == 0:
                (self._work / f"{to}").rename(self._work / "away")
                (self._work / "away").rename(self._work / f"{to}")

    def stop(self) -> None:
        self._enough.set()
        self.join()


async def test_a_file_that_is_moved_about_meanwhile_is_saved_exactly_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    mover = Mover(home.work)
    saved = []
    async with home.store() as store:
        await store.take(SESSION, home.work, "cp-0000", first=None)
        mover.start()
        try:
            for number in range(1, 40):
                with contextlib.suppress(CheckpointProblem):
                    await store.take(SESSION, home.work, f"cp-{number:04}", first="cp-0000")
                    saved.append(f"cp-{number:04}")
        finally:
            mover.stop()
        assert saved
        for number, name in enumerate(saved):
            await store.restore(SESSION, home.work, name, safety=f"cp-{100 + number:04}", first="cp-0000")
            assert [path.read_text() for path in home.work.glob("*/only")] == ["one"], name


async def test_a_file_that_is_written_to_the_very_moment_after_it_was_saved_is_seen_the_next_time(
    tmp_path: Path,
) -> None:
    """Same length, same time, and the clock of the file system may not have moved: only the content tells."""
    home = Home(tmp_path)
    session = Session(home)
    file = home.work / "a"
    async with home.store() as store:
        for number in range(30):
            with file.open("wb") as out:
                out.write(b"%08d" % number)
            os.utime(file, ns=(0, 1_000_000_000))
            await session.take(store)
        for checkpoint in list(session.images)[:30]:
            await session.restore(store, checkpoint)


async def test_a_folder_that_is_never_still_fails_in_good_time(tmp_path: Path) -> None:
    home = Home(tmp_path)
    stop = threading.Event()

    def write() -> None:
        with (home.work / "log").open("ab", buffering=0) as file:
            while not stop.wait(0.0001):
                file.write(b"line\n" * 100)

    (home.work / "log").touch()
    writer = threading.Thread(target=write)
    writer.start()
    try:
        async with home.store() as store:
            async with asyncio.timeout(20):
                with contextlib.suppress(CheckpointProblem):
                    await store.take(SESSION, home.work, "cp-0000", first=None)
    finally:
        stop.set()
        writer.join()
    assert image(home.work).keys() == {b".", b"log"}


# Callers that go away


async def test_a_call_that_is_cancelled_leaves_things_as_they_were_before(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.begin()
    async with scene.home.store() as store:
        for number in range(30):
            before = scene.again()
            safety = f"cp-9{number:03}"
            task = asyncio.create_task(
                store.restore(SESSION, scene.home.work, "cp-0000", safety=safety, first="cp-0000")
            )
            await asyncio.wait([task], timeout=number * 0.002)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                check_equal(scene.home.look(), scene.first)
                continue
            check_equal(scene.home.look(), before)
            with pytest.raises(CheckpointProblem):
                await store.restore(SESSION, scene.home.work, safety, safety="cp-x", first="cp-0000")
            scene.check_tidy()
        for number in range(20):
            before = scene.again()
            name = f"cp-8{number:03}"
            task = asyncio.create_task(store.take(SESSION, scene.home.work, name, first="cp-0000"))
            await asyncio.wait([task], timeout=number * 0.002)
            task.cancel()
            await asyncio.wait([task])
            check_equal(scene.home.look(), before)
            if task.cancelled():
                with pytest.raises(CheckpointProblem):
                    await store.restore(SESSION, scene.home.work, name, safety="cp-x", first="cp-0000")
    await scene.check_usable()

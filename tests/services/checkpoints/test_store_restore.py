"""Restores that are cut off, hindered or damaged: all of it, or nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.checkpoints import CheckpointProblem
from dragoman.services.checkpoints import CheckpointStore, staging, swap

from .store_rig import Desk, Shape, names, quick, shape, stored, unfinished


def furnish(work: Path) -> None:
    """What a checkpoint is taken of."""
    (work / "a").mkdir()
    (work / "a" / "kept").write_text("kept")
    (work / "a" / "file").write_text("old")
    (work / "gone" / "deep").mkdir(parents=True)
    (work / "gone" / "deep" / "file").write_text("gone")
    (work / "flips").write_text("a file")
    (work / "link").symlink_to("a")
    (work / "one").write_text("one")
    os.link(work / "one", work / "two")
    (work / "gone" / "deep").chmod(0o500)


def change(work: Path) -> None:
    """What happens to it after."""
    (work / "a" / "file").write_text("new")
    (work / "a").chmod(0o750)
    shutil.rmtree(work / "gone")
    (work / "flips").unlink()
    (work / "flips").mkdir()
    (work / "flips" / "in").mkdir()
    (work / "flips" / "in" / "it").write_text("it")
    (work / "flips" / "in").chmod(0o500)
    (work / "link").unlink()
    (work / "link").write_text("was a link")
    (work / "two").unlink()
    (work / "fresh").mkdir()


async def prepared(desk: Desk) -> tuple[str, Shape, Shape]:
    """A checkpoint, what it holds, and what there is now."""
    furnish(desk.work)
    before = shape(desk.work)
    first, _ = await desk.take()
    change(desk.work)
    return first, before, shape(desk.work)


class Tripwire:
    """Raises at the nth call of something; of what ``os`` has, calls by plain paths do not count."""

    def __init__(self, call: Callable[..., Any], at: int, error: BaseException) -> None:
        self.call, self.left, self.error = call, at, error
        self.plain_counts = call.__module__ != os.mkdir.__module__ or call is os.pwrite

    def __call__(self, *args: Any, **more: Any) -> Any:
        counts = self.plain_counts or any(it.endswith("dir_fd") for it in more)
        self.left -= counts
        if counts and self.left == 0:
            raise self.error
        return self.call(*args, **more)


NOBODY = 65534

FULL = OSError(errno.ENOSPC, "No space left on device")
DENIED = PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize("where", ["mkdir", "rename", "link", "symlink", "pwrite", "write_file", "settle", "clear"])
async def test_a_restore_that_fails_anywhere_changes_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Defect 19 of the original: a restore that failed left an emptied workspace."""
    first, before, now = await prepared(desk)
    failed = 0
    for number in range(1, 40):
        record = (desk.folder / "s1" / "metadata.json").read_text()
        owner = os if hasattr(os, where) else staging if where == "settle" else swap
        with monkeypatch.context() as patch:
            wire = Tripwire(getattr(owner, where), number, FULL if number % 2 else DENIED)
            patch.setattr(owner, where, wire)
            if where == "settle":
                patch.setattr(swap, where, wire)
            try:
                await desk.restore(first)
            except CheckpointProblem:
                failed += 1
            else:
                break  # it takes no more calls, or what failed was clearing up
        assert shape(desk.work) == now
        assert (desk.folder / "s1" / "metadata.json").read_text() == record
        assert unfinished(desk.folder) == []
    else:
        pytest.fail("it never came through")
    if where != "clear":
        assert failed > 0
    await desk.again()
    await desk.store.recover()
    assert shape(desk.work) == before
    assert unfinished(desk.folder) == []


@pytest.mark.parametrize("undo", [False, True])
async def test_a_restore_that_is_cut_off_at_any_step_is_taken_back_by_the_next_server(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, undo: bool
) -> None:
    """As by a kill: nothing is undone by the process itself; with ``undo`` the undoing is cut off once as well."""
    first, before, now = await prepared(desk)
    said: list[str] = []
    for number in range(1, 40):
        with monkeypatch.context() as patch:
            wire = Tripwire(os.rename, number, DENIED)
            patch.setattr(os, "rename", wire)
            patch.setattr(swap.Swap, "undo", _dead)
            try:
                await desk.restore(first)
            except CheckpointProblem as problem:
                said.append(str(problem))
        if wire.left > 0:
            break
        if undo:
            with monkeypatch.context() as patch:
                patch.setattr(os, "rename", Tripwire(os.rename, 2, DENIED))
                await desk.again()
                await desk.store.recover()
        await desk.again()
        await desk.store.recover()
        assert shape(desk.work) == now
        assert unfinished(desk.folder) == []
        with pytest.raises(CheckpointProblem, match="nothing is kept"):
            await desk.restore(f"cp-{desk.count - 1:04}")
    else:
        pytest.fail("it never came through")
    assert len(said) > 10
    assert all("was not taken back: killed" in it for it in said)
    assert shape(desk.work) == before


def _dead(self: swap.Swap) -> None:
    raise CheckpointProblem("killed")


CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from dragoman.services.checkpoints import CheckpointSettings, CheckpointStore

call, number, store, work = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
real = getattr(os, call)

def deadly(*args, **more):
    global number
    number -= 1
    if number == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **more)

async def main():
    keeper = CheckpointStore(CheckpointSettings(sync=False), store)
    await keeper.recover()
    await keeper.sweep()
    setattr(os, call, deadly)
    await keeper.restore("s1", work, "cp-0000", safety="cp-0001", first="cp-0000")

asyncio.run(main())
"""


@pytest.mark.parametrize(("call", "number"), [("rename", 1), ("rename", 4), ("rename", 9), ("unlink", 2), ("rmdir", 1)])
async def test_a_killed_server_s_restore_is_ended_by_the_next(desk: Desk, call: str, number: int) -> None:
    first, before, now = await prepared(desk)
    await desk.store.close()
    arguments = [sys.executable, "-c", CHILD, call, str(number), str(desk.folder), str(desk.work)]
    child = await asyncio.create_subprocess_exec(*arguments, env={"PYTHONPATH": os.pathsep.join(sys.path)})
    assert await child.wait() == -signal.SIGKILL
    assert shape(desk.work) not in (before, now)
    desk.store = CheckpointStore(quick(), desk.folder)
    await desk.store.recover()
    assert shape(desk.work) == (now if call == "rename" else before)
    assert unfinished(desk.folder) == []
    await desk.restore(first)
    assert shape(desk.work) == before


@pytest.mark.parametrize("at", range(1, 8))
async def test_taking_back_makes_nothing_for_which_a_full_disk_had_no_room(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    first, _, now = await prepared(desk)
    wire, real = Tripwire(os.rename, at, FULL), os.open

    def full(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if flags & os.O_CREAT and wire.left <= 0:
            raise FULL
        return real(path, flags, *args, **more)

    monkeypatch.setattr(os, "rename", wire)
    monkeypatch.setattr(os, "open", full)
    with pytest.raises(CheckpointProblem, match="No space left"):
        await desk.restore(first)
    monkeypatch.undo()
    assert shape(desk.work) == now
    assert unfinished(desk.folder) == []


async def test_a_workspace_that_is_halfway_is_put_right_before_anything_else(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk.folder.parent / "other").mkdir()
    first, before, now = await prepared(desk)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", Tripwire(os.rename, 5, FULL))
        patch.setattr(swap.Swap, "undo", _dead)
        with pytest.raises(CheckpointProblem, match="was not taken back"):
            await desk.restore(first)
        with pytest.raises(CheckpointProblem, match="was not taken back"):
            await desk.take()
        await desk.store.take("s2", desk.folder.parent / "other", "cp-0000", first=None)
    assert shape(desk.work) not in (before, now)
    await desk.take()
    assert shape(desk.work) == now


async def test_a_workspace_that_is_halfway_and_away_is_put_right_when_it_is_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, now = await prepared(desk)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", Tripwire(os.rename, 5, FULL))
        patch.setattr(swap.Swap, "undo", _dead)
        with pytest.raises(CheckpointProblem, match="was not taken back"):
            await desk.restore(first)
    away = desk.work.with_name("away")
    desk.work.rename(away)
    await desk.again()
    await desk.store.recover()
    away.rename(desk.work)
    await desk.take()
    assert shape(desk.work) == now
    assert unfinished(desk.folder) == []


@pytest.mark.parametrize("way", ["replaces", "writes into"])
async def test_what_somebody_saved_after_a_crash_is_not_thrown_away(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    first, before, _ = await prepared(desk)
    with monkeypatch.context() as patch:
        patch.setattr(swap.Swap, "mark_done", _dead)
        patch.setattr(swap.Swap, "undo", _dead)
        with pytest.raises(CheckpointProblem, match="was not taken back"):
            await desk.restore(first)
    saved = desk.work / ("saved" if way == "replaces" else "flips")
    saved.write_text("an editor's way to save")
    saved.rename(desk.work / "flips")
    await desk.again()
    with pytest.raises(CheckpointProblem, match=r"goes on once that folder is removed"):
        await desk.take()
    assert (desk.work / "flips").read_text() == "an editor's way to save"
    assert (desk.work / "a" / "file").read_text() == "new"  # the rest is as it was before the restore
    (left,) = desk.work.glob(".dragoman-restore-*")
    shutil.rmtree(left)
    (desk.work / "a").chmod(0o711)
    since = shape(desk.work)
    await desk.take()
    assert shape(desk.work) == since  # what somebody did meanwhile stays
    assert unfinished(desk.folder) == []
    await desk.restore(first)
    assert shape(desk.work) == before


async def test_a_restore_that_is_done_does_not_fail_any_more(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, before, _ = await prepared(desk)
    with monkeypatch.context() as patch:
        patch.setattr(swap.Swap, "finish", _dead)
        await desk.restore(first)
    assert "is left over: killed" in caplog.text
    await desk.take()
    assert shape(desk.work) == before
    assert unfinished(desk.folder) == []


async def test_a_checkpoint_that_is_damaged_is_not_restored(desk: Desk) -> None:
    furnish(desk.work)
    before = shape(desk.work)
    first, _ = await desk.take()
    objects = stored(desk.folder)
    shutil.rmtree(desk.work)
    desk.work.mkdir()
    now = shape(desk.work)
    for name in objects:
        path = desk.folder / ".store" / "objects" / name[:2] / name[2:]
        whole = path.read_bytes()
        for damaged in (whole[:-1], b"\x07" + whole, None):
            path.unlink()
            if damaged is not None:
                path.write_bytes(damaged)
            with pytest.raises(CheckpointProblem, match=r"damaged|missing"):
                await desk.restore(first)
            assert shape(desk.work) == now
            path.write_bytes(whole)
    await desk.restore(first)
    assert shape(desk.work) == before


async def test_a_link_in_the_way_is_replaced_and_never_followed(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("canary")
    canary = shape(outside)
    (desk.work / "d").mkdir()
    (desk.work / "d" / "file").write_text("inside")
    before = shape(desk.work)
    first, _ = await desk.take()
    shutil.rmtree(desk.work / "d")
    (desk.work / "d").symlink_to(outside)
    await desk.restore(first)
    assert shape(desk.work) == before
    assert shape(outside) == canary


async def test_a_link_that_is_swapped_in_meanwhile_is_not_followed(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("canary")
    canary = shape(outside)
    (desk.work / "d").mkdir()
    (desk.work / "d" / "file").write_text("old")
    first, _ = await desk.take()
    (desk.work / "d" / "file").write_text("new")
    perform = swap.Swap.perform

    def swapped(self: swap.Swap, *args: Any) -> None:
        (desk.work / "d").rename(desk.work / "elsewhere")
        (desk.work / "d").symlink_to(outside)
        perform(self, *args)

    monkeypatch.setattr(swap.Swap, "perform", swapped)
    with pytest.raises(CheckpointProblem):
        await desk.restore(first)
    assert shape(outside) == canary
    assert (desk.work / "elsewhere" / "file").read_text() == "new"


@pytest.mark.parametrize("way", ["replaces", "writes into"])
async def test_what_has_changed_in_the_last_moment_is_not_thrown_away(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    (desk.work / "a").write_text("a")
    (desk.work / "b").write_text("b")
    first, _ = await desk.take()
    (desk.work / "a").write_text("changed")
    (desk.work / "b").write_text("changed")
    perform = swap.Swap.perform

    def edited(self: swap.Swap, *args: Any) -> None:
        saved = desk.work / ("new" if way == "replaces" else "b")
        saved.write_text("an editor's way to save")
        saved.rename(desk.work / "b")
        perform(self, *args)

    monkeypatch.setattr(swap.Swap, "perform", edited)
    with pytest.raises(CheckpointProblem, match="b changed while it was to be restored"):
        await desk.restore(first)
    assert [(desk.work / it).read_text() for it in "ab"] == ["changed", "an editor's way to save"]
    assert names(desk.work) == ["a", "b"]


async def test_hard_links_to_files_outside_keep_what_those_have(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("outside")
    os.link(outside, desk.work / "inside")
    first, _ = await desk.take()
    outside.write_text("changed outside")
    outside.chmod(0o600)
    await desk.restore(first)
    assert (desk.work / "inside").read_text() == "outside"
    assert outside.read_text() == "changed outside"
    assert outside.stat().st_mode & 0o777 == 0o600


async def test_what_was_hard_linked_since_is_apart_again(desk: Desk) -> None:
    (desk.work / "a").write_text("same")
    (desk.work / "b").write_text("same")
    os.utime(desk.work / "a", ns=(1, 1))
    os.utime(desk.work / "b", ns=(1, 1))
    before = shape(desk.work)
    first, _ = await desk.take()
    (desk.work / "b").unlink()
    os.link(desk.work / "a", desk.work / "b")
    await desk.restore(first)
    assert shape(desk.work) == before
    assert (desk.work / "a").stat().st_ino != (desk.work / "b").stat().st_ino


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_somebody_who_is_not_root_restores_folders_that_are_read_only() -> None:
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, NOBODY, NOBODY)
        code = f"from {__name__} import as_nobody; as_nobody({home!r})"
        environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)


def as_nobody(home: str) -> None:
    """In a process of its own, all of whose modules are there already."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    asyncio.run(_read_only(Path(home)))


async def _read_only(home: Path) -> None:
    desk = Desk(home)
    furnish(desk.work)
    (desk.work / "a").chmod(0o500)
    desk.work.chmod(0o500)
    before = shape(desk.work)
    first, _ = await desk.take()
    desk.work.chmod(0o700)
    (desk.work / "a").chmod(0o700)
    (desk.work / "gone" / "deep").chmod(0o700)
    change(desk.work)
    (desk.work / "a").chmod(0o500)
    desk.work.chmod(0o500)
    now = shape(desk.work)
    safety, _ = await desk.restore(first)
    assert shape(desk.work) == before
    await desk.restore(safety)
    assert shape(desk.work) == now
    swap.Swap.mark_done = _dead  # type: ignore[method-assign]
    with pytest.raises(CheckpointProblem, match="killed"):
        await desk.restore(first)
    assert shape(desk.work) == now
    await desk.store.close()

"""Disks that are full: the store's, and the workspace's. Needs leave to mount one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.hub.checkpoints import CheckpointProblem
from dragoman.services.checkpoints import CheckpointStore

from .store_rig import Desk, quick, shape, stored, unfinished

FULL = r"No space left|as good as full"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of one MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    yield disk
    subprocess.run(["umount", disk], check=True)


async def test_a_store_on_a_full_disk_keeps_what_it_has(tmp_path: Path, small: Path) -> None:
    desk = Desk(tmp_path, quick(spare=0, sync=True))
    desk.folder = small / "store"
    desk.store = CheckpointStore(desk.settings, desk.folder)
    (desk.work / "small").write_bytes(os.urandom(100_000))
    before = shape(desk.work)
    first, _ = await desk.take()
    objects = stored(desk.folder)
    (desk.work / "large").write_bytes(os.urandom(2_000_000))
    now = shape(desk.work)
    with pytest.raises(CheckpointProblem, match=FULL):
        await desk.take()
    with pytest.raises(CheckpointProblem, match=FULL):  # for want of a safety checkpoint
        await desk.restore(first)
    assert shape(desk.work) == now
    assert stored(desk.folder) == objects
    assert unfinished(desk.folder) == []
    (desk.work / "large").unlink()
    await desk.restore(first)
    assert shape(desk.work) == before
    await desk.store.close()


async def test_a_workspace_without_room_for_what_was_stays_what_it_is(tmp_path: Path, small: Path) -> None:
    desk = Desk(tmp_path, quick(sync=True))
    desk.work = small / "work"
    desk.work.mkdir()
    (desk.work / "a").write_bytes(os.urandom(500_000))
    before = shape(desk.work)
    first, _ = await desk.take()
    (desk.work / "a").unlink()
    (desk.work / "b").write_bytes(os.urandom(900_000))
    now = shape(desk.work)
    with pytest.raises(CheckpointProblem, match="No space left"):
        await desk.restore(first)
    assert shape(desk.work) == now
    assert unfinished(desk.folder) == []
    os.truncate(desk.work / "b", 0)
    await desk.restore(first)
    assert shape(desk.work) == before
    await desk.store.close()


async def test_another_disk_within_the_workspace_cannot_be_saved(tmp_path: Path, small: Path) -> None:
    desk = Desk(tmp_path)
    desk.work = tmp_path
    with pytest.raises(CheckpointProblem, match="disk is another filesystem"):
        await desk.take()
    await desk.store.close()

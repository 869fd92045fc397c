"""Disks that take no more: it is said, and nothing is left behind."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.services.uploads import UploadFailed

from .rig import PNG, Rig, a_file, coded


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[Rig]:
    """Its session works on a disk of one MiB. Needs leave to mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    rig = Rig(tmp_path, disk)
    await rig.begin()
    yield rig
    await rig.end()
    subprocess.run(["umount", disk], check=True)


async def test_a_full_disk_takes_nothing(small: Rig) -> None:
    free = os.statvfs(small.cwd).f_bavail
    with pytest.raises(UploadFailed, match=r"^Files cannot be kept: No space left on device$"):
        await small.receive(files=[a_file("a", bytes(300_000)), a_file("b", bytes(900_000))], images=[coded(PNG)])
    assert (small.uploads(), small.pictures()) == ({}, [])
    assert os.statvfs(small.cwd).f_bavail >= free - 8  # two folders are there now
    await small.receive(files=[a_file("a", bytes(300_000))])
    assert len(small.uploads()) == 1


async def test_a_file_that_may_not_grow_takes_nothing(rig: Rig) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(UploadFailed, match=r"^Files cannot be kept: File too large$"):
            await rig.receive(files=[a_file("a"), a_file("b", bytes(60_000))])
        with pytest.raises(UploadFailed, match=r"^Image 2: it cannot be kept: File too large$"):
            await rig.receive(files=[a_file("a")], images=[coded(PNG), coded(PNG + bytes(60_000))])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (rig.uploads(), rig.pictures()) == ({}, [])

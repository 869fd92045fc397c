"""The end of a server takes as long as its settings say, whatever hangs in it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from .process import Served, eventually

BUDGET = 2.5
"""``server.stop_budget`` by default."""

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")


class OnAHungDisk(Served):
    program = ("tests.faults.hung_disk",)


async def test_a_disk_of_checkpoints_that_hangs_holds_up_no_end_of_the_server(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    for folder in (work, home):
        folder.mkdir()
    (work / "file").write_text("content")
    path = os.pathsep.join(place for place in sys.path if place)
    served = OnAHungDisk(tmp_path / "served", env={"HOME": str(home), "PYTHONPATH": path})
    await served.start()
    try:
        asked = {"kind": "scripted", "cwd": str(work), "settings": {"checkpoints": True}}
        await served.asked("POST", "/sessions", asked)
        written = home / ".cowork/session-backups/.store/generation.new"
        await eventually(written.exists, "something is being written")
        began = asyncio.get_running_loop().time()
        assert await asyncio.to_thread(served.stop) == 0
        assert asyncio.get_running_loop().time() - began < BUDGET + 0.5
        assert "without waiting for its threads: checkpoints" in served.log.read_text().splitlines()[-1]
    finally:
        if served.process is not None:
            served.kill()

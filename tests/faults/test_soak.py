"""What a thousand sessions leave behind, and what idle ones cost."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from .process import Served, eventually

MIB = 1024 * 1024


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def make(served: Served, *command: str, keep: bool) -> str:
    """A terminal session whose program has ended; deleted again unless it is to be kept."""
    asked = {"kind": "terminal", "cwd": str(served.folder), "options": {"command": list(command)}}
    session: str = (await served.asked("POST", "/sessions", asked))["session"]
    async with asyncio.timeout(30):
        while (await served.asked("GET", f"/sessions/{session}"))["status"] != "exited":
            await asyncio.sleep(0.002)
    if not keep:
        await served.asked("DELETE", f"/sessions/{session}")
    return session


async def many(served: Served, count: int, *command: str, keep: bool = False) -> list[str]:
    """``count`` of them, eight at a time."""
    gate = asyncio.Semaphore(8)

    async def one() -> str:
        async with gate:
            return await make(served, *command, keep=keep)

    return await asyncio.gather(*(one() for _ in range(count)))


@pytest.mark.slow
async def test_a_thousand_sessions_come_and_go_without_a_trace(served: Served) -> None:
    await served.start()
    await many(served, 100, "sh", "-c", "echo warm")
    fds, memory = descriptors(served.pid), resident(served.pid)
    await many(served, 1000, "sh", "-c", "echo hello; sleep 100 & exit 3")
    await eventually(lambda: children(served.pid) == [], "no child is left")
    await eventually(lambda: descriptors(served.pid) <= fds, f"descriptors as before: {fds}")
    assert resident(served.pid) - memory < 10 * MIB
    assert (await served.asked("GET", "/sessions"))["sessions"] == []
    assert not list((served.folder / "data" / "terminals").iterdir())


@pytest.mark.slow
async def test_a_thousand_exited_sessions_lie_on_disk_not_in_memory(served: Served) -> None:
    fill = "head -c 300000 /dev/zero | tr '\\0' x"
    await served.start()
    await many(served, 50, "sh", "-c", fill, keep=True)
    memory = resident(served.pid)
    sessions = await many(served, 1000, "sh", "-c", fill, keep=True)
    # 300 MB of tapes were written; the rows of a thousand sessions and what is loaded for a moment stay
    await eventually(lambda: resident(served.pid) - memory < 40 * MIB, "memory is bounded")
    status, tape = await asyncio.to_thread(served.ask, "GET", f"/sessions/{sessions[0]}/screen")
    assert status == 200
    assert "x" in "".join(tape["lines"])
    assert served.stop() == 0


@pytest.mark.slow
async def test_fifty_idle_sessions_cost_almost_nothing(served: Served) -> None:
    await served.start()
    for _ in range(50):
        asked = {"kind": "terminal", "cwd": str(served.folder), "options": {"command": ["cat"]}}
        await served.asked("POST", "/sessions", asked)
    await asyncio.sleep(2)  # let what was just made settle: this measures rest
    used, began = cpu_seconds(served.pid), time.monotonic()
    await asyncio.sleep(30)
    share = (cpu_seconds(served.pid) - used) / (time.monotonic() - began)
    assert share < 0.005

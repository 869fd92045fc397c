"""A cancelled command is gone, with everything that it started, before the cancellation propagates (invariant 9)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest

from dragoman.agents.common.ending import KillSchedule
from dragoman.agents.common.processes import MARKER, ProcessTable
from dragoman.agents.native.settings import ToolLimits
from dragoman.agents.native.tools.command import end_lost_commands
from tests.agents.pty_rig import open_fds, until

from .bash_context import QUICK, BashContext, bash, nap, output, running

BOTH_LOOPS = True


async def test_one_that_listens_ends_at_the_interrupt(tmp_path: Path) -> None:
    mark = nap()
    run = asyncio.ensure_future(
        bash(BashContext(tmp_path, command_ending=KillSchedule(terminate=60, kill=90, give_up=99)), f"sleep {mark}")
    )
    await until(lambda: running(mark))
    run.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await run
    assert running(mark) == []


async def test_a_second_cancellation_does_not_break_the_ending_off(tmp_path: Path) -> None:
    mark = nap()
    command = f"trap '' HUP INT TERM; setsid sleep {mark} & sleep {mark}; :"
    run = asyncio.ensure_future(bash(BashContext(tmp_path), command))
    await until(lambda: len(running(mark)) == 3)
    run.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
        run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert running(mark) == []


async def test_cancelling_one_command_leaves_its_siblings_alone(tmp_path: Path) -> None:
    mark, other = nap(), nap()
    context = BashContext(tmp_path)
    sibling = asyncio.ensure_future(bash(context, f"until [ -e go ]; do sleep 0.01; done; echo {other}"))
    run = asyncio.ensure_future(bash(context, f"setsid sleep {mark} & wait"))
    await until(lambda: len(running(mark)) == 2 and running(other))
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert running(other)
    (tmp_path / "go").touch()
    assert output(await sibling) == (f"{other}\n", "", 0)


async def test_a_cancellation_while_leftovers_are_ended_waits_for_that(tmp_path: Path) -> None:
    mark = nap()
    command = f"trap '' HUP INT TERM; setsid sleep {mark} & until [ -e go ]; do sleep 0.01; done"
    run = asyncio.ensure_future(bash(BashContext(tmp_path, command_drain=0.01), command))
    await until(lambda: len(running(mark)) == 2)
    (tmp_path / "go").touch()
    await until(lambda: len(running(mark)) == 1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert running(mark) == []


async def test_a_cancellation_while_the_person_is_asked_starts_nothing(tmp_path: Path) -> None:
    class Thinking(BashContext):
        async def permit_command(self, command: str, verdict: object) -> None:
            self.asked.append((command, verdict))  # type: ignore[arg-type]
            await asyncio.Event().wait()

    context = Thinking(tmp_path)
    run = asyncio.ensure_future(bash(context, "touch ran"))
    await until(lambda: context.asked)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert list(tmp_path.iterdir()) == []


async def test_a_view_that_fails_ends_the_command(tmp_path: Path) -> None:
    class Failing(BashContext):
        async def progress(self, output: object) -> None:
            raise ConnectionError("nobody there")

    mark = nap()
    with pytest.raises(ConnectionError, match="nobody there"):
        await bash(Failing(tmp_path, command_progress=0.01), f"echo hello; sleep {mark}")
    assert running(mark) == []


async def test_many_end_together(tmp_path: Path) -> None:
    before = open_fds()
    mark = nap()
    context = BashContext(tmp_path)
    command = f"trap '' HUP INT TERM; setsid sleep {mark} & sleep {mark}; :"
    runs = [asyncio.ensure_future(bash(context, command)) for _ in range(10)]
    await until(lambda: len(running(mark)) == 30)
    for run in runs:
        run.cancel()
    assert all(isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*runs, return_exceptions=True))
    assert running(mark) == []
    assert open_fds() == before


async def test_what_a_lost_server_had_running_is_found_and_ended() -> None:
    mark, other = nap(), nap()
    session = f"lost{time.monotonic_ns()}"  # nobody else's on this machine
    ours = subprocess.Popen(["sleep", mark], env={**os.environ, MARKER: f"{session}/a1"}, start_new_session=True)
    others = subprocess.Popen(["sleep", other], env={**os.environ, MARKER: f"{session}0/a1"}, start_new_session=True)
    try:
        reports = await end_lost_commands(session, limits=ToolLimits(command_ending=QUICK), processes=ProcessTable())
        assert [process.pid for report in reports for process in report.killed] == [ours.pid]
        assert running(mark) == []
        assert running(other) == [others.pid]
    finally:
        for process in (ours, others):
            process.kill()
            process.wait()


async def test_the_marker_tells_which_session_a_process_is_of(tmp_path: Path) -> None:
    stdout, _, _ = output(await bash(BashContext(tmp_path), f"echo ${MARKER}"))
    assert stdout.startswith("s1/")

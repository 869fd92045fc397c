"""After a crash of the server: what survived it is found and ended, and nobody else is touched."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.agents.common.ending import KillSchedule
from dragoman.agents.common.orphans import LostProgram, end_orphans
from dragoman.agents.common.processes import (
    MARKER,
    Handle,
    Process,
    ProcessTable,
    machine_start,
    open_pidfd,
    pid_start,
)
from tests.agents.pty_rig import alive

QUICK = KillSchedule(terminate=0.1, kill=0.3, give_up=2)

# A server with one terminal. Its program ignores hang-ups, and so does the child it has.
SERVER = """
import asyncio, sys, os
from dragoman.agents.terminal.pty import Pty

async def main():
    out = []
    pty = Pty.spawn(["sh", "-c", sys.argv[1]], cwd=".", env={**os.environ, "DRAGOMAN_SESSION": sys.argv[2]},
                    cols=80, rows=24, on_data=out.append, on_exit=print)
    while b"child" not in b"".join(out):
        await asyncio.sleep(0.01)
    print(pty.pid, pty.pid_start, b"".join(out).split()[1].decode(), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""
STUBBORN = "trap '' HUP; sleep 300 & echo child $!; while :; do sleep 300; done"
LEADER_GOES = "(trap '' HUP; echo child $(sh -c 'echo $PPID'); exec sleep 300) & trap - HUP; wait"


class Crashed:
    """A server that was killed, and what it had running."""

    def __init__(self, script: str, marker: str) -> None:
        self.marker = marker
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER, script, marker],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PS1": ""},
        )
        assert server.stdout is not None
        line = server.stdout.readline().split()
        server.kill()
        server.communicate()
        self.pid, self.start, self.child = map(int, line)

    def program(self, **changed: object) -> LostProgram:
        facts: dict[str, object] = {"pid": self.pid, "pid_start": self.start, "marker": self.marker}
        return LostProgram(**{**facts, **changed})  # type: ignore[arg-type]

    def clean_up(self) -> None:
        if alive(self.pid) or alive(self.child):  # one of them keeps the number from being anybody else's group
            os.killpg(self.pid, signal.SIGKILL)


@pytest.fixture
def crashed() -> Iterator[Crashed]:
    server = Crashed(STUBBORN, f"orphan-{time.monotonic_ns()}")
    yield server
    server.clean_up()


@pytest.fixture
def headless() -> Iterator[Crashed]:
    """Like ``crashed``, but only the child survived."""
    server = Crashed(LEADER_GOES, f"orphan-{time.monotonic_ns()}")
    deadline = time.monotonic() + 5
    while alive(server.pid) and time.monotonic() < deadline:
        time.sleep(0.005)
    yield server
    server.clean_up()


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "300"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


async def test_survivors_are_found_by_pid_and_start_and_ended_on_the_schedule(crashed: Crashed) -> None:
    assert alive(crashed.pid)
    assert alive(crashed.child)
    [report] = await end_orphans([crashed.program(marker=None)], schedule=QUICK)
    assert report.known
    assert {process.pid for process in report.found} >= {crashed.pid, crashed.child}
    assert report.killed == report.found
    assert report.left == ()
    assert not alive(crashed.pid)
    assert not alive(crashed.child)


async def test_survivors_are_found_by_the_marker_alone(crashed: Crashed) -> None:
    [report] = await end_orphans([crashed.program(pid=None, pid_start=None)], schedule=QUICK)
    assert {process.pid for process in report.killed} >= {crashed.pid, crashed.child}
    assert not alive(crashed.pid)
    assert not alive(crashed.child)


async def test_a_child_that_outlived_its_leader_is_found_by_the_marker(headless: Crashed) -> None:
    assert alive(headless.child)
    [report] = await end_orphans([headless.program()], schedule=QUICK)
    assert [process.pid for process in report.killed] == [headless.child]
    assert not alive(headless.child)


async def test_a_session_that_nothing_proves_is_not_touched(headless: Crashed) -> None:
    """Without its leader and a marker, the session's number could be anybody's by now."""
    [report] = await end_orphans([headless.program(marker=None)], schedule=QUICK)
    assert (report.known, report.found) == (True, ())
    assert alive(headless.child)


async def test_a_reused_pid_is_never_touched(stranger: subprocess.Popen[bytes]) -> None:
    start = pid_start(stranger.pid)
    assert start is not None
    lost = [
        LostProgram(pid=stranger.pid, pid_start=start - 1, marker="orphan-none"),
        LostProgram(pid=stranger.pid, pid_start=None, marker=None),
        LostProgram(pid=None, pid_start=None, marker=None),
        LostProgram(pid=None, pid_start=None, marker=""),
    ]
    reports = await end_orphans(lost, schedule=QUICK)
    assert [(report.program, report.found) for report in reports] == [(program, ()) for program in lost]
    assert stranger.poll() is None


async def test_a_pid_and_tick_of_an_earlier_boot_mean_nothing(stranger: subprocess.Popen[bytes]) -> None:
    booted = machine_start()
    assert booted is not None
    program = LostProgram(pid=stranger.pid, pid_start=pid_start(stranger.pid), started_at=booted - 10_000)
    [report] = await end_orphans([program], schedule=QUICK)
    assert report.found == ()
    assert stranger.poll() is None
    [report] = await end_orphans([LostProgram(pid=program.pid, pid_start=program.pid_start, started_at=time.time())])
    assert [process.pid for process in report.killed] == [stranger.pid]
    assert stranger.wait() == -signal.SIGHUP


async def test_a_marker_we_carry_ourselves_names_nobody(
    stranger: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARKER, "orphan-outer")
    sibling = subprocess.Popen(["sleep", "300"])
    try:
        [report] = await end_orphans([LostProgram(pid=None, pid_start=None, marker="orphan-outer")], schedule=QUICK)
        assert report.found == ()
        assert sibling.poll() is None
    finally:
        sibling.kill()
        sibling.wait()


# Run by a shell, of which it says that it is a survivor.
CHILD = """
import asyncio, os
from dragoman.agents.common.orphans import LostProgram, end_orphans
from dragoman.agents.common.processes import pid_start

parent = os.getppid()
[report] = asyncio.run(end_orphans([LostProgram(pid=parent, pid_start=pid_start(parent))]))
print(report.known, len(report.found))
"""


def test_those_who_started_us_are_never_touched() -> None:
    shell = subprocess.run(
        ["sh", "-c", '"$0" -c "$1"; echo alive', sys.executable, CHILD], capture_output=True, text=True, check=True
    )
    assert shell.stdout.split() == ["True", "0", "alive"], shell


async def test_when_nothing_survived_one_look_is_enough() -> None:
    programs = [LostProgram(pid=2**22 - number, pid_start=1, marker=f"orphan-gone-{number}") for number in range(200)]
    began = time.monotonic()
    reports = await end_orphans(programs)
    assert time.monotonic() - began < 5  # one look for each would take longer
    assert not any(report.found for report in reports)
    assert all(report.known for report in reports)


async def test_without_a_process_list_the_report_says_that_nobody_looked(crashed: Crashed, tmp_path: Path) -> None:
    [report] = await end_orphans([crashed.program()], schedule=QUICK, processes=ProcessTable(tmp_path))
    assert (report.known, report.found, report.killed, report.left) == (False, (), (), ())
    assert alive(crashed.pid)


# Processes


async def test_callers_at_the_same_time_share_a_look_that_began_after_they_asked() -> None:
    table = ProcessTable()
    first = asyncio.ensure_future(table.read())
    async with asyncio.timeout(5):
        while not table._turn.locked():
            await asyncio.sleep(0)
    late = subprocess.Popen(["sleep", "300"])
    try:
        second, third = await asyncio.gather(table.read(), table.read())
        assert second is third
        assert late.pid in {row.pid for row in second}
        await first
    finally:
        late.kill()
        late.wait()


async def test_a_row_of_a_program_with_an_odd_name(tmp_path: Path) -> None:
    odd = tmp_path / ") S 1 1 1 ("
    shutil.copy(shutil.which("sleep") or "sleep", odd)
    process = subprocess.Popen([odd, "300"], env={**os.environ, MARKER: "row=1", "X": "1"}, start_new_session=True)
    try:
        [row] = [row for row in await ProcessTable().read() if row.pid == process.pid]
        assert (row.pid, row.parent, row.group, row.session) == (process.pid, os.getpid(), process.pid, process.pid)
        assert row.start == pid_start(process.pid)
        assert row.marker == "row=1"
        assert abs((machine_start() or 0) + row.start / os.sysconf("SC_CLK_TCK") - time.time()) < 60
    finally:
        process.kill()
        process.wait()
    assert pid_start(process.pid) is None


DAEMON = """
import os, time
for _ in range(4):
    if os.fork():
        os._exit(0)
    os.setsid()
time.sleep(300)
"""


async def test_a_process_that_hands_on_its_place_while_we_look_is_seen() -> None:
    marker = f"daemon-{time.monotonic_ns()}"
    for _ in range(20):
        subprocess.run([sys.executable, "-S", "-c", DAEMON], env={**os.environ, MARKER: marker}, check=True)
        seen = any(row.marker == marker for row in await ProcessTable().read())
        [report] = await end_orphans([LostProgram(pid=None, pid_start=None, marker=marker)], schedule=QUICK)
        assert seen
        assert (bool(report.killed), report.left) == (True, ())


async def test_a_handle_holds_one_process_and_not_its_pid(stranger: subprocess.Popen[bytes]) -> None:
    start = pid_start(stranger.pid)
    assert start is not None
    me = Process(pid=stranger.pid, parent=0, group=0, session=0, start=start)
    other = Process(pid=stranger.pid, parent=0, group=0, session=0, start=start - 1)
    assert Handle.take(other) is None
    handle = Handle.take(me)
    assert handle is not None
    assert handle.alive
    handle.send(signal.SIGKILL)
    stranger.wait()
    assert not handle.alive
    handle.send(signal.SIGKILL)
    handle.close()
    handle.close()
    assert Handle.take(me) is None


def test_a_process_that_is_not_there_has_no_descriptor() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(ProcessLookupError):
        open_pidfd(process.pid)

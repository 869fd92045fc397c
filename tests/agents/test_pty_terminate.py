"""Ending a program: ask, insist, kill, and nothing is left (invariant 9)."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from dragoman.agents.common.ending import KillSchedule
from dragoman.agents.common.processes import MARKER, ProcessTable

from .pty_rig import Run, alive, open_fds, python, until

BOTH_LOOPS = True

QUICK = KillSchedule(terminate=0.1, kill=0.3)
STUBBORN = "import signal, os\nfor n in (1, 2, 15): signal.signal(n, lambda n, _: os.write(1, b'<%d>' % n))\n"


async def test_the_schedule_of_the_design_is_the_default() -> None:
    assert (KillSchedule().terminate, KillSchedule().kill) == (0.3, 0.8)


@pytest.mark.parametrize("interrupt", [True, False])
async def test_a_program_that_listens_ends_at_the_first_signal(interrupt: bool) -> None:
    async with Run("sleep", "100") as run:
        assert await run.pty.terminate(interrupt) is True
        assert await run.end() == (None, signal.SIGINT if interrupt else signal.SIGHUP)


@pytest.mark.parametrize(("interrupt", "first"), [(True, 2), (False, 1)])
async def test_one_that_ignores_everything_gets_each_signal_in_its_time(interrupt: bool, first: int) -> None:
    code = STUBBORN + "os.write(1, b'ready')\nwhile 1: signal.pause()"
    async with Run(*python(code)) as run:
        await run.says("ready")
        began = time.monotonic()
        ending = asyncio.ensure_future(run.pty.terminate(interrupt))
        await run.says("<15>")
        assert 0.3 <= time.monotonic() - began < 0.8
        assert await ending is True
        assert 0.8 <= time.monotonic() - began < 3
        assert await run.end() == (None, signal.SIGKILL)
    assert run.text == f"ready<{first}><15>"


async def test_its_last_words_are_heard() -> None:
    code = (
        "import signal, os, time\n"
        "def end(*_): os.write(1, b'x' * 5000); os.write(1, b'saved'); os._exit(7)\n"
        "signal.signal(15, end); signal.signal(2, signal.SIG_IGN); os.write(1, b'ready')\nwhile 1: signal.pause()"
    )
    async with Run(*python(code)) as run:
        await run.says("ready")
        assert await run.pty.terminate(interrupt_first=True, schedule=QUICK) is True
        assert await run.end() == (7, None)
        assert run.text == "ready" + "x" * 5000 + "saved"


async def test_a_stopped_program_is_woken_to_end() -> None:
    async with Run("sh", "-c", "trap 'echo term; exit 9' TERM; echo ready; kill -STOP $$; while :; do :; done") as run:
        await run.says("ready")
        assert await run.pty.terminate(interrupt_first=True, schedule=QUICK) is True
        assert (await run.end())[0] in {9, None}


GROUP = "sleep 100 & echo pid $!; wait"
OWN_GROUP = "set -m; sleep 100 & echo pid $!; wait"
DETACHED = (
    "import os, signal\n"
    "if os.fork() == 0:\n"
    "    os.setsid(); [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]\n"
    "    if os.fork() == 0:\n"
    "        os.write(1, b'pid %d \\n' % os.getpid())\n"
    "        null = os.open('/dev/null', 2); [os.dup2(null, n) for n in (0, 1, 2)]\n"
    "    while 1: signal.pause()\n"
)


async def left_behind(run: Run) -> int:
    await until(lambda: "pid" in run.text and run.text.endswith("\n"), lambda: run.text)
    return int(run.text.split("pid ")[1].split()[0])


@pytest.mark.parametrize("script", [GROUP, OWN_GROUP], ids=["same group", "own group"])
@pytest.mark.parametrize("ignoring", ["", "trap '' HUP INT TERM; "], ids=["polite", "ignores signals"])
async def test_every_process_of_the_session_ends_with_the_program(script: str, ignoring: str) -> None:
    async with Run("sh", "-c", ignoring + script) as run:
        other = await left_behind(run)
        assert alive(other)
        assert await run.pty.terminate(interrupt_first=True, schedule=QUICK) is True
        assert not alive(other)


@pytest.mark.parametrize("terminate", [True, False], ids=["terminated", "ended by itself"])
async def test_processes_with_a_session_of_their_own_are_found_by_the_marker(terminate: bool) -> None:
    code = DETACHED + ("while 1: signal.pause()" if terminate else "os.read(0, 1)")
    env = {MARKER: "3f1c-test-detached"}
    async with Run(*python(code), env=env, schedule=QUICK) as run:
        other = await left_behind(run)
        if terminate:
            assert await run.pty.terminate() is True
        else:
            run.pty.write(b"\n")
        await run.end()
        assert not alive(other)


async def test_the_marker_of_another_session_protects() -> None:
    async with Run("sleep", "100", env={MARKER: "one"}) as kept, Run("sleep", "100", env={MARKER: "two"}) as run:
        assert await run.pty.terminate() is True
        assert kept.pty.pid is not None
        assert alive(kept.pty.pid)


async def test_a_marker_we_carry_ourselves_names_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server inside a session of another server must not end its siblings."""
    monkeypatch.setenv(MARKER, "outer")
    async with Run("sleep", "100", env={MARKER: "outer"}) as sibling, Run("sleep", "100", env={MARKER: "outer"}) as run:
        assert await run.pty.terminate() is True
        assert sibling.pty.pid is not None
        assert alive(sibling.pty.pid)


async def test_detached_processes_can_be_left_alone() -> None:
    gentle = KillSchedule(terminate=0.1, kill=0.3, detached=False)
    async with Run(*python(DETACHED + "while 1: signal.pause()"), env={MARKER: "3f1c-gentle"}, schedule=gentle) as run:
        other = await left_behind(run)
        assert await run.pty.terminate() is True
        await run.end()
        assert alive(other)
        session = os.getsid(other)
        for pid in (other, session):
            os.kill(pid, signal.SIGKILL)
        await until(lambda: not alive(other) and not alive(session))


async def test_what_a_program_left_behind_is_hung_up_and_killed_after_its_own_end() -> None:
    async with Run("sh", "-c", "trap '' HUP TERM; sleep 100 & echo pid $!; exit 2", schedule=QUICK) as run:
        other = await left_behind(run)
        assert await run.end() == (2, None)
        assert not alive(other)


async def test_new_children_of_a_dying_group_do_not_escape() -> None:
    script = "trap '' HUP INT TERM; while :; do sleep 0.01 & wait $!; done"
    async with Run("sh", "-c", f"{script} & {script} & echo pid $!; {script}") as run:
        other = await left_behind(run)
        group = run.pty.pid
        assert await run.pty.terminate(schedule=QUICK) is True
        assert not alive(other)
        rows = await ProcessTable().read()
        assert [row for row in rows if row.session == group] == []


async def test_terminate_goes_on_when_its_caller_is_cancelled() -> None:
    async with Run("sh", "-c", "trap '' HUP INT TERM; echo ready; while :; do sleep 1; done") as run:
        await run.says("ready")
        ending = asyncio.ensure_future(run.pty.terminate(schedule=QUICK))
        await asyncio.sleep(0)
        ending.cancel()
        assert await run.end(limit=2) == (None, signal.SIGKILL)


async def test_two_endings_at_once_keep_to_the_shorter_schedule() -> None:
    async with Run("sh", "-c", "trap '' HUP INT TERM; echo ready; while :; do sleep 1; done") as run:
        await run.says("ready")
        began = time.monotonic()
        slow = KillSchedule(terminate=3, kill=5, give_up=9)
        answers = await asyncio.gather(run.pty.terminate(True, schedule=slow), run.pty.terminate(schedule=QUICK))
        assert answers == [True, True]
        assert time.monotonic() - began < 3


async def test_without_a_process_list_the_group_still_ends(tmp_path_factory: pytest.TempPathFactory) -> None:
    nothing = ProcessTable(tmp_path_factory.mktemp("noproc"))
    assert nothing.available is False
    assert await nothing.read() == ()
    async with Run("sh", "-c", "trap '' HUP INT TERM; sleep 100 & echo pid $!; wait", processes=nothing) as run:
        other = await left_behind(run)
        assert await run.pty.terminate(schedule=QUICK) is True
        assert await run.end() == (None, signal.SIGKILL)
        await until(lambda: not alive(other))


async def test_fifty_terminals_end_together_in_little_more_than_one_schedule() -> None:
    table = ProcessTable()
    before = open_fds()
    runs = [Run("sh", "-c", "trap '' HUP TERM; echo up; while :; do read x; done", processes=table) for _ in range(50)]
    for run in runs:
        await run.says("up")
    began = time.monotonic()
    assert all(await asyncio.gather(*(run.pty.terminate(schedule=QUICK) for run in runs)))
    assert time.monotonic() - began < 5  # one after the other would take 15
    for run in runs:
        assert await run.end() == (None, signal.SIGKILL)
    assert open_fds() == before


def test_a_schedule_fits_into_a_budget() -> None:
    within = KillSchedule().within(0.5)
    assert within.kill == pytest.approx(0.4)
    assert within.terminate == pytest.approx(0.15)
    assert within.give_up == 0.5
    assert KillSchedule().within(60) == KillSchedule()
    assert KillSchedule().within(0) == KillSchedule(terminate=0, kill=0, give_up=0)

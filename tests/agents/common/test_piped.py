"""A program on pipes: what it is given, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.agents.common.ending import KillSchedule
from dragoman.agents.common.piped import Piped
from dragoman.agents.common.processes import MARKER, ProcessTable
from dragoman.agents.common.start import Start, prepare
from dragoman.hub.errors import InvalidRequest
from tests.agents.pty_rig import alive, open_fds, until

QUICK = KillSchedule(terminate=0.1, kill=0.3, give_up=2)


def shell(script: str) -> Start:
    return prepare(["sh", "-c", script], cwd=".", env=dict(os.environ))


class Run:
    """One, with what it said on its stdout."""

    def __init__(self, script: str, *, told: bool = False, processes: ProcessTable | None = None) -> None:
        self.ended = asyncio.Event()
        self.piped = Piped(
            shell(script),
            session="piped-test",
            processes=processes or ProcessTable(),
            detached=True,
            told=told,
            on_end=self.ended.set,
        )
        self._said = b""

    def says(self) -> str:
        with contextlib.suppress(BlockingIOError):
            self._said += os.read(self.piped.ends[-2], 1000)
        return self._said.decode()

    async def says_pid(self) -> int:
        await until(lambda: "\n" in self.says())
        return int(self.says().split()[-1])


@contextmanager
def piped(script: str, *, told: bool = False, processes: ProcessTable | None = None) -> Iterator[Run]:
    run = Run(script, told=told, processes=processes)
    try:
        yield run
    finally:
        run.piped.close()
        for fd in run.piped.ends:
            os.close(fd)


async def test_one_that_is_told_hears_it() -> None:
    with piped("read line; echo heard $line", told=True) as run:
        os.write(run.piped.ends[0], b"this\n")
        await run.ended.wait()
        assert run.says() == "heard this\n"
        assert run.piped.status == (0, None)


async def test_one_that_is_not_told_has_an_empty_input() -> None:
    with piped("cat; echo $?") as run:
        await run.ended.wait()
        assert run.says() == "0\n"


async def test_each_has_a_marker_of_its_session() -> None:
    marks = set()
    for _ in range(2):
        with piped(f"echo ${MARKER}") as run:
            await run.ended.wait()
            marks.add(run.says())
    assert len(marks) == 2
    assert all(mark.startswith("piped-test/") for mark in marks)


async def test_one_that_cannot_be_started_leaves_no_pipe(tmp_path: Path) -> None:
    before = open_fds()
    with pytest.raises(InvalidRequest):
        Piped(
            Start(str(tmp_path / "missing"), ["missing"], {}),
            session="piped-test",
            processes=ProcessTable(),
            detached=True,
            told=True,
            on_end=lambda: None,
        )
    assert open_fds() == before


async def test_what_it_started_ends_with_it() -> None:
    with piped("setsid sleep 100 & echo $!; exec sleep 100") as run:
        other = await run.says_pid()
        assert await run.piped.end(signal.SIGTERM, QUICK) == ()
        assert not alive(other)
        assert run.piped.status == (None, signal.SIGTERM)


async def test_without_a_process_list_the_group_still_ends(tmp_path: Path) -> None:
    with piped("trap '' HUP TERM; sleep 100 & echo $!; exit", processes=ProcessTable(tmp_path)) as run:
        other = await run.says_pid()
        await run.ended.wait()
        assert await run.piped.end(signal.SIGHUP, QUICK) == ()
        await until(lambda: not alive(other))


async def test_one_that_is_let_go_of_while_it_runs_is_killed_and_given_back() -> None:
    with piped("echo $$; exec sleep 100") as run:
        pid = await run.says_pid()
    await run.ended.wait()
    assert run.piped.status == (None, signal.SIGKILL)
    assert not Path(f"/proc/{pid}").exists()

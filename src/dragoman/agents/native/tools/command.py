"""A command on its way: its output, its time, its end, and the end of every process that it started (invariant 9)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

from dragoman.agents.common.orphans import LostProgram, OrphanReport, end_orphans
from dragoman.agents.common.piped import Piped
from dragoman.agents.common.processes import Process, ProcessTable
from dragoman.agents.common.start import Start
from dragoman.agents.native.settings import ToolLimits

from .command_output import Output
from .settled import settled

STDOUT = 30_000
"""Characters that a command's output may have in its result."""

STDERR = 10_000
"""Characters that its error output may have."""

_READ = 64 * 1024
_LAST_STEPS = 0.05
"""Seconds for processes that have let go of the output, so that what is only just ending is not taken for left."""

Show = Callable[[str, str], Awaitable[None]]
"""Is given what came on stdout and stderr since the last time; at least one of them is not empty."""

Cause = Literal["ended", "timeout", "flood"]
"""Why it is over: of its own, by its time-out, or because it said more than is read."""


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """How a command went. ``left_behind`` counts the processes that outlived its shell, and were ended with it.

    ``alive`` are the pids of those that could not be ended. Neither code nor signal: nobody can know.
    """

    cause: Cause
    code: int | None
    signal: int | None
    stdout: Output
    stderr: Output
    left_behind: int
    alive: tuple[int, ...]


async def run_command(
    given: Start, *, session: str, seconds: float, limits: ToolLimits, processes: ProcessTable, show: Show
) -> Finished:
    """Run it for at most ``seconds``. When this returns, or raises, no process of it is left.

    When cancelled, everything is ended on ``limits.command_ending`` before the cancellation propagates. Raises
    ``InvalidRequest`` or ``LimitReached`` where it cannot be started, and whatever ``show`` raises.
    """
    running = _Running(given, session, limits, processes)
    reporter = asyncio.create_task(running.report(show))
    reporter.add_done_callback(running.reported)
    try:
        return await running.finish(await running.over(seconds))
    except BaseException:
        await settled(running.end(signal.SIGINT))
        raise
    finally:
        running.close()
        reporter.cancel()
        await asyncio.gather(reporter, return_exceptions=True)


async def end_lost_commands(session: str, *, limits: ToolLimits, processes: ProcessTable) -> list[OrphanReport]:
    """End what a lost server had running for this session; one report for each command that was found."""
    markers = {row.marker for row in await processes.read() if row.marker and row.marker.startswith(f"{session}/")}
    programs = [LostProgram(pid=None, pid_start=None, marker=marker) for marker in sorted(markers)]
    return await end_orphans(programs, schedule=limits.command_ending, processes=processes)


class _Running:
    """A started command. Every method is called on the loop; ``close`` it."""

    def __init__(self, given: Start, session: str, limits: ToolLimits, processes: ProcessTable) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._processes = processes
        self._over: asyncio.Future[Cause] = self._loop.create_future()
        self._silent = asyncio.Event()
        self._read_bytes = 0
        self._flooded = False
        self._piped = Piped(
            given,
            session=session,
            processes=processes,
            detached=limits.command_ending.detached,
            told=False,
            on_end=lambda: self._say("ended"),
        )
        out, err = self._piped.ends
        self.stdout, self.stderr = Output(STDOUT), Output(STDERR)
        self._streams = {out: self.stdout, err: self.stderr}
        for fd in self._streams:
            self._loop.add_reader(fd, self._readable, fd)

    async def over(self, seconds: float) -> Cause:
        """Wait until the shell has ended, or must be ended."""
        await asyncio.wait((self._over,), timeout=seconds)
        return self._over.result() if self._over.done() else "timeout"

    async def finish(self, cause: Cause) -> Finished:
        """End what is left and gather what was said."""
        if cause == "ended":
            left_behind, alive = await self._sweep()
        else:
            left_behind, alive = 0, await settled(self.end(signal.SIGINT))
        self._read_rest()
        for output in (self.stdout, self.stderr):
            output.finish()
        status = self._piped.status
        return Finished(
            cause="flood" if cause == "ended" and self._flooded else cause,
            code=status.code if status else None,
            signal=status.signal if status else None,
            stdout=self.stdout,
            stderr=self.stderr,
            left_behind=left_behind,
            alive=tuple(process.pid for process in alive),
        )

    async def end(self, first: int) -> Sequence[Process]:
        """End all its processes, ``first`` being the first signal; returns what could not be ended."""
        return await self._piped.end(first, self._limits.command_ending)

    async def report(self, show: Show) -> None:
        """Show the output as it grows, until cancelled."""
        while True:
            await asyncio.sleep(self._limits.command_progress)
            stdout, stderr = self.stdout.unseen(), self.stderr.unseen()
            if stdout or stderr:
                await show(stdout, stderr)

    def reported(self, reporter: asyncio.Task[None]) -> None:
        """Called at the reporter's end: failing to show is failing to run."""
        if not reporter.cancelled() and (error := reporter.exception()) and not self._over.done():
            self._over.set_exception(error)

    def close(self) -> None:
        """Let go of everything; what still runs here was not to be ended, or its ending itself was broken off."""
        self._stop_reading()
        self._piped.close()

    # Processes

    def _say(self, cause: Cause) -> None:
        if not self._over.done():
            self._over.set_result(cause)

    async def _sweep(self) -> tuple[int, Sequence[Process]]:
        """After the shell's own end: how many it had left running, and which of them could not be ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.command_drain):
                await self._silent.wait()
        if self._processes.available and not await self._piped.living():
            return 0, ()
        if self._silent.is_set():
            await asyncio.sleep(_LAST_STEPS)
        left = await self._piped.living()
        # They expect no interrupt (a shell has its background commands ignore it), but a hang-up.
        return len(left), await settled(self.end(signal.SIGHUP))

    # Output

    def _readable(self, fd: int) -> bool:
        """Take what is there; whether there may be more."""
        try:
            data = os.read(fd, min(_READ, self._limits.command_buffer + 1 - self._read_bytes))
        except BlockingIOError:
            return False
        if not data:
            self._close(fd)
            return False
        room = self._limits.command_buffer - self._read_bytes
        self._read_bytes += len(data)
        self._streams[fd].feed(data[:room])
        if self._read_bytes > self._limits.command_buffer:
            self._flooded = True
            self._stop_reading()
            self._say("flood")
        return fd in self._streams

    def _read_rest(self) -> None:
        """What the processes said before their end."""
        for fd in tuple(self._streams):
            while self._readable(fd):
                pass

    def _stop_reading(self) -> None:
        for fd in tuple(self._streams):
            self._close(fd)

    def _close(self, fd: int) -> None:
        del self._streams[fd]
        self._loop.remove_reader(fd)
        os.close(fd)
        if not self._streams:
            self._silent.set()

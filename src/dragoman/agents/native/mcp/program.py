"""A server's program: started on three pipes, watched, and ended with everything that it started (invariant 9).

It carries a marker of its session like a command, so what a lost server left running of it is found in the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec

from dragoman.agents.common.child import Child
from dragoman.agents.common.ending import KillSchedule, end_processes
from dragoman.agents.common.family import Family
from dragoman.agents.common.processes import MARKER, UNKNOWN_START, Process, ProcessTable, pid_start
from dragoman.agents.common.start import Start, prepare, start
from dragoman.hub.errors import InvalidRequest, LimitReached
from dragoman.hub.workspace_config import McpServer

_LAST_WORDS = 2000
"""Bytes of the error output's end that are kept for the reason of a failure."""

_LAST_LINES = 5
_NOTHING = 0
"""The first signal: closing its standard input is what asks a server to end."""


class Spawning(msgspec.Struct, frozen=True, kw_only=True):
    """What programs of one session's servers are started with, and ended by."""

    session: str
    cwd: Path
    environment: Mapping[str, str]
    processes: ProcessTable
    schedule: Callable[[], KillSchedule]
    """Asked at the end, when there may be less time than usual."""


def prepared(entry: McpServer, spawning: Spawning) -> Start:
    """What starts an entry's command. Looks at files; raises ``InvalidRequest``."""
    folder = spawning.cwd / entry.cwd if entry.cwd else spawning.cwd
    env = {**spawning.environment, **entry.env, MARKER: f"{spawning.session}/{secrets.token_hex(8)}"}
    return prepare([entry.command, *entry.args], cwd=os.fspath(folder), env=env)


class Program:
    """A running one. ``end`` it. ``ended`` is set at its own end, ``over`` once nothing more can come of it.

    ``reader`` has what it says on its standard output; ``write`` what is said to it.
    """

    def __init__(self, given: Start, spawning: Spawning, *, longest_line: int) -> None:
        self.over = asyncio.Event()
        self.ended = asyncio.Event()
        self._spawning = spawning
        self._loop = asyncio.get_running_loop()
        self._abandoned = False
        self._last_words = b""
        self._pid, self._ends = _start_on_pipes(given)
        self._child = Child(self._pid, self._ended)
        self.reader = asyncio.StreamReader(limit=longest_line)
        self._input = _Input()
        self._transports: list[asyncio.BaseTransport] = []
        detached = spawning.schedule().detached
        self._family = Family(
            self._pid,
            pid_start(self._pid),
            marker=given.env[MARKER] if detached else None,
            children=detached,
            held=lambda: not self._child.reaped,
        )

    async def open(self) -> None:
        """Begin to listen."""
        loop, ends = self._loop, self._ends
        for connect, make, mode in (
            (loop.connect_write_pipe, lambda: self._input, "wb"),
            (loop.connect_read_pipe, lambda: asyncio.StreamReaderProtocol(self.reader), "rb"),
            (loop.connect_read_pipe, lambda: _Errors(self._said), "rb"),
        ):
            transport, _ = await connect(make, os.fdopen(ends.pop(0), mode, 0))
            self._transports.append(transport)

    async def write(self, data: bytes) -> None:
        """Say something to it; returns once it may be told more. Raises ``ConnectionError``."""
        await self._input.write(data)

    def ending(self) -> str:
        """How it ended, with its last words; empty while it runs."""
        status = self._child.status
        if status is None:
            return ""
        if status.signal is not None:
            how = f"it was killed by {_signal_name(status.signal)}"
        else:
            how = "it ended" if status.code is None else f"it ended with code {status.code}"
        lines = self._last_words.decode(errors="replace").strip().splitlines()[-_LAST_LINES:]
        return f"{how}: {' / '.join(lines)}" if lines else how

    async def end(self) -> Sequence[int]:
        """Close its input, and end whatever is left of it by the schedule; returns the pids of what could not be."""
        if self._transports:
            self._transports[0].close()
        try:
            ending = await end_processes(
                self._living, _NOTHING, self._spawning.schedule(), signal_group=self._signal_group
            )
        finally:
            self._close()
        return [process.pid for process in ending.left]

    # Inside

    def _said(self, data: bytes) -> None:
        self._last_words = (self._last_words + data)[-_LAST_WORDS:]

    def _ended(self) -> None:
        self.ended.set()
        if self._abandoned:
            self._child.reap()
        # What it said last may still be in the pipe, which others may hold open for ever.
        self._loop.call_later(self._spawning.schedule().terminate, self.over.set)

    async def _living(self) -> list[Process]:
        # A process that is just becoming another program shows no environment.
        return await self._look() or await self._look()

    async def _look(self) -> list[Process]:
        processes = self._spawning.processes
        if processes.available:
            return self._family.among(await processes.read())
        pid = self._pid
        return [] if self._child.look_for_end() else [Process(pid, os.getpid(), pid, pid, UNKNOWN_START)]

    def _signal_group(self, number: int) -> int | None:
        with contextlib.suppress(InvalidRequest):  # it became another user's: it is among those left
            return self._child.signal_group(number)
        return None

    def _close(self) -> None:
        for transport in self._transports:
            transport.close()
        for fd in self._ends:
            os.close(fd)
        self._ends.clear()
        self.over.set()
        if not self._spawning.processes.available:
            self._signal_group(signal.SIGKILL)  # nobody can see whether others of the group outlived it
        if self._child.look_for_end():
            self._child.reap()
        else:
            self._signal_group(signal.SIGKILL)
            self._abandoned = True


class _Input(asyncio.BaseProtocol):
    """The program's standard input, at the pace at which it reads."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._ready = asyncio.Event()
        self._lost = False

    async def write(self, data: bytes) -> None:
        if self._lost or self._transport is None:
            raise ConnectionResetError("it takes no more input")
        self._transport.write(data)
        await self._ready.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are one, but no subclass.
        self._transport = cast("asyncio.WriteTransport", transport)
        self._ready.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._lost = True
        self._ready.set()

    def pause_writing(self) -> None:
        self._ready.clear()

    def resume_writing(self) -> None:
        self._ready.set()


class _Errors(asyncio.Protocol):
    """The program's error output: read to its end, so that it never waits for us."""

    def __init__(self, said: Callable[[bytes], None]) -> None:
        self._said = said

    def data_received(self, data: bytes) -> None:
        self._said(data)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _start_on_pipes(given: Start) -> tuple[int, list[int]]:
    """Its pid, and our ends of its standard input, output and error output."""
    fds: list[int] = []
    try:
        for _ in range(3):
            fds.extend(os.pipe())
        into_end, into, out, out_end, err, err_end = fds
        dup = os.POSIX_SPAWN_DUP2
        pid = start(given, [(dup, into_end, 0), (dup, out_end, 1), (dup, err_end, 2)])
    except BaseException as error:
        for fd in fds:
            os.close(fd)
        if isinstance(error, OSError):
            raise LimitReached(f"the system gives us no pipe: {error.strerror}") from error
        raise
    for fd in (into_end, out_end, err_end):
        os.close(fd)
    return pid, [into, out, err]

"""A server's program: started on three pipes, watched, and ended with everything that it started (invariant 9).

It carries a marker of its session like a command, so what a lost server left running of it is found in the same way.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec

from dragoman.agents.common.ending import KillSchedule
from dragoman.agents.common.piped import Piped
from dragoman.agents.common.processes import ProcessTable
from dragoman.agents.common.start import Start, prepare
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
    return prepare([entry.command, *entry.args], cwd=os.fspath(folder), env={**spawning.environment, **entry.env})


class Program:
    """A running one. ``end`` it. ``ended`` is set at its own end, ``over`` once nothing more can come of it.

    ``reader`` has what it says on its standard output; ``write`` what is said to it.
    """

    def __init__(self, given: Start, spawning: Spawning, *, longest_line: int) -> None:
        self.over = asyncio.Event()
        self.ended = asyncio.Event()
        self._spawning = spawning
        self._loop = asyncio.get_running_loop()
        self._last_words = b""
        self._piped = Piped(
            given,
            session=spawning.session,
            processes=spawning.processes,
            detached=spawning.schedule().detached,
            told=True,
            on_end=self._ended,
        )
        self._ends = list(self._piped.ends)
        self.reader = asyncio.StreamReader(limit=longest_line)
        self._input = _Input()
        self._transports: list[asyncio.BaseTransport] = []

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
        status = self._piped.status
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
            left = await self._piped.end(_NOTHING, self._spawning.schedule())
        finally:
            self._close()
        return [process.pid for process in left]

    # Inside

    def _said(self, data: bytes) -> None:
        self._last_words = (self._last_words + data)[-_LAST_WORDS:]

    def _ended(self) -> None:
        self.ended.set()
        # What it said last may still be in the pipe, which others may hold open for ever.
        self._loop.call_later(self._spawning.schedule().terminate, self.over.set)

    def _close(self) -> None:
        for transport in self._transports:
            transport.close()
        for fd in self._ends:
            os.close(fd)
        self._ends.clear()
        self.over.set()
        self._piped.close()


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

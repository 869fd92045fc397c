"""A program on pipes: started with a marker of its session, watched, and ended with all that it started (invariant 9).

What is said over the pipes, and how, is the business of who started it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
from collections.abc import Callable, Sequence
from typing import Any

from dragoman.hub.errors import InvalidRequest, LimitReached

from .child import Child, ExitStatus
from .ending import KillSchedule, end_processes
from .family import Family
from .processes import MARKER, UNKNOWN_START, Process, ProcessTable, pid_start
from .start import Start, start


class Piped:
    """A started one. Every method is called on the loop; ``close`` it, and the ``ends`` of its pipes.

    ``on_end`` is called once, at its own end. ``told``: its stdin is a pipe, else it is empty. ``detached``: what left
    its process session, but descends from it or carries its marker, belongs to it too. Raises ``InvalidRequest`` or
    ``LimitReached`` where it cannot be started.
    """

    def __init__(
        self,
        given: Start,
        *,
        session: str,
        processes: ProcessTable,
        detached: bool,
        told: bool,
        on_end: Callable[[], None],
    ) -> None:
        self._processes = processes
        self._on_end = on_end
        self._abandoned = False
        # One for each program, for many may run at once in a session; who sweeps up after a lost server knows them by
        # their beginning.
        marker = f"{session}/{secrets.token_hex(8)}"
        pid, self.ends = _start_on_pipes(given._replace(env={**given.env, MARKER: marker}), told=told)
        """Our ends of its stdin (where it is ``told``), its stdout and its stderr; non-blocking."""
        self._child = Child(pid, self._ended)
        self._family = Family(
            pid,
            pid_start(pid),
            marker=marker if detached else None,
            children=detached,
            held=lambda: not self._child.reaped,
        )

    @property
    def status(self) -> ExitStatus | None:
        """How it ended; None while it lives."""
        return self._child.status

    @property
    def ended(self) -> bool:
        """Whether its end has been noticed."""
        return self._child.ended

    def look_for_end(self) -> bool:
        """Whether it has ended by now; reports the end if that is new."""
        return self._child.look_for_end()

    async def living(self) -> list[Process]:
        """What is alive of it and of all that it started."""
        # A process that is just becoming another program shows no environment.
        return await self._look() or await self._look()

    async def end(self, first: int, schedule: KillSchedule) -> Sequence[Process]:
        """End all its processes, ``first`` being the first signal; returns what could not be ended."""
        try:
            ending = await end_processes(self.living, first, schedule, signal_group=self._signal_group)
        finally:
            if not self._processes.available:
                self._signal_group(signal.SIGKILL)  # nobody can see whether others of the group outlived it
            self._child.look_for_end()
        return ending.left

    def close(self) -> None:
        """Let go of it; what still runs here was not to be ended, or its ending itself was broken off."""
        if self._child.look_for_end():
            self._child.reap()
        else:
            self._signal_group(signal.SIGKILL)
            self._abandoned = True

    def _ended(self) -> None:
        if self._abandoned:
            self._child.reap()
        self._on_end()

    async def _look(self) -> list[Process]:
        if self._processes.available:
            return self._family.among(await self._processes.read())
        pid = self._child.pid
        return [] if self._child.look_for_end() else [Process(pid, os.getpid(), pid, pid, UNKNOWN_START)]

    def _signal_group(self, number: int) -> int | None:
        with contextlib.suppress(InvalidRequest):  # it became another user's: it is among those left
            return self._child.signal_group(number)
        return None


def _start_on_pipes(given: Start, *, told: bool) -> tuple[int, list[int]]:
    """Its pid, and our ends of its pipes."""
    ours: list[int] = []
    theirs: list[int] = []
    files: list[Any] = [] if told else [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    try:
        for number in (0, 1, 2) if told else (1, 2):
            reading, writing = os.pipe()
            ours.append(reading if number else writing)
            theirs.append(writing if number else reading)
            os.set_blocking(ours[-1], False)
            files.append((os.POSIX_SPAWN_DUP2, theirs[-1], number))
        pid = start(given, files)
    except BaseException as error:
        for fd in (*ours, *theirs):
            os.close(fd)
        if isinstance(error, OSError):
            raise LimitReached(f"the system gives us no pipe: {error.strerror}") from error
        raise
    for fd in theirs:
        os.close(fd)
    return pid, ours

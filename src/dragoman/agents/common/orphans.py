"""Programs that outlived a crash of the server: find them, and end them.

Their terminal, or whoever read their output, is gone with the server, so they cannot be taken over. Only what provably
belonged to the session is touched: see ``Family``.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable, Sequence

import msgspec

from .ending import KillSchedule, end_processes
from .family import Family
from .processes import Process, ProcessTable, machine_start

_CLOCK_SLACK = 120.0
"""Seconds the clock may have been set by since; it decides only what a pid and a tick of another boot could mean."""


class LostProgram(msgspec.Struct, frozen=True, kw_only=True):
    """What the log says of a program that was running when the server was lost.

    ``marker`` is its ``DRAGOMAN_SESSION``. ``started_at`` (seconds since the epoch) tells a recorded ``pid_start``
    of an earlier boot of the machine from one of this boot.
    """

    pid: int | None
    pid_start: int | None
    marker: str | None = None
    started_at: float | None = None


class OrphanReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one ``LostProgram``. ``known`` is false where the system shows no processes: then nobody looked.

    ``found`` is all that was met, ``left`` what could not be ended.
    """

    program: LostProgram
    known: bool
    found: tuple[Process, ...] = ()
    left: tuple[Process, ...] = ()

    @property
    def killed(self) -> tuple[Process, ...]:
        """What was found and ended."""
        left = {(process.pid, process.start) for process in self.left}
        return tuple(process for process in self.found if (process.pid, process.start) not in left)

    @property
    def line(self) -> str:
        """What a lost server left behind, in one line; empty when there is nothing to say."""
        if not self.known:
            return f"whether process {self.program.pid} of the lost server still runs cannot be seen on this system"
        parts = []
        if self.killed:
            parts.append("ended " + ", ".join(str(process.pid) for process in self.killed))
        if self.left:
            parts.append("could not end " + ", ".join(str(process.pid) for process in self.left))
        return f"left running by the lost server: {'; '.join(parts)}" if parts else ""


async def end_orphans(
    programs: Iterable[LostProgram],
    *,
    schedule: KillSchedule | None = None,
    processes: ProcessTable | None = None,
) -> list[OrphanReport]:
    """Look for survivors of each program and end them (SIGHUP, SIGTERM, SIGKILL), all at the same time.

    Takes one look at the system where nothing survived, at most ``schedule.give_up`` seconds otherwise. Reports come
    in the order of ``programs``.
    """
    table = processes or ProcessTable()
    chosen = schedule or KillSchedule()
    return list(await asyncio.gather(*(_end(program, chosen, table) for program in programs)))


async def _end(program: LostProgram, schedule: KillSchedule, table: ProcessTable) -> OrphanReport:
    if not table.available:
        return OrphanReport(program=program, known=False)
    survivors = _survivors(program, detached=schedule.detached)

    async def living() -> Sequence[Process]:
        return survivors.among(await table.read())

    ending = await end_processes(living, signal.SIGHUP, schedule)
    return OrphanReport(program=program, known=True, found=ending.found, left=ending.left)


def _survivors(program: LostProgram, *, detached: bool) -> Family:
    marker = program.marker if detached else None
    if not _is_of_this_boot(program):
        return Family(None, None, marker=marker)
    return Family(program.pid, program.pid_start, marker=marker)


def _is_of_this_boot(program: LostProgram) -> bool:
    """Whether its pid and start time mean anything now: after a restart of the machine they may fit a stranger."""
    booted_at = machine_start()
    if booted_at is None or program.started_at is None:
        return True
    return program.started_at >= booted_at - _CLOCK_SLACK

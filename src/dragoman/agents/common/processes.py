"""The system's processes, as far as whoever runs programs must know them: who belongs to whom, and since when.

A process is known by its pid *and* its start time, so that a pid the system gave to somebody else is never touched.
Read from ``/proc``; without it nothing is known of any process but our own children, and we say so.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import msgspec

MARKER = "DRAGOMAN_SESSION"
"""Environment variable that tells which session a process descends from, wherever it moved since."""

UNKNOWN_START = -1
"""Start time of a process that is ours beyond doubt (a child not yet reaped) where the system tells no start times."""

_LISTS = 10
"""Lists of all processes that one look takes at most, where ever new ones are started."""

_PROC = Path("/proc")
_MARKER_PREFIX = MARKER.encode() + b"="


class Process(msgspec.Struct, frozen=True):
    """One living process (a zombie is not living). ``start`` is in clock ticks since the machine's start.

    ``marker`` is the value of ``DRAGOMAN_SESSION`` in the environment it was started with; None also when that may
    not be read.
    """

    pid: int
    parent: int
    group: int
    session: int
    start: int
    marker: str | None = None


class ProcessTable:
    """Looks at all processes of the system, in a worker thread (the loop's default executor).

    Callers that ask while a look is under way share the next one, so many programs ending at once cost one or two
    looks and not one each. Use one table per server. ``proc`` is where the process file system is mounted.
    """

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[tuple[Process, ...]] | None = None

    @property
    def available(self) -> bool:
        """Whether this system shows its processes at all."""
        return (self._proc / "self" / "stat").exists()

    async def read(self) -> tuple[Process, ...]:
        """Every living process but this one and its ancestors, looked at after this call.

        Empty where there is no ``/proc``.
        """
        if self._next is None:
            self._next = asyncio.ensure_future(self._look())
        return await asyncio.shield(self._next)

    async def _look(self) -> tuple[Process, ...]:
        async with self._turn:
            self._next = None  # whoever asks from here on needs a later look than this one
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(None, lambda: tuple(_living(self._proc)))


def pid_start(pid: int, proc: Path = _PROC) -> int | None:
    """When a process started, in clock ticks since the machine's start; None if unknown or gone.

    A zombie still has its start time.
    """
    stat = _stat(proc, pid)
    return None if stat is None else stat.start


def foreground_group(pid: int, proc: Path = _PROC) -> int | None:
    """The process group in the foreground of this process's terminal; None if that cannot be known."""
    stat = _stat(proc, pid)
    return None if stat is None or stat.foreground <= 0 else stat.foreground


def machine_start(proc: Path = _PROC) -> float | None:
    """When the machine started, in seconds since the epoch; None if unknown."""
    try:
        lines = (proc / "stat").read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, StopIteration, ValueError):
        return None


def open_pidfd(pid: int) -> int | None:
    """A descriptor that stands for the process and turns readable at its end.

    None where the system has no such thing. Raises ``ProcessLookupError`` if there is no such process.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:  # an old kernel, a sandbox that forbids it, or no descriptor left
        return None


class Handle:
    """A hold on one process that survives the reuse of its pid. Close it."""

    __slots__ = ("_pidfd", "_proc", "process")

    def __init__(self, process: Process, pidfd: int | None, proc: Path) -> None:
        self.process = process
        self._pidfd = pidfd
        self._proc = proc

    @classmethod
    def take(cls, process: Process, proc: Path = _PROC) -> Handle | None:
        """A hold on that very process, or None if it is gone."""
        try:
            pidfd = open_pidfd(process.pid)
        except ProcessLookupError:
            return None
        handle = cls(process, pidfd, proc)
        if handle.alive:
            return handle
        handle.close()
        return None

    @property
    def pidfd(self) -> int | None:
        """The descriptor to wait on, where the system has one."""
        return self._pidfd

    @property
    def alive(self) -> bool:
        """Whether it still runs. Compares the start time, which no other process of that pid can share."""
        if self.process.start == UNKNOWN_START:
            return True
        stat = _stat(self._proc, self.process.pid)
        return stat is not None and not stat.ended and stat.start == self.process.start

    def send(self, number: int) -> None:
        """Send a signal, if it is still there and ours to signal."""
        try:
            if self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, number)
            elif self.alive:
                os.kill(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # gone, or it became somebody else's (sudo): what is left is reported at the end

    def close(self) -> None:
        """Let go of it."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


class _Stat(NamedTuple):
    ended: bool
    parent: int
    group: int
    session: int
    foreground: int
    start: int


def _living(proc: Path) -> Iterator[Process]:
    seen: dict[int, tuple[_Stat, str | None]] = {}
    listed: set[int] = set()
    # One that was listed may start another and end before its turn comes. When a list holds nobody new, everybody who
    # lived at that moment has been looked at.
    for _ in range(_LISTS):
        new = _pids(proc) - listed
        if not new:
            break
        listed |= new
        seen.update((pid, (stat, _marker(proc, pid))) for pid in new if (stat := _stat(proc, pid)) is not None)
    own_line = set(_own_line({pid: stat for pid, (stat, _) in seen.items()}))
    for pid, (stat, marker) in seen.items():
        if not stat.ended and pid not in own_line:
            yield Process(pid, stat.parent, stat.group, stat.session, stat.start, marker)


def _pids(proc: Path) -> set[int]:
    try:
        return {int(name) for name in os.listdir(proc) if name.isdigit()}  # noqa: PTH208 - half the cost of Paths
    except OSError:
        return set()


def _own_line(stats: Mapping[int, _Stat]) -> Iterator[int]:
    """This process and those who started it: nobody may end them through us."""
    pid = os.getpid()
    while pid:
        yield pid
        stat = stats.get(pid)
        pid = stat.parent if stat else 0


def _stat(proc: Path, pid: int) -> _Stat | None:
    text = _content(f"{proc}/{pid}/stat")
    if not text:
        return None
    # The name (field 2) stands in parentheses and may hold any byte, parentheses too; field 3 follows the last one.
    state, *numbers = text[text.rindex(b")") + 2 :].split()
    parent, group, session, _, foreground = map(int, numbers[:5])
    return _Stat(state in {b"Z", b"X"}, parent, group, session, foreground, int(numbers[18]))


def _marker(proc: Path, pid: int) -> str | None:
    for entry in _content(f"{proc}/{pid}/environ").split(b"\0"):
        if entry.startswith(_MARKER_PREFIX):
            return os.fsdecode(entry[len(_MARKER_PREFIX) :])
    return None


def _content(path: str) -> bytes:
    """A file of the process file system; empty if the process is gone or not ours to read."""
    try:
        with FileIO(path) as file:
            return file.readall()
    except OSError:
        return b""

"""A program on a PTY, driven by the event loop: its bytes, its input, its size, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence

import msgspec

from dragoman.agents.common.child import Child, ExitStatus
from dragoman.agents.common.ending import Ending, KillSchedule, end_processes
from dragoman.agents.common.processes import MARKER, UNKNOWN_START, Process, ProcessTable, pid_start
from dragoman.hub.errors import InputRefused, InvalidRequest

from .spawn import Spawned, check_size, set_size, spawn_on_pty, unread_input

_KERNEL_HOLDS = 256 * 1024
"""More than a PTY can hold unread (64 KiB and one line buffer): reading that much reaches every byte from before."""

READS_IN_A_ROW = 4
"""Reads in one turn of the loop from a program that writes faster than that."""

_FULL_READ = 4000
"""A read that gives as much was cut short by the kernel, so that there is more."""

_WRITE_STEP = 64 * 1024
"""Bytes of waiting input offered to the terminal at a time; it takes less."""

_LOOK_AGAIN = 0.5
"""Seconds between two looks whether a program that closed its terminal has opened it again."""

OnData = Callable[[bytes], None]
OnExit = Callable[[int | None, int | None], None]


class PtyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Named limits of one terminal. Sizes in bytes, times in seconds.

    ``input`` bounds what waits for a program that does not read. After the program's end others may still hold its
    terminal open: we stop listening to them after ``silence`` without a byte, or ``drain`` in all.
    """

    read: int = 64 * 1024
    input: int = 1024 * 1024
    silence: float = 0.25
    drain: float = 2.0


class Pty:
    """One program on one terminal, on uvloop or asyncio. Every method is called on the loop.

    ``on_data`` gets every byte the program wrote, in order, as the chunks that were read. ``on_exit(code, signal)``
    comes exactly once, after the last of them. While reading is paused the bytes stay where they are, and so does
    ``on_exit``.
    """

    answers_queries = False
    """Nobody behind this terminal answers what the program asks it."""

    def __init__(
        self,
        spawned: Spawned,
        size: tuple[int, int],
        on_data: OnData,
        on_exit: OnExit,
        *,
        marker: str | None,
        limits: PtyLimits,
        schedule: KillSchedule,
        processes: ProcessTable,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._master = spawned.master
        self._size = size
        self._on_data = on_data
        self._on_exit = on_exit
        self._marker = marker
        self._limits = limits
        self._schedule = schedule
        self._processes = processes
        self._pid_start = pid_start(spawned.pid)
        self._paused = False
        self._bytes_read = 0
        self._bytes_written = 0
        self._input = bytearray()
        self._drain_waiters: list[asyncio.Future[bool]] = []
        self._last_read = 0.0
        self._timers: list[asyncio.TimerHandle] = []
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._endings: set[asyncio.Task[Ending]] = set()
        self._finished = asyncio.Event()
        self._reaped = asyncio.Event()
        self._child = Child(spawned.pid, self._ended)
        self._loop.add_reader(self._master, self._readable)

    @classmethod
    def spawn(
        cls,
        command: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        cols: int,
        rows: int,
        on_data: OnData,
        on_exit: OnExit,
        limits: PtyLimits | None = None,
        schedule: KillSchedule | None = None,
        processes: ProcessTable | None = None,
    ) -> Pty:
        """Start a program. Blocks the loop for about a millisecond.

        ``env`` is its whole environment; with ``DRAGOMAN_SESSION`` in it, descendants are found even after they left
        the terminal's session. ``schedule`` is how leftovers are ended after the program's own end. ``processes`` is
        best shared by all terminals of a server. Raises what ``spawn_on_pty`` raises.
        """
        # A marker that we carry ourselves came from an outer session: it would name our own parents.
        marker = env.get(MARKER)
        return cls(
            spawn_on_pty(command, cwd=cwd, env=env, cols=cols, rows=rows),
            (cols, rows),
            on_data,
            on_exit,
            marker=None if not marker or marker == os.environ.get(MARKER) else marker,
            limits=limits or PtyLimits(),
            schedule=schedule or KillSchedule(),
            processes=processes or ProcessTable(),
        )

    # What it is

    @property
    def pid(self) -> int | None:
        """The program's pid, which is also its process group and session; None once it ended."""
        return None if self._child.ended else self._child.pid

    @property
    def pid_start(self) -> int | None:
        """When the program started, in clock ticks since the machine's start; None where that cannot be known."""
        return self._pid_start

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self._size

    @property
    def running(self) -> bool:
        """Whether ``on_exit`` is still to come."""
        return not self._finished.is_set()

    @property
    def bytes_read(self) -> int:
        """Bytes handed to ``on_data``."""
        return self._bytes_read

    @property
    def bytes_written(self) -> int:
        """Bytes of input that the terminal has taken."""
        return self._bytes_written

    @property
    def input_waiting(self) -> int:
        """Bytes of input that the terminal has not taken yet."""
        return len(self._input)

    # What one may do with it

    def write(self, data: bytes) -> None:
        """Send input, at once where the terminal takes it. After the end it does nothing.

        Raises ``InputRefused``, with nothing written, if more than the ``input`` limit would have to wait.
        """
        if not data or self._child.ended or self._finished.is_set():
            return
        if len(self._input) + len(data) > self._limits.input:
            raise InputRefused(
                f"the program does not read: {len(self._input)} bytes wait, and {len(data)} more would pass the input "
                f"limit of {self._limits.input}"
            )
        if self._input:
            self._input += data
            return
        taken = self._write_now(data)
        if taken < len(data):
            self._input += data[taken:]
            self._loop.add_writer(self._master, self._writable)

    async def drained(self) -> bool:
        """Wait until the terminal has taken all input; False if the program ended before that."""
        if self._child.ended or self._finished.is_set():
            return False
        if not self._input:
            return True
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._drain_waiters.append(waiter)
        return await waiter

    def unread(self) -> int:
        """Bytes of input that the program has not read yet; 0 after its end."""
        if self._child.ended or self._finished.is_set():
            return 0
        return len(self._input) + unread_input(self._master)

    def resize(self, cols: int, rows: int) -> None:
        """Give the terminal a new size. Raises ``InvalidSize`` beyond 1 to 65535; after the end it does nothing."""
        check_size(cols, rows)
        if (cols, rows) == self._size or self._finished.is_set():
            return
        set_size(self._master, cols, rows)
        self._size = (cols, rows)

    def signal(self, number: int) -> None:
        """Send a signal to the program's process group; after the end it does nothing.

        Raises ``InvalidRequest`` if the program now belongs to another user.
        """
        if not self._child.ended:
            self._child.signal_group(number)

    def pause(self) -> None:
        """Stop reading; the program blocks once the kernel's buffer is full."""
        if self._paused or self._finished.is_set():
            return
        self._paused = True
        self._forget_timers()
        self._loop.remove_reader(self._master)

    def resume(self) -> None:
        """Read again."""
        if not self._paused or self._finished.is_set():
            return
        self._paused = False
        self._loop.add_reader(self._master, self._readable)
        if self._child.ended:
            self._start_draining()

    async def terminate(self, interrupt_first: bool = False, *, schedule: KillSchedule | None = None) -> bool:
        """End the program and everything that descends from it, ever more firmly (invariant 9).

        First SIGINT (``interrupt_first``) or SIGHUP, then SIGTERM, then SIGKILL, to the program's process group and
        to all others of its session or with its marker. Returns when none of them is left and the program is
        reaped; False if the program could not be ended in the schedule's time. Goes on when the caller is cancelled.
        """
        if not self._reaped.is_set():
            first = signal.SIGINT if interrupt_first else signal.SIGHUP
            await asyncio.shield(self._start_ending(first, schedule or self._schedule))
        return self._child.look_for_end()

    async def wait_closed(self) -> None:
        """Wait until nothing is left: ``on_exit`` was called, leftovers are ended, the program is reaped."""
        await self._finished.wait()
        await self._reaped.wait()

    # Output

    def _readable(self) -> None:
        # A read gives a page at most, and a turn of the loop costs as much as half of one: a few in a row, while the
        # program is that far ahead and nobody stopped us. More would make other terminals wait.
        for _ in range(READS_IN_A_ROW):
            chunk = self._read()
            if chunk is None:
                return
            if not chunk:
                self._output_over()
                return
            self._take(chunk)
            if len(chunk) < _FULL_READ or self._paused:
                return

    def _read(self) -> bytes | None:
        """What is there; empty at the end, None if there is nothing now."""
        try:
            return os.read(self._master, self._limits.read)
        except BlockingIOError:
            return None
        except OSError:  # EIO: nobody has the terminal open any more
            return b""

    def _take(self, chunk: bytes) -> None:
        self._bytes_read += len(chunk)
        if self._child.ended:
            self._last_read = self._loop.time()
        self._on_data(chunk)

    def _output_over(self) -> None:
        # The end stays readable for ever: not to stop here is a busy loop.
        self._loop.remove_reader(self._master)
        if self._child.ended:
            self._finish()
            return
        # The program lives on without its terminal. It may open it again.
        self._timers.append(self._loop.call_later(_LOOK_AGAIN, self._look_again))

    def _look_again(self) -> None:
        self._forget_timers()
        self._loop.add_reader(self._master, self._readable)

    def _forget_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    # Input

    def _write_now(self, data: bytes | bytearray) -> int:
        """How many bytes the terminal takes at once; all of them if nobody is there to read them."""
        try:
            taken = os.write(self._master, data)
        except BlockingIOError:
            return 0
        except OSError:  # EIO: the program closed its terminal
            return len(data)
        self._bytes_written += taken
        return taken

    def _writable(self) -> None:
        del self._input[: self._write_now(self._input[:_WRITE_STEP])]
        if not self._input:
            self._loop.remove_writer(self._master)
            self._wake_drained(True)

    def _drop_input(self) -> None:
        if self._input:
            self._loop.remove_writer(self._master)
            self._input.clear()
        self._wake_drained(False)

    def _wake_drained(self, taken: bool) -> None:
        waiters, self._drain_waiters = self._drain_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(taken)

    # The end

    def _ended(self) -> None:
        """The program has ended, but not necessarily its output."""
        self._drop_input()
        self._forget_timers()
        self._sweep_timer = self._loop.call_later(self._limits.drain, self._sweep)
        if not self._paused:
            self._start_draining()

    def _start_draining(self) -> None:
        now = self._last_read = self._loop.time()
        self._loop.add_reader(self._master, self._readable)
        self._timers.append(self._loop.call_at(now + self._limits.drain, self._stop_draining))
        self._timers.append(self._loop.call_at(now + self._limits.silence, self._check_silence))

    def _check_silence(self) -> None:
        quiet_at = self._last_read + self._limits.silence
        if quiet_at <= self._loop.time():
            self._stop_draining()
            return
        self._timers.append(self._loop.call_at(quiet_at, self._check_silence))

    def _stop_draining(self) -> None:
        """Others hold the terminal open. Take what the program itself left in it, if the loop was too busy to."""
        limit = self._bytes_read + _KERNEL_HOLDS
        try:
            while self._bytes_read < limit and (chunk := self._read()):
                self._take(chunk)
        finally:
            self._finish()

    def _finish(self) -> None:
        if self._finished.is_set():
            return
        self._finished.set()
        self._forget_timers()
        self._drop_input()
        self._loop.remove_reader(self._master)
        os.close(self._master)
        if self._sweep_timer:
            self._sweep_timer.cancel()
        self._sweep()
        status = self._child.status or ExitStatus(None, None)
        self._on_exit(*status)

    def _sweep(self) -> None:
        """End what the program left behind."""
        if not self._endings and not self._reaped.is_set():
            self._start_ending(signal.SIGHUP, self._schedule)

    def _start_ending(self, first: int, schedule: KillSchedule) -> asyncio.Task[Ending]:
        async def living() -> Sequence[Process]:
            return await self._living(detached=schedule.detached)

        ending = self._loop.create_task(end_processes(living, first, schedule, signal_group=self._signal_group))
        self._endings.add(ending)
        ending.add_done_callback(self._ending_over)
        return ending

    def _ending_over(self, ending: asyncio.Task[Ending]) -> None:
        self._endings.discard(ending)
        if not self._endings and self._child.look_for_end():
            self._child.reap()
            self._reaped.set()

    async def _living(self, *, detached: bool) -> list[Process]:
        """What still runs of this terminal's processes."""
        pid = self._child.pid
        marker = self._marker if detached else None
        if not self._processes.available:
            return [] if self._child.look_for_end() else [Process(pid, os.getpid(), pid, pid, UNKNOWN_START)]
        rows = await self._processes.read()
        session = None if self._child.reaped else pid  # reaped by somebody else: the number may be a stranger's by now
        # An older process with our marker would be one of those that started us.
        return [
            process
            for process in rows
            if process.session == session
            or (marker and process.marker == marker and process.start >= (self._pid_start or 0))
        ]

    def _signal_group(self, number: int) -> int | None:
        with contextlib.suppress(InvalidRequest):
            return self._child.signal_group(number)
        return None

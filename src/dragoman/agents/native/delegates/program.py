"""A program that is spoken with in lines: its input, its output, its end, and the end of all that it started.

Nothing of it outlives ``running`` (invariant 9). It carries the session's marker, as commands do, so that what a lost
server left running is found and ended by the same sweep.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from dragoman.agents.common.child import ExitStatus
from dragoman.agents.common.piped import Piped
from dragoman.agents.common.processes import Process, ProcessTable
from dragoman.agents.common.start import Start
from dragoman.agents.native.providers.port import ProviderFailed
from dragoman.agents.native.settings import DelegateSettings
from dragoman.agents.native.tools.settled import settled
from dragoman.hub.errors import InvalidRequest, LimitReached

from .lines import Lines

ERROR_TAIL = 8 * 1024
"""Bytes kept of the newest that it said on its error output."""

_READ = 64 * 1024
_DRAIN = 0.25
"""Seconds after its end for others that hold its output open; what they say later is nobody's answer."""

ASKED = 0
"""The signal that is none: for a program that was asked to break off in its own words, and is to have a moment."""


@asynccontextmanager
async def running(
    given: Start, *, session: str, processes: ProcessTable, settings: DelegateSettings
) -> AsyncIterator[LineProgram]:
    """Start it, and have no process of it left afterwards.

    Left normally, its input is closed and it may end by itself (``end_seconds``). Left by an exception, a cancellation
    too, it is ended on ``settings.ending`` before that propagates. Raises ``ProviderFailed`` where it cannot be
    started.
    """
    try:
        program = LineProgram(given, session, processes, settings)
    except (InvalidRequest, LimitReached) as problem:
        raise ProviderFailed(f"the program cannot be started: {problem}") from problem
    try:
        yield program
        await program.finish()
    except BaseException:
        await settled(program.end(program.first_signal))
        raise
    finally:
        program.close()


class LineProgram:
    """One started program. ``line`` by line it is heard, with ``write`` it is told. Made by ``running``.

    Its output is read only as far as somebody wants it, so a program that says more than is taken waits.
    """

    def __init__(self, given: Start, session: str, processes: ProcessTable, settings: DelegateSettings) -> None:
        self._loop = asyncio.get_running_loop()
        self._settings = settings
        self.first_signal: int = signal.SIGINT
        """What breaks it off first, should it have to be ended; ``ASKED`` once it was told so in its own words."""
        self._lines = Lines(settings.line_bytes)
        self._unsent = bytearray()
        self._closing_input = False
        self._errors = bytearray()
        self._changed = asyncio.Event()
        self._late_at: float | None = None
        self._piped = Piped(
            given,
            session=session,
            processes=processes,
            detached=settings.ending.detached,
            told=True,
            on_end=self._changed.set,
        )
        into, out, err = self._piped.ends
        self._into: int | None = into
        self._out: int | None = out
        self._err: int | None = err
        self._loop.add_reader(err, self._read_errors)

    # What it says

    async def line(self) -> bytes | None:
        """The next line without its end; None after the last, or once it has ended. Empty lines are left out."""
        while not self._lines:
            if not await self._more():
                return None
        return self._lines.pop()

    @property
    def skipped(self) -> int:
        """Lines left out because they were too long."""
        return self._lines.skipped

    @property
    def last_words(self) -> str:
        """The newest that it said on its error output, stripped."""
        return self._errors.decode(errors="replace").strip()

    @property
    def status(self) -> ExitStatus | None:
        """How it ended; None while it lives."""
        return self._piped.status

    # What it is told

    @property
    def listens(self) -> bool:
        """Whether it can still be told something."""
        return self._into is not None and not self._closing_input and not self._piped.ended

    def write(self, data: bytes) -> None:
        """Tell it something; kept here until it takes it, lost if it has ended."""
        if self._into is not None and not self._closing_input:
            self._unsent += data
            self._send()

    def close_input(self) -> None:
        """Tell it that nothing more comes, once it has taken what was said before."""
        self._closing_input = True
        self._send()

    # Its end

    async def over(self) -> bool:
        """Wait for its end, ``end_seconds`` at most; whether it has ended. Its last words are all there then, and what
        it says until then is nobody's concern."""
        self._discard_output()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.end_seconds):
                while not self._piped.look_for_end():
                    self._changed.clear()
                    await self._changed.wait()
        while self._read_errors():
            pass
        return self._piped.ended

    async def finish(self) -> None:
        """Let it end by itself, then end what is left of it."""
        self.close_input()
        await self.over()
        if await self._piped.living():
            await settled(self.end(signal.SIGHUP if self._piped.ended else signal.SIGTERM))

    async def end(self, first: int) -> Sequence[Process]:
        """End all its processes, ``first`` being the first signal; returns what could not be ended."""
        self._discard_output()  # one that cannot get rid of its words may not hear that it is to end
        return await self._piped.end(first, self._settings.ending)

    def close(self) -> None:
        """Let go of everything; what still runs here could not be ended."""
        for fd in (self._into, self._out, self._err):
            self._close(fd)
        self._into = self._out = self._err = None
        self._piped.close()

    # Inside

    async def _more(self) -> bool:
        """Wait for more output, and take it in; False when there will be none."""
        if self._read_output():
            return True
        if self._out is None or self._is_late():
            return False
        self._changed.clear()
        self._loop.add_reader(self._out, self._changed.set)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._late_at):
                    await self._changed.wait()
        finally:
            self._loop.remove_reader(self._out)
        return True

    def _is_late(self) -> bool:
        """Whether it ended so long ago that what still comes is somebody else's, who holds its output open."""
        if self._piped.ended and self._late_at is None:
            self._late_at = self._loop.time() + _DRAIN
        return self._late_at is not None and self._loop.time() >= self._late_at

    def _read_output(self) -> bool:
        """Take what is there; whether anything was."""
        if self._out is None:
            return False
        try:
            data = os.read(self._out, _READ)
        except BlockingIOError:
            return False
        if not data:
            self._lines.end()
            self._close(self._out)
            self._out = None
            return bool(self._lines)
        self._lines.take(data)
        return True

    def _read_errors(self) -> bool:
        """Take what is there of its error output; whether anything was."""
        if self._err is None:
            return False
        try:
            data = os.read(self._err, _READ)
        except BlockingIOError:
            return False
        if not data:
            self._close(self._err)
            self._err = None
            return False
        self._errors += data
        del self._errors[:-ERROR_TAIL]
        return True

    def _discard_output(self) -> None:
        if self._out is not None:
            self._loop.add_reader(self._out, self._drop_output)

    def _drop_output(self) -> None:
        if self._out is None:
            return
        try:
            data = os.read(self._out, _READ)
        except BlockingIOError:
            return
        if not data:
            self._close(self._out)
            self._out = None

    def _send(self) -> None:
        """Send what it takes now; the rest as soon as it takes more."""
        if self._into is None:
            return
        self._loop.remove_writer(self._into)
        try:
            while self._unsent:
                del self._unsent[: os.write(self._into, self._unsent[:_READ])]
        except BlockingIOError:
            self._loop.add_writer(self._into, self._send)
            return
        except OSError:  # it hears nothing any more: its end, or its silence, is what counts
            self._closing_input = True
        if self._closing_input:
            self._close(self._into)
            self._into = None

    def _close(self, fd: int | None) -> None:
        if fd is not None:
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
            os.close(fd)

"""A child process, watched to its end and reaped only when everything that hangs on its pid is done."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from typing import NamedTuple

from dragoman.hub.errors import InvalidRequest

from .processes import open_pidfd


class ExitStatus(NamedTuple):
    """How a program ended: the code it gave or the signal that killed it. Both None if nobody can know."""

    code: int | None
    signal: int | None


class Child:
    """A leader of its own session and process group that we started on the running loop.

    Its end is noticed without reaping it. As long as it is not reaped, the system gives its number to no other
    process, group or session, so signalling the group cannot hit a stranger. ``on_end`` is called once, on the loop.
    """

    def __init__(self, pid: int, on_end: Callable[[], None]) -> None:
        self._pid = pid
        self._on_end = on_end
        self._status: ExitStatus | None = None
        self._reaped = False
        self._loop = asyncio.get_running_loop()
        self._pidfd: int | None = None
        try:
            self._pidfd = open_pidfd(pid)
        except ProcessLookupError:  # reaped by somebody else already: look_for_end will say so
            self._loop.call_soon(self.look_for_end)
            return
        if self._pidfd is None:
            threading.Thread(target=self._wait, name=f"dragoman-child-{pid}", daemon=True).start()
        else:
            self._loop.add_reader(self._pidfd, self.look_for_end)

    @property
    def pid(self) -> int:
        """Its pid, which is also its process group and session."""
        return self._pid

    @property
    def status(self) -> ExitStatus | None:
        """How it ended; None while it lives."""
        return self._status

    @property
    def ended(self) -> bool:
        """Whether its end has been noticed."""
        return self._status is not None

    @property
    def reaped(self) -> bool:
        """Whether its pid has been given back to the system."""
        return self._reaped

    def look_for_end(self) -> bool:
        """Whether it has ended by now; reports the end if that is new."""
        if self._status is not None:
            return True
        self._status = self._poll()
        if self._status is None:
            return False
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._on_end()
        return True

    def signal_group(self, number: int) -> int | None:
        """Signal its process group and return the group's id; None once it is reaped.

        Raises ``InvalidRequest`` if the system does not let us (the program became another user's).
        """
        if self._reaped:
            return None
        try:
            os.killpg(self._pid, number)
        except ProcessLookupError:
            return None
        except PermissionError as error:
            raise InvalidRequest(
                f"process {self._pid} belongs to another user: the system does not let us signal it"
            ) from error
        return self._pid

    def reap(self) -> None:
        """Give its pid back to the system. Only after its end; a second call does nothing."""
        if self._reaped:
            return
        assert self._status is not None, "only an ended child can be reaped"
        self._reaped = True
        try:
            os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:
            return  # somebody else was faster

    def _poll(self) -> ExitStatus | None:
        try:
            ended = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            self._reaped = True
            return ExitStatus(None, None)
        if ended is None:
            return None
        if ended.si_code == os.CLD_EXITED:
            return ExitStatus(ended.si_status, None)
        return ExitStatus(None, ended.si_status)

    def _wait(self) -> None:
        """In a thread of its own, where the system has no descriptors for processes."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody wants to know any more
            self._loop.call_soon_threadsafe(self.look_for_end)

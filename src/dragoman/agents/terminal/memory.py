"""Giving memory back to the system.

Tapes are made of chunks of a few KiB. When a program has ended they are free, but glibc keeps the pages, since here
and there something small and long-lived lies between them: after a thousand programs, a hundred megabytes of nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

INTERVAL = 2.0
"""Seconds between two times that memory is given back."""


class MemoryReturn:
    """Asks the allocator, some time after programs ended, to return what is free. Does nothing where it cannot."""

    def __init__(self) -> None:
        self._trim = _find_trim()
        self._timer: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        """A program ended: give back what it held, within the interval."""
        if self._trim is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._now)

    def _now(self) -> None:
        self._timer = None
        assert self._trim is not None
        # In a thread, without the interpreter lock: it takes milliseconds on a large heap.
        asyncio.get_running_loop().run_in_executor(None, self._trim, 0)


def _find_trim() -> Callable[[int], int] | None:
    """glibc's ``malloc_trim``, where there is one."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None

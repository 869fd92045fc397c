"""Facts that a program may cause without end: titles, notifications."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.hub.events import AnyFact

NOTE_INTERVAL = 1.0
"""Seconds between two recorded titles, or notifications, of one program: a spinning title must not fill the log."""


class PacedFacts:
    """Records the newest of many facts at most once per interval; the last one is never lost."""

    def __init__(self, record: Callable[[AnyFact], None]) -> None:
        self._record = record
        self._waiting: AnyFact | None = None
        self._timer: asyncio.TimerHandle | None = None

    def put(self, fact: AnyFact) -> None:
        if self._timer is not None:
            self._waiting = fact
            return
        self._record(fact)
        self._timer = asyncio.get_running_loop().call_later(NOTE_INTERVAL, self._due)

    def flush(self) -> None:
        """Record what waits, now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._record(waiting)

    def _due(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self.put(waiting)

"""Keeping a fast program and its readers together, without letting a slow reader hold the program up.

A program can write faster than a socket takes. A reader that is just behind gets a breath: the program waits for it,
for a few milliseconds. One that has not caught up by then is on its own, and loses what the ring has passed, until it
has caught up by itself. So a reader on the same machine misses nothing, and a slow one costs the program one breath.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from dragoman.hub.ports import TapeReader, TerminalWatcher

_LOOK = 0.001
"""Seconds between two looks during a breath."""


class Pacer:
    """``pause`` and ``resume`` stop and continue the reading of the program's output. ``breath`` is in seconds."""

    def __init__(self, capacity: int, breath: float, *, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._behind = capacity * 3 // 4
        self._step = max(1, capacity // 16)
        self._breath = breath
        self._pause = pause
        self._resume = resume
        self._next_look = 0
        self._left_alone: set[TapeReader] = set()
        self._timer: asyncio.TimerHandle | None = None

    def wrote(self, end: int, watchers: Iterable[TerminalWatcher]) -> None:
        """The tape now ends at ``end``: pause if somebody is about to lose bytes for want of a moment."""
        if end < self._next_look or self._timer is not None or self._breath <= 0:
            return
        self._next_look = end + self._step
        late = {reader for watcher in watchers for reader in watcher.readers() if end - reader.offset > self._behind}
        self._left_alone &= late
        late -= self._left_alone
        if late:
            self._pause()
            deadline = asyncio.get_running_loop().time() + self._breath
            self._timer = asyncio.get_running_loop().call_later(_LOOK, self._look, end, late, deadline)

    def stop(self) -> None:
        """The program is over, or another one starts."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._left_alone.clear()
        self._next_look = 0

    def _look(self, end: int, late: set[TapeReader], deadline: float) -> None:
        late = {reader for reader in late if end - reader.offset > self._behind}
        loop = asyncio.get_running_loop()
        if late and loop.time() < deadline:
            self._timer = loop.call_later(_LOOK, self._look, end, late, deadline)
            return
        self._timer = None
        self._left_alone |= late
        self._resume()

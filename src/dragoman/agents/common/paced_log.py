"""Warnings that others can cause at will, without filling the log."""

from __future__ import annotations

import asyncio
import logging

INTERVAL = 60.0
"""Seconds between two lines of one kind."""


class PacedLog:
    """Says the first of a kind at once, then how many there were since, once per ``interval`` while there are any.

    ``kind`` is one of few. Close it: what was counted is said.
    """

    def __init__(self, log: logging.Logger, *, interval: float = INTERVAL) -> None:
        self._log = log
        self._interval = interval
        self._held: dict[str, tuple[int, str]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def warn(self, kind: str, text: str) -> None:
        """Say it, or count it."""
        if kind in self._timers:
            self._held[kind] = (self._held.get(kind, (0, ""))[0] + 1, text)
            return
        self._log.warning("%s", text)
        self._wait(kind)

    @property
    def quiet(self) -> bool:
        """Whether the next of any kind would be said at once."""
        return not self._timers

    def close(self) -> None:
        """Say what was counted."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for kind in tuple(self._held):
            self._say(kind)

    def _wait(self, kind: str) -> None:
        self._timers[kind] = asyncio.get_running_loop().call_later(self._interval, self._due, kind)

    def _due(self, kind: str) -> None:
        del self._timers[kind]
        if kind in self._held:
            self._say(kind)
            self._wait(kind)

    def _say(self, kind: str) -> None:
        count, text = self._held.pop(kind)
        self._log.warning("%s (%d more since the last such line)", text, count)

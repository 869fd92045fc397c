"""How work in a thread is told to end early."""

from __future__ import annotations

import threading


class Stopped(Exception):
    """Whoever asked for the work has gone."""


class Stop:
    """Set by whoever asked, looked at by the one who works: between two pieces, and while it waits."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask for the end. The work undoes what it did and raises ``Stopped``."""
        self._event.set()

    def check(self) -> None:
        """Raises ``Stopped`` if the end was asked for."""
        if self._event.is_set():
            raise Stopped

    def pause(self, seconds: float) -> None:
        """Wait. Raises ``Stopped``."""
        if self._event.wait(seconds):
            raise Stopped

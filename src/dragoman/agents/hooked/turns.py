"""Which turn a post is of, where the agent says so: what comes late is told from what goes on."""

from __future__ import annotations

from collections import deque

REMEMBERED = 32
"""Turns that are over, of which posts may still come."""


class Turns:
    """The turns of one session by the agent's own names for them; None is a turn without a name."""

    def __init__(self) -> None:
        self._newest: str | None = None
        self._stopped = False
        self._over: deque[str] = deque(maxlen=REMEMBERED)

    def seen(self, turn: str | None) -> None:
        """Something of it came: of one that nobody knew it is the first."""
        if turn is None or turn == self._newest or turn in self._over:
            return
        if self._newest is not None:
            self._over.append(self._newest)
        self._newest, self._stopped = turn, False

    def stopped(self, turn: str | None) -> None:
        """It came to its end, though its agent may go on with it."""
        self._stopped = self._stopped or turn == self._newest

    def over(self, turn: str | None) -> bool:
        """Whether a later one has begun."""
        return turn is not None and turn in self._over

    def goes_on(self, turn: str | None) -> bool:
        """Whether it is the newest one, for certain, and has not stopped."""
        return turn is not None and turn == self._newest and not self._stopped

    def has_stopped(self, turn: str | None) -> bool:
        """Whether it is the newest one, for certain, and has stopped."""
        return turn is not None and turn == self._newest and self._stopped

"""Replies that wait for their place: none overtakes what the log said before it was made."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

LATE = 256
"""Bytes that a frame counts for which is made when it leaves."""


class Replies:
    """Frames in the order they were made, each with the cursor that its link must have reached first.

    So an error that refuses a second prompt comes after the echo of the first, although the disk takes a moment for
    that. ``limit`` is in bytes; a link with more than that is read no further.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[tuple[int, bytes | Callable[[], bytes]]] = deque()
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._bytes >= self._limit

    def put(self, frame: bytes | Callable[[], bytes], after: int) -> None:
        """Add a reply behind the others; one that depends on what was sent before it, as what makes it."""
        self._waiting.append((after, frame))
        self._bytes += _size(frame)

    def take(self, cursor: int) -> bytes | None:
        """The oldest reply, if the link is far enough."""
        if not self._waiting or self._waiting[0][0] > cursor:
            return None
        _, frame = self._waiting.popleft()
        self._bytes -= _size(frame)
        return frame if isinstance(frame, bytes) else frame()

    def release(self) -> None:
        """The disk does not take what they wait for: let them go as they are."""
        self._waiting = deque((0, frame) for _, frame in self._waiting)


def _size(frame: bytes | Callable[[], bytes]) -> int:
    return len(frame) if isinstance(frame, bytes) else LATE

"""Fair turns: a link's streams are asked one after the other, so that a flood on one cannot starve the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Stream:
    """Something that a link has to say, kept as a cursor. Says nothing before ``begin``."""

    __slots__ = ("_ring", "ended", "queued")

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self.queued = True
        self.ended = False

    def begin(self) -> None:
        """The client knows of the stream: its frames may come."""
        self.queued = False
        self.ready()

    def ready(self) -> None:
        """There may be something to pull. May be called at any time; costs next to nothing while it waits its turn."""
        if not self.queued and not self.ended:
            self._ring.add(self)

    def pull(self) -> bytes | None:
        """The next frame, or None when there is nothing to say for now. Never raises."""
        raise NotImplementedError

    def end(self) -> None:
        """Say no more and let go of everything."""
        self.ended = True


class Ring:
    """The streams that may have something to say, in the order of their turns."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._ready: deque[Stream] = deque()
        self._wake = wake

    def add(self, stream: Stream) -> None:
        """Give ``stream`` a turn behind the others."""
        stream.queued = True
        self._ready.append(stream)
        self._wake()

    def pull(self) -> bytes | None:
        """The next frame of whoever's turn it is."""
        ready = self._ready
        while ready:
            stream = ready.popleft()
            frame = None if stream.ended else stream.pull()
            if frame is not None:
                ready.append(stream)
                return frame
            stream.queued = False
        return None

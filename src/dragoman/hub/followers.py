"""Reading a log by cursor: the newest events from memory, older ones from the journal.

A follower holds a cursor, not a queue. It costs the same however slowly its reader reads, and it can neither lose nor
repeat an event: what it hands out next is always ``cursor + 1``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import TYPE_CHECKING

from .events import Event

if TYPE_CHECKING:
    from .limits import HubLimits
    from .log import SessionLog


log = logging.getLogger("dragoman.followers")

_BESIDE = 200
"""Bytes that an event takes in memory beside its fact, about."""


class Tail:
    """The newest durable events of one session, bounded in count and bytes."""

    def __init__(self, limits: HubLimits, seq: int) -> None:
        self._limits = limits
        self._events: deque[tuple[Event, int]] = deque()
        self._bytes = 0
        self._last = seq

    @property
    def first(self) -> int:
        """The lowest ``seq`` still here (one past the newest when nothing is)."""
        return self._last - len(self._events) + 1

    def append(self, event: Event, encoded: int) -> None:
        """Add the next event, whose fact is so many bytes as JSON, and let go of what is too old."""
        assert event.seq == self._last + 1
        events, size = self._events, _BESIDE + encoded
        events.append((event, size))
        self._bytes += size
        self._last = event.seq
        while len(events) > self._limits.tail_events or self._bytes > self._limits.tail_bytes:
            self._bytes -= events.popleft()[1]

    def after(self, cursor: int, limit: int) -> list[Event] | None:
        """Up to ``limit`` events after ``cursor``, or None when they lie further back than memory reaches."""
        skip = cursor + 1 - self.first
        if skip < 0:
            return None
        new = self._last - cursor
        if new <= limit and new < skip:  # who keeps up must not pay for all that it has seen
            newest = [event for event, _ in islice(reversed(self._events), new)]
            newest.reverse()
            return newest
        return [event for event, _ in islice(self._events, skip, skip + limit)]


class Follower:
    """One reader's place in one session's log."""

    def __init__(self, session: SessionLog, after: int) -> None:
        self._session = session
        self.cursor = after

    @property
    def behind(self) -> bool:
        """Whether there is something to read."""
        return self.cursor < self._session.shown.seq

    def take(self, limit: int | None = None) -> list[Event] | None:
        """The next events, without waiting; an empty list when there are none.

        None means that they are in the journal only: call ``fetch``.
        """
        events = self._session.recent(self.cursor, limit)
        if events:
            self.cursor = events[-1].seq
        return events

    async def fetch(self, limit: int | None = None) -> list[Event]:
        """The next events, from the journal where memory does not reach back far enough."""
        events = await self._session.read(self.cursor, limit)
        if events:
            self.cursor = events[-1].seq
        return events

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Every event after the cursor, for ever."""
        woken = asyncio.Event()
        stop = self._session.watch(woken.set)
        try:
            while True:
                woken.clear()
                for event in await self.fetch():
                    yield event
                if not self.behind:
                    await woken.wait()
        finally:
            stop()


class Watchers:
    """Callbacks that are told, on the event loop, that there is something new. They must return at once."""

    def __init__(self) -> None:
        self._callbacks: dict[object, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._callbacks)

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` on every change until the returned function is called."""
        token = object()
        self._callbacks[token] = callback

        def stop() -> None:
            self._callbacks.pop(token, None)

        return stop

    def tell(self) -> None:
        """Call them all. One that fails is logged, and in nobody else's way."""
        for callback in tuple(self._callbacks.values()):
            try:
                callback()
            except Exception:
                log.exception("a watcher failed")

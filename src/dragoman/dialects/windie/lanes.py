"""The queries of one user by conversation: in each, one after the other, in the order in which they came.

A query sets what its session runs with, and must not change the turn before it: so it begins once that turn is over.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .link import WindieLink


class Place:
    """A query's place in its conversation. ``begun``: its prompt is in the log, and is stopped there."""

    def __init__(self, link: WindieLink, ref: str, message_id: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.link = link
        self.ref = ref
        self.message_id = message_id
        self.begun = False
        self._task = task

    async def given_up(self) -> None:
        """Give up a query that has not begun; returns once nothing of it goes on. It is answered with nothing."""
        self.give_up()
        await asyncio.wait({self._task})

    def give_up(self) -> None:
        """As ``given_up``, without waiting. From here on it submits no prompt."""
        self._task.cancel()


class Lanes:
    """See the module."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._places: dict[tuple[str, str], Place] = {}
        self._holds: Counter[str | None] = Counter()
        self._freed = asyncio.Event()

    def knows(self, ref: str, message_id: str) -> bool:
        """Whether this query waits or runs."""
        return (ref, message_id) in self._places

    def waiting(self, ref: str | None = None, message_id: str | None = None) -> Iterable[Place]:
        """The queries that have not begun, of this conversation and with this id where they are given."""
        return [
            place
            for place in self._places.values()
            if not place.begun and ref in (None, place.ref) and message_id in (None, place.message_id)
        ]

    @contextmanager
    def held(self, ref: str | None) -> Iterator[None]:
        """Let no query begin meanwhile in this conversation; None: in any."""
        self._holds[ref] += 1
        try:
            yield
        finally:
            self._holds[ref] -= 1
            if not self._holds[ref]:
                del self._holds[ref]
            self._freed.set()
            self._freed = asyncio.Event()

    @asynccontextmanager
    async def turn(self, link: WindieLink, ref: str, message_id: str, *, query: bool = True) -> AsyncIterator[Place]:
        """Wait for the queries before this one, and have those behind it wait. One that ``knows`` has no second place.

        It is given up by cancelling the task that waits here; what is no ``query`` never is.
        """
        place = self._places[ref, message_id] = Place(link, ref, message_id)
        place.begun = not query
        lock = self._locks.setdefault(ref, asyncio.Lock())
        try:
            async with lock:
                while query and (self._holds[ref] or self._holds[None]):
                    await self._freed.wait()
                yield place
        finally:
            del self._places[ref, message_id]
            if all(other.ref != ref for other in self._places.values()):
                self._locks.pop(ref, None)

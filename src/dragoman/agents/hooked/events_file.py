"""A file of hook posts that scripts append to (spec §8): what is appended from now on is taken as if it were posted."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from dragoman.agents.common.tail import LogTail
from dragoman.hub.errors import LimitReached, StorageUnavailable
from dragoman.hub.limits import HubLimits
from dragoman.hub.log import SessionLog
from dragoman.hub.ports import HookPost

AT_ONCE = 64
"""Posts that are taken before others have their turn."""


class Taker(Protocol):
    """What posts are given to: ``Intake``."""

    def accept(self, post: HookPost) -> tuple[SessionLog, int] | None: ...
    async def take(self, post: HookPost) -> None: ...


class EventsFile:
    """``open`` and ``look`` are called in a thread, ``give`` in the loop while they are not."""

    def __init__(self, path: Path, taker: Taker, limits: HubLimits, *, say: Callable[[str], None]) -> None:
        self._path = path
        self._taker = taker
        self._limits = limits
        self._say = say
        self._tail: LogTail | None = None
        self._waiting: deque[dict[str, Any]] = deque()

    @property
    def behind(self) -> bool:
        """Whether there is more than was read."""
        return self._tail is not None and self._tail.behind

    @property
    def waits(self) -> bool:
        """Whether something that was read is not taken yet."""
        return bool(self._waiting)

    def open(self) -> None:
        """From here on; one that is not there yet is read from its beginning."""
        self._tail = LogTail(self._path, self._limits, from_end=True, rejoin=True, say=self._say)

    def look(self) -> None:
        """Read what was appended, once what was read before is taken."""
        if self._tail is not None and not self._waiting and self._tail.stirred():
            self._waiting.extend(self._tail.records())

    async def give(self) -> None:
        """Have it taken, in order. What storage refuses waits for the next time."""
        last: tuple[SessionLog, int] | None = None
        try:
            for count in range(len(self._waiting)):
                last = await self._taken(self._waiting[0]) or last
                self._waiting.popleft()
                if count % AT_ONCE == AT_ONCE - 1:
                    await asyncio.sleep(0)
            if last is not None:  # no more of them at once than the disk can keep
                await last[0].durable(last[1])
        except StorageUnavailable as problem:
            self._say(f"what {self._path.name} says waits: {problem}")

    async def _taken(self, payload: dict[str, Any]) -> tuple[SessionLog, int] | None:
        post = HookPost(payload=payload, channel="file")
        try:
            accepted = self._taker.accept(post)
            if accepted is None:
                await self._taker.take(post)
        except LimitReached as problem:
            self._say(f"a line of {self._path.name} is left out: {problem}")
            return None
        return accepted

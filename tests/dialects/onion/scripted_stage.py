"""What decides when the scripted host goes on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


class Stage:
    """Lets the model's calls begin (``step``) and end (``answer``), and ``slow`` return, as often as was allowed.

    While it is ``free``, all of them may.
    """

    def __init__(self, *, free: bool = True) -> None:
        self.free = free
        self._allowed = dict.fromkeys(("step", "answer", "slow"), 0)
        self._used = dict.fromkeys(("step", "answer", "slow"), 0)
        self._news = asyncio.Condition()

    async def allow(self, what: str) -> None:
        """One more of these may happen."""
        async with self._news:
            self._allowed[what] += 1
            self._news.notify_all()

    async def set_free(self, free: bool) -> None:
        """From now on nothing waits; or else only what was not allowed yet."""
        async with self._news:
            self.free = free
            self._allowed = dict(self._used)
            self._news.notify_all()

    async def wait(self, what: str) -> None:
        """Until it is allowed."""
        async with self._news:
            await self._news.wait_for(lambda: self.free or self._used[what] < self._allowed[what])
            self._used[what] += 1


@dataclass(frozen=True)
class Ways:
    """What all turns of a host have in common: see ``FakeHostFactory``."""

    stage: Stage
    folder: str
    thinks: bool

"""Time that stands until a test moves it: one for the loop's timers and for the clock that the hub is given.

A test may pass ten minutes in no time, and nothing can happen early because a machine was slow.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any

PATIENCE = 20.0
"""Real seconds that a test waits for something that must happen."""

BEGIN = 1_800_000_000_000
"""What time it is when a test begins, in milliseconds since 1970."""


class Stuck(AssertionError):
    """Everything waits for something that does not come."""


class _Selector(selectors.DefaultSelector):
    """Notices when there is nothing left to do but to wait for time, which nobody moves."""

    def __init__(self) -> None:
        super().__init__()
        self._idle_since: float | None = None

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is not None and timeout <= 0:
            self._idle_since = None
            return super().select(0)
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        if now - self._idle_since > PATIENCE:
            raise Stuck(f"nothing happened for {PATIENCE:g} s, and time stands")
        found = super().select(0.05)
        if found:
            self._idle_since = None
        return found


class ManualLoop(asyncio.SelectorEventLoop):
    """A loop whose time only ``ManualClock`` moves."""

    def __init__(self) -> None:
        self.moment = 1000.0
        self.in_threads = 0
        super().__init__(_Selector())

    def time(self) -> float:
        return self.moment

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self.in_threads += 1
        future.add_done_callback(self._back)
        return future

    def _back(self, _: object) -> None:
        self.in_threads -= 1

    @property
    def next_timer(self) -> float | None:
        """When the next thing is due."""
        return min((handle.when() for handle in self._scheduled if not handle.cancelled()), default=None)  # type: ignore[attr-defined]

    @property
    def ready(self) -> int:
        """How much waits to be run beside whoever asks."""
        return len(self._ready)  # type: ignore[attr-defined]


class ManualClock:
    """Implements the hub's ``Clock`` on the running loop's time."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ManualLoop)
        self._loop = loop
        self._begin = loop.moment

    def now(self) -> int:
        return BEGIN + round((self._loop.moment - self._begin) * 1000)

    def monotonic(self) -> float:
        return self._loop.moment

    async def settle(self) -> None:
        """Let everything happen that can without more time."""
        quiet = 0
        deadline = time.monotonic() + PATIENCE
        while quiet < 3:
            await asyncio.sleep(0)
            if self._loop.in_threads:
                time.sleep(0.0005)
                quiet = 0
            quiet = quiet + 1 if not self._loop.ready else 0
            if time.monotonic() > deadline:
                raise Stuck("it never comes to rest")

    async def jump(self, seconds: float) -> None:
        """Move time at once: what is due meanwhile happens late."""
        await self.settle()
        self._loop.moment += seconds
        await self.settle()

    async def advance(self, seconds: float) -> None:
        """Move time from one timer to the next."""
        target = self._loop.moment + seconds
        await self.settle()
        while (due := self._loop.next_timer) is not None and due <= target:
            self._loop.moment = max(self._loop.moment, due)
            await self.settle()
        self._loop.moment = target
        await self.settle()


async def until(condition: Callable[[], Any], what: object = "") -> Any:
    """Wait, without any time passing, until it holds; what it returned."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        await asyncio.sleep(0)
        if time.monotonic() > deadline:
            raise Stuck(f"not: {what() if callable(what) else what}")
    return value


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run it in a loop of its own, where time stands."""
    with asyncio.Runner(loop_factory=ManualLoop) as runner:
        return runner.run(main)


def timed(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that runs where time stands."""

    @functools.wraps(test)
    def run_test(*args: Any, **kwargs: Any) -> None:
        run(test(*args, **kwargs))

    return run_test

"""An owner for every background task: none is fire-and-forget, and all end with their owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger("dragoman.tasks")


class TaskOwner:
    """Holds the tasks of one part of the program; an unexpected failure is logged, never swallowed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run ``work`` until it ends or the owner does."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self._name}:{name}")
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("task %s failed", task.get_name(), exc_info=failure)

    async def close(self, budget: float) -> None:
        """Cancel what still runs and wait for it, ``budget`` seconds at most."""
        for task in self._tasks:
            task.cancel()
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=budget)
        for task in late:
            log.warning("task %s did not stop within %.1f s", task.get_name(), budget)

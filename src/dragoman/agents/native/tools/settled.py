"""Waiting for what must not be left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def settled(work: Coroutine[Any, Any, T], *, on_cancel: Callable[[], None] | None = None) -> T:
    """Await ``work``; when cancelled, wait for its end all the same, and then let the cancellation go on.

    For a thread that changes files, say: it cannot be stopped, and nobody may think that it has been. ``on_cancel``
    tells work that can be hurried.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
            if on_cancel is not None:
                on_cancel()
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # nobody is left to hear of it, and the loop would report it as forgotten
    raise cancelled

"""A bridge of a few lines, what it says, and what a client makes of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.client.cin import CinClient, CinOptions
from dragoman.client.cin_place import Message
from tests.client import few_lines

QUICK = CinOptions(first_retry=0.001, longest_retry=0.01, answer_limit=5.0)

Talk = Callable[["Served"], Awaitable[None]]


class Served(few_lines.Served):
    """One connection, seen from the server."""

    async def begin(self, *sessions: Message, history: list[Message] | None = None) -> None:
        """``init``, and an answer to the history that is asked for with it."""
        await self.tell(init(*sessions))
        await self.hear("get_history")
        await self.tell({"type": "history", "data": history or []})


def server(talk: Talk) -> contextlib.AbstractAsyncContextManager[str]:
    """A server that has this talk on each connection; an assertion that fails there fails the test."""
    return few_lines.serving(talk, Served)


def session(name: str, **more: Any) -> Message:
    return {"id": name, "name": name, "type": "external", "agent": "claude", "status": "idle", **more}


def init(*sessions: Message) -> Message:
    return {"type": "init", "data": {"sessions": list(sessions)}}


def event(number: int, of: str = "s1", **more: Any) -> Message:
    return {"id": f"ev-{number}", "type": "stop", "sessionId": of, "timestamp": number, **more}


def told(number: int, of: str = "s1", **more: Any) -> Message:
    return {"type": "event", "data": event(number, of, **more)}


async def heard(client: CinClient, count: int) -> list[str]:
    """The ids of the next so many events."""
    names: list[str] = []
    async with asyncio.timeout(10):
        async for one in client.events():
            names.append(one["id"])
            if len(names) == count:
                break
    return names


async def until(client: CinClient, kind: str) -> list[Message]:
    """The next frames, up to one of that type."""
    frames: list[Message] = []
    async with asyncio.timeout(10):
        async for frame in client.frames():
            frames.append(frame)
            if frame["type"] == kind:
                break
    return frames


def names(first: int, last: int) -> list[str]:
    return [f"ev-{number}" for number in range(first, last + 1)]


class Clock:
    """Waits of which a test says when they are over. ``asked`` is how long each was to be, in their order."""

    def __init__(self, *, by_itself: bool = False) -> None:
        self.asked: list[float] = []
        self._by_itself = by_itself
        self._waiting: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        if self._by_itself:
            await asyncio.sleep(0)
            return
        over = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait(over)
        await over

    async def ring(self) -> None:
        """End the next wait, once there is one."""
        async with asyncio.timeout(10):
            over = await self._waiting.get()
        over.set_result(None)

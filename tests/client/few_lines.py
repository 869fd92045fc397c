"""A server of a few lines, which says on each connection what a test has it say."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from websockets.asyncio.server import ServerConnection, serve

Message = dict[str, Any]


class Served:
    """One connection, seen from the server; ``number`` counts them from 1."""

    def __init__(self, socket: ServerConnection, number: int) -> None:
        self.socket = socket
        self.number = number

    async def tell(self, *frames: Message) -> None:
        for frame in frames:
            await self.socket.send(json.dumps(frame))

    async def hear(self, kind: str) -> Message:
        """The next message, which must be of that type."""
        message: Message = json.loads(await self.socket.recv())
        assert message["type"] == kind, message
        return message

    async def cut(self) -> None:
        self.socket.transport.abort()


ServedT = TypeVar("ServedT", bound=Served)


@contextlib.asynccontextmanager
async def serving(
    talk: Callable[[ServedT], Awaitable[None]], served: Callable[[ServerConnection, int], ServedT]
) -> AsyncIterator[str]:
    """A server that has this talk on each connection; an assertion that fails there fails the test."""
    problems: list[BaseException] = []
    connections = 0

    async def on_connection(socket: ServerConnection) -> None:
        nonlocal connections
        connections += 1
        try:
            await talk(served(socket, connections))
            await socket.wait_closed()
        except AssertionError as problem:
            problems.append(problem)

    async with serve(on_connection, "127.0.0.1", 0) as listening:
        port = next(iter(listening.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}/ws"
    for problem in problems:
        raise problem

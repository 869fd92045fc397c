"""One connection to a Windie server that makes itself again, and the requests that wait on it.

Each begins with the handshake, which the server answers with start-up events, or not at all, or by closing with 1008.
A query that went out on a connection that was cut is over: the server ends its turn with the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from dragoman.client.errors import ClientError, ConnectionLost, Refused
from dragoman.client.framed_connection import FramedConnection, FramedOptions, FramedOwner
from dragoman.client.reconnecting import FINAL_CLOSES, Sleep

from .errors import ReconnectFailed
from .requests import Message, Request, read


@dataclass(frozen=True, kw_only=True)
class WindieOptions(FramedOptions):
    """Limits of a client. Times are seconds, sizes are bytes."""

    answer_limit: float = 60.0
    """For one answer, reconnecting included; then ``TimeoutError``."""

    first_retry: float = 1.0
    """Pause before the first attempt to reconnect; it doubles: 1, 2, 4, 8, 16. Each is cut by up to half at random."""

    longest_retry: float = 16.0
    """Longest pause between two attempts."""

    attempts: int = 5
    """Attempts to connect again that may fail in a row; then ``ReconnectFailed``."""

    frame_backlog: int = 0
    """Frames that wait for ``frames()``, from which on the socket is not read; 0 keeps none for it."""

    startup_limit: float = 1.0
    """After the handshake, for the server's first words: a server may have none, and then is taken to be content."""

    refusal_limit: float = 0.5
    """For an error after a message that has no answer where it is accepted (``rehydrate``)."""

    ping_every: float = 20.0
    """Between two pings of the WebSocket."""

    pong_limit: float = 20.0
    """For the answer to one; then the connection counts as dead."""

    event_backlog: int = 4096
    """Events that are kept of a turn until they are read; then the oldest go (``EventsMissed``)."""

    turns_kept: int = 64
    """Turns that are known after their end."""

    tool_limit: float = 60.0
    """For one call of a tool that says no limit of its own; then it has failed."""


class Owner(FramedOwner, Protocol):
    """Who is told what happens on a connection."""

    def greeting(self) -> Message:
        """The handshake."""

    def on_let_in(self) -> None:
        """There is a connection that the server took."""

    def on_answer(self, request: Request, frame: Message) -> None:
        """This is what answers it: told at once, before the next frame is read, and before who waits goes on."""

    def on_frame(self, frame: Message) -> None:
        """A frame came that answers nobody."""


class Connection(FramedConnection[Request, Owner]):
    """See the module. ``count`` is how many connections there were that the server took."""

    final_closes = FINAL_CLOSES - {1000}  # a server that stops may say so

    def __init__(self, headers: dict[str, str], options: WindieOptions, owner: Owner, sleep: Sleep) -> None:
        super().__init__("windie client", headers, options, owner, sleep=sleep)
        self._options = options
        self._failures = 0

    # Inside

    def _encoded(self, request: Request) -> Message:
        request.sent = True
        return request.message

    def _was_cut(self) -> ClientError | None:
        self._failures = 0
        self._owner.on_cut()
        return self._came_to_nothing()

    def _came_to_nothing(self) -> ClientError | None:
        self._failures += 1
        if self._failures <= self._options.attempts:
            return None
        return ReconnectFailed(self._options.attempts, self.problem)

    async def _serve(self, socket: ClientConnection) -> None:
        await socket.send(json.dumps(self._owner.greeting()))
        first = await self._first(socket)
        self.connected = True
        self.count += 1
        self._owner.on_let_in()
        self._more.set()
        try:
            async with self._writing(socket), self._pinging(socket):
                while True:
                    if first is not None and (frame := read(first)) is not None:
                        self._received(frame)
                        await self._owner.room()
                    first = await socket.recv()
        finally:
            self._sort_out()

    async def _first(self, socket: ClientConnection) -> str | bytes | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.startup_limit):
                return await socket.recv()
        return None

    @contextlib.asynccontextmanager
    async def _pinging(self, socket: ClientConnection) -> AsyncIterator[None]:
        """As long as this lasts, the server is asked now and then whether it is there, and cut off if it is not."""
        pinging = asyncio.get_running_loop().create_task(self._ping(socket), name=f"{self._name} pings")
        try:
            yield
        finally:
            pinging.cancel()
            await asyncio.wait({pinging})

    async def _ping(self, socket: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await asyncio.sleep(self._options.ping_every)
                try:
                    async with asyncio.timeout(self._options.pong_limit):
                        await (await socket.ping())
                except TimeoutError:
                    self.problem = "the server has gone silent"
                    socket.transport.abort()
                    return

    def _received(self, frame: Message) -> None:
        kind, name = frame["type"], frame.get("id")
        for waiting in self._unanswered:
            same = waiting.request.id == name or (name is None and kind == waiting.request.reply)
            if same and kind in {waiting.request.reply, "error"}:
                self._unanswered.remove(waiting)
                if kind == "error":
                    waiting.fail(Refused("error", str(frame["payload"].get("message", "")), frame))
                else:
                    self._owner.on_answer(waiting.request, frame)
                    waiting.succeed(frame)
                return
        self._owner.on_frame(frame)

    def _sort_out(self) -> None:
        """What only reads is asked again; what may have been carried out is lost; results were for this connection."""
        self._lose([waiting for waiting in self._unanswered if not waiting.request.again])
        self._again()
        for waiting in [waiting for waiting in self._outgoing if not waiting.request.lasts]:
            self._drop(waiting)
            waiting.fail(ConnectionLost("the connection was cut before this was sent"))

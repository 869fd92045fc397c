"""One connection to a bridge that makes itself again, and the requests that wait on it.

Each begins with the bridge's ``init``. Then the client says again what it wants to hear, and asks for the history,
which tells what it missed. All that waits for an answer only reads, so it is asked again where a cut came first.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Protocol

from websockets.asyncio.client import ClientConnection

from . import cin_requests as requests
from .cin_place import Message
from .cin_requests import Request, data_of, read
from .errors import ClientError, ConnectionLost
from .framed_connection import FramedConnection, FramedOptions, FramedOwner, Waiting
from .reconnecting import FINAL_CLOSES, Sleep


@dataclass(frozen=True, kw_only=True)
class CinOptions(FramedOptions):
    """Limits of a client. Times are seconds, sizes are bytes."""

    first_retry: float = 1.0
    """Pause before the first attempt to reconnect; it doubles, with a random part, up to ``longest_retry``."""

    longest_retry: float = 30.0
    """Longest pause between two attempts."""

    attempts: int | None = None
    """Attempts to connect again that may fail in a row; then ``ConnectionLost``. None: any number."""

    ping_every: float = 30.0
    """Between two ``ping``."""

    pong_limit: float = 10.0
    """After a ``ping``, for anything at all to be heard; then the connection counts as dead."""

    catch_up: int = 1000
    """Events that are asked for to find those that were missed."""

    history_limit: float = 5.0
    """For the answer to that. A server that gave none on the first connection is not asked again."""


class Owner(FramedOwner, Protocol):
    """Who is told what happens on a connection."""

    def greeting(self) -> Iterable[Request]:
        """What is said first on each connection."""

    def wants_history(self) -> bool:
        """Whether the history is to be asked for on each connection."""

    def on_init(self, frame: Message) -> None:
        """There is a connection."""

    def on_history(self, events: object) -> None:
        """What the history says that was asked for with the connection; None where no answer came."""

    def on_frame(self, frame: Message) -> None:
        """A frame came that answers nobody."""


class Connection(FramedConnection[Request, Owner]):
    """See the module. ``count`` is how many connections there were."""

    final_closes = FINAL_CLOSES - {1000}  # bridges end a link like that when they stop

    def __init__(self, headers: dict[str, str], options: CinOptions, owner: Owner, sleep: Sleep) -> None:
        super().__init__("cin client", headers, options, owner, sleep=sleep)
        self._options = options
        self._failures = 0
        self._heard = 0
        self._full = False
        """Whether nothing is read at the moment, because what was read waits."""
        self._catching_up: Waiting[Request] | None = None
        self._unasked = False
        """Whether a history comes that nobody asked for: dashboards are greeted with one, after ``connected``."""

    # Inside

    def _encoded(self, request: Request) -> Message:
        return request.message

    def _drop(self, waiting: Waiting[Request]) -> None:
        """An answer is known by its turn alone: who waits no longer for a history keeps the place."""
        if waiting.request.reply != "history" or waiting not in self._unanswered:
            super()._drop(waiting)

    def _was_cut(self) -> ClientError | None:
        self._failures = 0
        if not self._owner.on_cut():
            return ConnectionLost("the connection was cut")
        return self._came_to_nothing()

    def _came_to_nothing(self) -> ClientError | None:
        self._failures += 1
        if self._options.attempts is None or self._failures <= self._options.attempts:
            return None
        return ConnectionLost(f"no connection after {self._failures} attempts: {self.problem}")

    async def _serve(self, socket: ClientConnection) -> None:
        init = await self._init(socket)
        try:
            async with self._writing(socket), self._pinging(socket):
                self._begin(init)
                while True:
                    frame = read(await socket.recv())
                    self._heard += 1
                    if frame is not None:
                        self._received(frame)
                        await self._room()
        finally:
            self._sort_out()

    async def _init(self, socket: ClientConnection) -> Message:
        """The first frame. Whatever comes before it is not for us."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.connect_limit):
                while True:
                    frame = read(await socket.recv())
                    if frame is not None and frame["type"] == "init":
                        return frame
        raise TimeoutError(f"no init within {self._options.connect_limit:g} s")

    def _begin(self, init: Message) -> None:
        self.connected = True
        self.count += 1
        self._unasked = False
        self._owner.on_init(init)
        self._again()
        if self._owner.wants_history():
            self._catch_up()
        for request in reversed(list(self._owner.greeting())):
            self._outgoing.appendleft(Waiting(request))
        self._more.set()

    def _catch_up(self) -> None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Message] = loop.create_future()
        answer.add_done_callback(lambda over: over.cancelled() or over.exception())  # nobody waits for it
        asked = Waiting(requests.history(self._options.catch_up), answer)
        self._catching_up = asked
        self._outgoing.appendleft(asked)
        loop.call_later(self._options.history_limit, self._no_history, asked, answer)

    def _no_history(self, asked: Waiting[Request], answer: asyncio.Future[Message]) -> None:
        """It was waited for long enough. The answer that may still come is to this one, so that it keeps its place."""
        answer.cancel()
        self._caught_up(asked, None)

    def _caught_up(self, asked: Waiting[Request], events: object) -> None:
        if self._catching_up is asked:
            self._catching_up = None
            self._owner.on_history(events)

    async def _room(self) -> None:
        self._full = True
        try:
            await self._owner.room()
        finally:
            self._full = False

    @contextlib.asynccontextmanager
    async def _pinging(self, socket: ClientConnection) -> AsyncIterator[None]:
        """As long as this lasts, the bridge is asked now and then whether it is there, and cut off if it is not."""
        pinging = asyncio.get_running_loop().create_task(self._ping(socket), name=f"{self._name} pings")
        try:
            yield
        finally:
            pinging.cancel()
            await asyncio.wait({pinging})

    async def _ping(self, socket: ClientConnection) -> None:
        while True:
            await self._sleep(self._options.ping_every)
            heard = self._heard
            try:
                await self.ask(requests.ping(), self._options.pong_limit)
            except TimeoutError:
                if self._heard == heard and not self._full:
                    self.problem = "the server has gone silent"
                    socket.transport.abort()
                    return

    def _received(self, frame: Message) -> None:
        kind = frame["type"]
        if kind == "connected":
            self._unasked = True
        elif kind == "history" and self._unasked:
            self._unasked = False
            return
        if kind not in {"history", "pong"}:
            self._owner.on_frame(frame)
            return
        waiting = next((waiting for waiting in self._unanswered if waiting.request.reply == kind), None)
        if waiting is None:
            return
        self._unanswered.remove(waiting)
        self._caught_up(waiting, data_of(frame))
        waiting.succeed(frame)

    def _sort_out(self) -> None:
        """What had no answer is asked again if somebody still waits; what was for that connection alone is not sent."""
        catching_up, self._catching_up = self._catching_up, None
        for waiting in [*self._unanswered, *self._outgoing]:
            over = waiting.answer is not None and waiting.answer.done()
            if waiting is catching_up or over or not waiting.request.lasts:
                super()._drop(waiting)

"""A connection that carries one JSON message a frame, and the requests that wait on it.

What is sent while there is no connection waits, and goes out once. What had no answer when a connection was cut is up
to the protocol: it says itself what may go out a second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from .errors import ClientError, ConnectionLost
from .reconnecting import ConnectionOptions, Reconnecting, Sleep

Message = dict[str, Any]
"""A frame, as on the wire."""

RequestT = TypeVar("RequestT")
"""What a protocol calls a request."""


@dataclass(frozen=True, kw_only=True)
class FramedOptions(ConnectionOptions):
    """Limits of a client that hands frames over. Times are seconds, sizes are bytes."""

    frame_backlog: int = 4096
    """Frames that wait for ``frames()``, from which on the socket is not read; 0 keeps none for it."""


@dataclass(eq=False, slots=True)
class Waiting(Generic[RequestT]):
    """A request on its way. ``answer`` is None where nobody waits for one."""

    request: RequestT
    answer: asyncio.Future[Message] | None = None

    def succeed(self, frame: Message) -> None:
        """This is the answer."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(frame)

    def fail(self, error: ClientError) -> None:
        """There will be no answer."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error)


class FramedOwner(Protocol):
    """Who is told what happens on a connection, in any protocol."""

    def url(self) -> str:
        """Where to connect to now."""

    async def room(self) -> None:
        """Wait until there is room for more frames: until then nothing is read."""

    def on_cut(self) -> bool:
        """There is no connection any more; returns whether another one is to be tried."""

    def on_end(self, error: ClientError) -> None:
        """There will be no other connection."""


OwnerT = TypeVar("OwnerT", bound=FramedOwner)
"""Who is told by a protocol's own connection."""


class FramedConnection(Reconnecting, Generic[RequestT, OwnerT]):
    """See the module. ``connected`` says whether there is a connection now that requests go out on."""

    def __init__(
        self,
        name: str,
        headers: dict[str, str],
        options: ConnectionOptions,
        owner: OwnerT,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(name, headers, options, sleep=sleep)
        self.connected = False
        self._owner = owner
        self._outgoing: deque[Waiting[RequestT]] = deque()
        self._unanswered: list[Waiting[RequestT]] = []
        self._more = asyncio.Event()

    def send(self, request: RequestT) -> None:
        """Send it now, or with the next connection. Raises what ended the connection for good."""
        self._put(Waiting(request), self._outgoing)

    async def ask(self, request: RequestT, limit: float) -> Message:
        """Send it and return its answer. Raises ``Refused``, ``ConnectionLost``, ``TimeoutError``, and as ``send``."""
        return await self._ask(request, limit, self._outgoing)

    # What a protocol says

    @abstractmethod
    def _encoded(self, request: RequestT) -> Message:
        """The message that says it, on the connection that there is."""

    def _due(self) -> deque[Waiting[RequestT]] | None:
        """The queue whose first request may be sent now, if any may."""
        return self._outgoing or None

    def _held(self) -> tuple[list[Waiting[RequestT]] | deque[Waiting[RequestT]], ...]:
        """Everywhere a request may be, in the order in which they fail at the end."""
        return self._unanswered, self._outgoing

    # For a protocol

    async def _ask(self, request: RequestT, limit: float, queue: deque[Waiting[RequestT]]) -> Message:
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        waiting = Waiting(request, answer)
        self._put(waiting, queue)
        try:
            async with asyncio.timeout(limit):
                return await answer
        finally:
            self._drop(waiting)

    def _put(self, waiting: Waiting[RequestT], queue: deque[Waiting[RequestT]]) -> None:
        if self.final is not None:
            raise self.final
        queue.append(waiting)
        self._more.set()

    def _lose(self, lost: Collection[Waiting[RequestT]]) -> None:
        """Give up these of the unanswered requests: they may have been carried out, or not."""
        for waiting in lost:
            self._unanswered.remove(waiting)
            waiting.fail(ConnectionLost("the connection was cut before the answer came"))

    def _again(self) -> None:
        """Put what is unanswered before all that waits."""
        self._outgoing.extendleft(reversed(self._unanswered))
        self._unanswered.clear()

    @contextlib.asynccontextmanager
    async def _writing(self, socket: ClientConnection) -> AsyncIterator[None]:
        """As long as this lasts, what is due is sent; then there is no connection any more."""
        writing = asyncio.get_running_loop().create_task(self._write(socket), name=f"{self._name} writes")
        try:
            yield
        finally:
            self.connected = False
            writing.cancel()
            await asyncio.wait({writing})

    # Inside

    async def _write(self, socket: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self._more.wait()
                self._more.clear()
                while (queue := self._due()) and socket.state is State.OPEN:  # else it waits for the next connection
                    waiting = queue.popleft()
                    if waiting.answer is not None:
                        self._unanswered.append(waiting)
                    await socket.send(json.dumps(self._encoded(waiting.request)))

    def _drop(self, waiting: Waiting[RequestT]) -> None:
        for held in self._held():
            if waiting in held:
                held.remove(waiting)

    def _address(self) -> str:
        return self._owner.url()

    def _end(self, error: ClientError) -> None:
        if self.final is None:
            self.final = error
        left = [waiting for held in self._held() for waiting in held]
        for held in self._held():
            held.clear()
        for waiting in left:
            waiting.fail(error)
        self._owner.on_end(error)

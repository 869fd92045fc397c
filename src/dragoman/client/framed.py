"""What the clients have in common that hand frames over, one after the other, whatever happens to the connection."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from .errors import ClientClosed, ClientError
from .framed_connection import FramedConnection, FramedOptions, Message, RequestT

MarkT = TypeVar("MarkT")
"""How a protocol names the place that a client has reached in its session."""

_ANSWERS_KEPT = 64
"""Answers that are kept, to be given again where the cut connection may have lost them."""


class FramedClient(ABC, Generic[RequestT, MarkT]):
    """See the module. Who derives from it makes ``_connection`` before it begins; ``after`` is where it goes on."""

    _connection: FramedConnection[RequestT, Any]

    def __init__(self, options: FramedOptions, after: MarkT | None) -> None:
        self.options = options
        self._handled = after
        self._given = after
        """The place after the frame that was handed over last: once the next one is asked for, it is handled."""
        self._frames: deque[Message] = deque()
        self._answers: OrderedDict[str, RequestT] = OrderedDict()
        self._watchers: set[asyncio.Future[None]] = set()
        self._iterating = False

    # Life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @abstractmethod
    async def start(self) -> None:
        """Connect, and return once the session is there. Raises ``Denied``, ``TimeoutError``."""

    @abstractmethod
    async def close(self) -> None:
        """End the connection."""

    @property
    def connected(self) -> bool:
        """Whether there is a connection now that the server let in."""
        return self._connection.connected

    @property
    def connections(self) -> int:
        """How many such connections there have been."""
        return self._connection.count

    # Hearing

    def frames(self) -> AsyncIterator[Message]:
        """Every frame that says anything new, in order, from the one that made the connection on; ends with ``close``.

        May be left and taken up again; what comes meanwhile waits. While nobody iterates, so many frames wait
        (``frame_backlog``); then nothing more is read, and requests wait as well. Raises ``Denied`` or
        ``ConnectionLost`` when there will be no other connection.
        """
        return _Frames(self._next)

    # For the connection

    async def room(self) -> None:
        """Wait until there is room for more frames: until then nothing is read."""
        if len(self._frames) > self.options.frame_backlog:
            await self._until(lambda: len(self._frames) <= self.options.frame_backlog)

    def on_end(self, error: ClientError) -> None:  # noqa: ARG002  who waits is given it
        """There will be no other connection."""
        self._tell()

    # For a protocol

    @abstractmethod
    def _mark(self, frame: Message) -> MarkT | None:
        """The place that is reached with this frame, where it says one."""

    async def _begin(self, is_there: Callable[[], bool]) -> None:
        """Connect, and return once it is true. Raises ``Denied``, ``TimeoutError``; then the client is closed."""
        self._connection.start()
        try:
            async with asyncio.timeout(self.options.answer_limit):
                await self._until(is_there)
        except TimeoutError:
            await self.close()
            problem = self._connection.problem
            raise TimeoutError(f"no session within {self.options.answer_limit:g} s: {problem}") from None
        except BaseException:
            await self.close()
            raise

    async def _leave(self) -> None:
        await self._connection.close(ClientClosed("the client is closed"))

    def _send(self, request: RequestT) -> None:
        """Send it now, or with the next connection. Raises what ended the connection for good."""
        self._connection.send(request)

    def _respond(self, request_id: str, request: RequestT) -> None:
        """The same, and keep it, to be given again."""
        self._send(request)
        self._answers[request_id] = request
        if len(self._answers) > _ANSWERS_KEPT:
            self._answers.popitem(last=False)

    def _hand_over(self, frame: Message) -> None:
        """Have this frame wait for ``frames``; ``_tell`` says that it does."""
        if self.options.frame_backlog:
            self._frames.append(frame)

    def _tell(self) -> None:
        """Something changed that somebody may wait for."""
        for watcher in self._watchers:
            if not watcher.done():
                watcher.set_result(None)

    async def _until(self, is_true: Callable[[], bool]) -> None:
        """Wait for a change that makes it true. Raises what ended the connection for good."""
        while not is_true():
            if self._connection.final is not None:
                raise self._connection.final
            watcher = asyncio.get_running_loop().create_future()
            self._watchers.add(watcher)
            try:
                await watcher
            finally:
                self._watchers.discard(watcher)

    # Inside

    async def _next(self) -> Message:
        """The frame that is due; the one before it is handled."""
        if self._iterating:
            raise RuntimeError("somebody waits for this client's next frame already")
        if self._given is not None:
            self._handled = self._given
        self._iterating = True
        try:
            await self._until(lambda: bool(self._frames))
        finally:
            self._iterating = False
        frame = self._frames.popleft()
        mark = self._mark(frame)
        self._given = self._given if mark is None else mark
        self._tell()
        return frame


class _Frames(AsyncIterator[Message]):
    """What ``frames`` gives."""

    def __init__(self, next_frame: Callable[[], Awaitable[Message]]) -> None:
        self._next_frame = next_frame

    async def __anext__(self) -> Message:
        try:
            return await self._next_frame()
        except ClientClosed:
            raise StopAsyncIteration from None

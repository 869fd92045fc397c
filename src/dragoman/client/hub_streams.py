"""What a hub client follows: logs and terminals, each with a place that moves only after its handler returned.

A stream holds what has come and was not handled yet, bounded: when that is too much it tells the server to stop, and
asks again later from the same place. So a slow handler loses nothing and holds up nobody, not even its own connection.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from .errors import ClientError, Refused

log = logging.getLogger("dragoman.client")

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """A fact with its place in a session's log. ``first`` is lower than ``seq`` when deltas were joined."""

    session: str
    seq: int
    first: int
    at: int
    epoch: str
    fact: Message


@dataclass(frozen=True, slots=True)
class Output:
    """Raw bytes of a terminal that start at ``offset``."""

    session: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Skipped:
    """Bytes between ``start`` and ``end`` were missed: the server does not hold them any more."""

    session: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Resized:
    """The terminal has this size from ``offset`` on."""

    session: str
    cols: int
    rows: int
    offset: int


@dataclass(frozen=True, slots=True)
class Started:
    """A program was started: the terminal's ``run``-th. Its first byte is at ``offset``."""

    session: str
    run: int
    offset: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The terminal's ``run``-th program ended, and all its bytes came before this."""

    session: str
    run: int
    code: int | None
    signal: int | None
    cause: str
    offset: int


TerminalItem = Output | Skipped | Resized | Started | Ended

T = TypeVar("T")
Handler = Callable[[T], Awaitable[None] | None]

_LATER = frozenset({"storage_unavailable", "internal", "limit_reached"})
"""Refusals that may be over after a while."""


class Asker(Protocol):
    """What a stream needs of its client."""

    def begin(self, stream: Stream[Any]) -> None:
        """Ask the server for the stream, if there is a connection."""

    def pause(self, stream: Stream[Any]) -> None:
        """Ask the server to stop."""

    def begin_later(self, stream: Stream[Any]) -> None:
        """Ask again after a while."""

    def forget(self, stream: Stream[Any]) -> None:
        """The stream is over."""


class Stream(Generic[T]):
    """Base of both. ``position`` is acknowledged: the handler has returned for everything up to it."""

    begin_op = ""
    pause_op = ""

    def __init__(self, client: Asker, session: str, handler: Handler[T], position: int | None, most: int) -> None:
        self.session = session
        self.position = position
        self._client = client
        self._handler = handler
        self._received = position
        self._waiting: deque[tuple[T, int, int]] = deque()
        self._held = 0
        self._most = most
        self._live = False
        self._full = False
        self._error: ClientError | None = None
        self._news = asyncio.Event()
        self._reached: list[tuple[int, asyncio.Future[None]]] = []
        self._task = asyncio.get_running_loop().create_task(self._work(), name=f"{self.begin_op}:{session}")
        self._task.add_done_callback(self._ended)

    # For its user

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self._task.done()

    async def reached(self, position: int) -> None:
        """Wait until everything up to ``position`` was handled. Raises what ended the stream, if that comes first."""
        if (self.position or 0) >= position:
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reached.append((position, reached))
        await asyncio.wait({reached, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not reached.done():
            await self.wait()

    async def wait(self) -> None:
        """Wait until the stream is over. Raises ``Refused`` (``gone``, say), ``Denied`` or what the handler raised."""
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()

    async def stop(self) -> None:
        """End it; what came and was not handled yet is left at the server."""
        self._task.cancel()
        await asyncio.wait({self._task})

    # For the client

    @property
    def wanted(self) -> bool:
        """Whether the server should send it."""
        return not (self._full or self._error is not None or self.over)

    def request(self) -> Message:
        """What to ask the server: to go on behind everything that came."""
        raise NotImplementedError

    def accepted(self, answer: Message) -> None:  # noqa: ARG002
        """The server said yes: what comes from now on is ours."""
        self._live = True

    def refused(self, error: Refused) -> None:
        """The server said no, or ended the stream."""
        self._live = False
        if error.code in _LATER:
            self._client.begin_later(self)
        else:
            self.fail(error)

    def cut(self) -> None:
        """The connection is gone; what came is kept."""
        self._live = False

    def fail(self, error: ClientError) -> None:
        """End it once everything that came is handled."""
        self._error = error
        self._live = False
        self._news.set()

    # Inside

    def _take(self, item: T, position: int, size: int) -> None:
        self._received = position
        self._waiting.append((item, position, size))
        self._held += size
        self._news.set()
        if self._held > self._most and not self._full:
            self._full = True
            self._live = False
            self._client.pause(self)

    async def _work(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                item, position, size = self._waiting[0]
                result = self._handler(item)
                if inspect.isawaitable(result):
                    await result
                self._waiting.popleft()
                self._held -= size
                self._acknowledge(position)
            if self._error is not None:
                raise self._error
            if self._full:
                self._full = False
                self._client.begin(self)

    def _acknowledge(self, position: int) -> None:
        self.position = position
        if self._reached:
            for wanted, reached in self._reached:
                if wanted <= position and not reached.done():
                    reached.set_result(None)
            self._reached = [(wanted, reached) for wanted, reached in self._reached if wanted > position]

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._live = False
        self._waiting.clear()
        self._client.forget(self)
        if not task.cancelled() and not isinstance(failure := task.exception(), ClientError):
            log.error("the handler of %s %s failed", self.begin_op, self.session, exc_info=failure)


class Following(Stream[Event]):
    """A followed log; ``position`` is its cursor."""

    begin_op = "follow"
    pause_op = "unfollow"

    def __init__(
        self, client: Asker, session: str, handler: Handler[Event], after: int | None, most: int, *, coalesce: bool
    ) -> None:
        self._coalesce = coalesce
        super().__init__(client, session, handler, after, most)

    @property
    def cursor(self) -> int | None:
        """The newest ``seq`` that was handled; None before it is known where to start."""
        return self.position

    def request(self) -> Message:
        asked: Message = {"op": "follow", "session": self.session, "coalesce": self._coalesce}
        return asked if self._received is None else {**asked, "after": self._received}

    def accepted(self, answer: Message) -> None:
        if self._received is None:
            self.position = self._received = answer["after"]
        super().accepted(answer)

    def events(self, batch: list[Message], size: int) -> None:
        """A batch came. Only what continues the log is taken; anything else belongs to an earlier request."""
        for given in batch:
            if not self._live:
                return
            seq = given["seq"]
            first = given.get("first", seq)
            if first != (self._received or 0) + 1:
                continue
            event = Event(self.session, seq, first, given["at"], given["epoch"], given["fact"])
            self._take(event, seq, size // len(batch))


class Attachment(Stream[TerminalItem]):
    """An attached terminal; ``position`` is the offset after the last byte handled, ``run`` counts its programs."""

    begin_op = "attach"
    pause_op = "detach"

    def __init__(
        self, client: Asker, session: str, handler: Handler[TerminalItem], offset: int | None, most: int
    ) -> None:
        self.handle: int | None = None
        self.run = 0
        self._ended_run = 0
        self._lost = False
        super().__init__(client, session, handler, offset, most)

    @property
    def offset(self) -> int | None:
        """Offset after the last byte that was handled; None before it is known where to start."""
        return self.position

    def request(self) -> Message:
        asked: Message = {"op": "attach", "session": self.session}
        return asked if self._received is None or self._lost else {**asked, "offset": self._received}

    def refused(self, error: Refused) -> None:
        """An offset beyond the tape: its newest bytes were lost with a server. Go on at its end."""
        if error.code == "invalid_request" and self._received is not None and not self._lost:
            self._lost = True
            self._client.begin(self)
        else:
            super().refused(error)

    def accepted(self, answer: Message) -> None:
        super().accepted(answer)
        self._lost = False
        self.handle, self.run = answer["handle"], answer["run"]
        offset, place = answer["offset"], self._received
        if place is None:
            self.position = self._received = offset
        elif offset != place:
            self._take(Skipped(self.session, place, offset), offset, 0)

    def output(self, offset: int, data: bytes) -> None:
        """Bytes came."""
        if self._live and offset == self._received:
            self._take(Output(self.session, offset, data), offset + len(data), len(data))

    def mark(self, message: Message) -> None:
        """Something else about the terminal came."""
        if not self._live:
            return
        place = self._received or 0
        match message["type"]:
            case "skipped" if message["from"] == place:
                self._take(Skipped(self.session, place, message["to"]), message["to"], 0)
            case "resized":
                self._take(Resized(self.session, message["cols"], message["rows"], message["offset"]), place, 0)
            case "started":
                self.run = message["run"]
                self._take(Started(self.session, message["run"], message["offset"]), place, 0)
            case "ended" if message["run"] > self._ended_run:
                self._ended_run = message["run"]
                fields = {name: message[name] for name in ("run", "code", "signal", "cause", "offset")}
                self._take(Ended(self.session, **fields), place, 0)

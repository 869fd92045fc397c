"""One connection to a hub that makes itself again, and the requests that wait for their answers on it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from .errors import ClientError, ConnectionLost, Denied, Refused
from .hub_streams import Message
from .reconnecting import ConnectionOptions, Reconnecting

log = logging.getLogger("dragoman.client")

PROTOCOL = 1
"""The version of the protocol that is spoken here."""


@dataclass(frozen=True, kw_only=True)
class ClientOptions(ConnectionOptions):
    """Limits of a hub client. Times are seconds, sizes are bytes."""

    silent_heartbeats: float = 2.5
    """Heartbeats that may be missed in a row before the connection counts as dead."""

    stream_backlog: int = 8 * 1024 * 1024
    """What one stream holds for its handler before it tells the server to stop for now."""


@dataclass(slots=True)
class _Request:
    """One that waits for its answer. ``again``: it may be sent a second time without doing harm."""

    text: str
    again: bool
    sent: bool
    answered: Callable[[Message], None]
    lost: Callable[[ClientError], None]


class Owner(Protocol):
    """Who is told what happens on a connection."""

    def on_connected(self) -> None:
        """There is a connection: ask for what is wanted."""

    def on_cut(self) -> None:
        """There is none any more; another one is tried."""

    def on_message(self, message: Message, size: int) -> None:
        """A text message that answers no request."""

    def on_output(self, data: bytes) -> None:
        """A binary message."""

    def on_end(self, error: ClientError) -> None:
        """There will be no other connection."""


class Connection(Reconnecting):
    """See the module. ``hello`` is what the server said first, ``count`` how many connections there were."""

    def __init__(self, url: str, headers: dict[str, str], options: ClientOptions, owner: Owner) -> None:
        super().__init__("hub client", headers, options)
        self.hello: Message | None = None
        self.wire: Wire | None = None
        self._url = url
        self._options = options
        self._owner = owner
        self._requests: dict[int, _Request] = {}
        self._number = 0

    # Requests

    def ask(
        self,
        message: Message,
        *,
        again: bool,
        answered: Callable[[Message], None],
        lost: Callable[[ClientError], None],
    ) -> int:
        """Send a request now or, without a connection, as soon as there is one; returns its number.

        ``answered`` is called within the step that reads the answer, before any later message is looked at. Raises
        ``Refused`` ``too_large``, or what ended the connection for good.
        """
        if self.final is not None:
            raise self.final
        self._number += 1
        text = json.dumps({"id": self._number, **message})
        most = self.hello["limits"]["message"] if self.hello is not None else None
        if most is not None and len(text) > most:
            raise Refused("too_large", f"the server takes messages of {most} bytes")
        self._requests[self._number] = _Request(text, again, self.wire is not None, answered, lost)
        if self.wire is not None:
            self.wire.put(text)
        return self._number

    def forget(self, number: int) -> None:
        """Nobody waits for this request any more."""
        self._requests.pop(number, None)

    # Inside

    def _address(self) -> str:
        return self._url

    def _was_cut(self) -> ClientError | None:
        """What was asked waits for the next one."""
        return None

    async def _serve(self, socket: ClientConnection) -> None:
        hello = await self._greeted(socket)
        link = Wire(socket)
        writing = asyncio.get_running_loop().create_task(link.work(), name="hub client writes")
        try:
            self._connected(link, hello)
            await self._read(socket, float(hello["heartbeat"]) * self._options.silent_heartbeats)
        finally:
            self._cut()
            writing.cancel()
            link.cut()
            await asyncio.wait({writing})

    async def _greeted(self, socket: ClientConnection) -> Message:
        async with asyncio.timeout(self._options.connect_limit):
            first = await socket.recv()
        hello = json.loads(first)
        if hello.get("type") != "hello" or hello["protocol"] != PROTOCOL:
            raise Denied(f"this is not protocol {PROTOCOL} of the dragoman hub")
        return dict(hello)

    async def _read(self, socket: ClientConnection, limit: float) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(limit) as silence:
            async for data in socket:
                silence.reschedule(loop.time() + limit)
                if isinstance(data, bytes):
                    self._owner.on_output(data)
                else:
                    self._received(json.loads(data), len(data))

    def _received(self, message: Message, size: int) -> None:
        if "id" not in message:
            self._owner.on_message(message, size)
        elif (request := self._requests.pop(message["id"], None)) is not None:
            request.answered(message)

    def _connected(self, wire: Wire, hello: Message) -> None:
        self.wire, self.hello = wire, hello
        self.count += 1
        for request in self._requests.values():
            request.sent = True
            wire.put(request.text)
        self._owner.on_connected()

    def _cut(self) -> None:
        self.wire = None
        self._owner.on_cut()
        for number, request in list(self._requests.items()):
            if request.again:
                request.sent = False
            elif request.sent:
                del self._requests[number]
                request.lost(ConnectionLost("the connection was cut before the answer came"))

    def _end(self, error: ClientError) -> None:
        if self.final is None:
            self.final = error
        requests, self._requests = self._requests, {}
        for request in requests.values():
            request.lost(error)
        self._owner.on_end(error)


class Wire:
    """What goes out on one connection, in order."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._queue: asyncio.Queue[tuple[str | bytes, asyncio.Future[None] | None]] = asyncio.Queue()

    def put(self, data: str | bytes, sent: asyncio.Future[None] | None = None) -> None:
        """Send this behind the rest; ``sent`` is told when it is on its way."""
        self._queue.put_nowait((data, sent))

    async def work(self) -> None:
        """Send until the connection ends."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                data, sent = await self._queue.get()
                try:
                    await self._socket.send(data)
                except BaseException:
                    _fail(sent)
                    raise
                if sent is not None and not sent.done():
                    sent.set_result(None)

    def cut(self) -> None:
        """The connection is gone: whoever waits for the rest to be sent learns that it was not."""
        while not self._queue.empty():
            _fail(self._queue.get_nowait()[1])


def _fail(sent: asyncio.Future[None] | None) -> None:
    if sent is not None and not sent.done():
        sent.set_exception(ConnectionLost("the connection is gone"))

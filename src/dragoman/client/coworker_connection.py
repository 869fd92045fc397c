"""One connection to a coworker server that makes itself again, and the requests that wait on it.

What is sent while there is no connection waits, and goes out once, with the id of the session that the next connection
has. What was sent when a connection was cut goes out a second time only to the same session, and only where that does
no harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from . import coworker_requests as requests
from .coworker_place import Message
from .coworker_requests import Request
from .errors import ClientError, ConnectionLost, Denied, Refused
from .reconnecting import ConnectionOptions, Reconnecting

log = logging.getLogger("dragoman.client")

PROTOCOL = "3.0"
"""The version of the protocol that is spoken here."""


@dataclass(frozen=True, kw_only=True)
class CoworkerOptions(ConnectionOptions):
    """Limits of a client. Times are seconds, sizes are bytes."""

    heartbeat: float = 20.0
    """Of silence, after which the server is asked whether it is there; after as long again the connection is dead."""

    frame_backlog: int = 4096
    """Frames that wait for ``frames()``, from which on the socket is not read; 0 keeps none for it."""


@dataclass(eq=False, slots=True)
class Waiting:
    """A request on its way. ``answer`` is None where nobody waits for one."""

    request: Request
    answer: asyncio.Future[Message] | None

    def fail(self, error: ClientError) -> None:
        """There will be no answer."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error)


class Owner(Protocol):
    """Who is told what happens on a connection."""

    def url(self) -> str:
        """Where to connect to now."""

    @property
    def lasting(self) -> bool:
        """Whether the next connection may have the session that this one has."""

    def on_hello(self, hello: Message) -> bool:
        """There is a connection; returns whether it has the session that the one before had."""

    def on_frame(self, frame: Message, *, answers: bool) -> None:
        """A frame came; ``answers``: somebody waited for it."""

    async def room(self) -> None:
        """Wait until there is room for more frames: until then nothing is read."""

    def on_cut(self) -> bool:
        """There is no connection any more; returns whether another one is to be tried."""

    def on_end(self, error: ClientError) -> None:
        """There will be no other connection."""


class Connection(Reconnecting):
    """See the module. ``session`` is that of the newest connection, ``count`` how many connections there were."""

    def __init__(self, headers: dict[str, str], options: CoworkerOptions, owner: Owner) -> None:
        super().__init__("coworker client", headers, options)
        self.connected = False
        self.session: str | None = None
        self._options = options
        self._owner = owner
        self._outgoing: deque[Waiting] = deque()
        self._unanswered: list[Waiting] = []
        self._more = asyncio.Event()

    def send(self, request: Request) -> None:
        """Send it now, or with the next connection. Raises what ended the connection for good."""
        self._put(Waiting(request, None))

    async def ask(self, request: Request, limit: float) -> Message:
        """Send it and return its answer. Raises ``Refused``, ``ConnectionLost``, ``TimeoutError``, and as ``send``."""
        waiting = Waiting(request, asyncio.get_running_loop().create_future())
        assert waiting.answer is not None
        self._put(waiting)
        try:
            async with asyncio.timeout(limit):
                return await waiting.answer
        finally:
            self._drop(waiting)

    # Inside

    def _put(self, waiting: Waiting) -> None:
        if self.final is not None:
            raise self.final
        self._outgoing.append(waiting)
        self._more.set()

    def _drop(self, waiting: Waiting) -> None:
        for held in (self._outgoing, self._unanswered):
            if waiting in held:
                held.remove(waiting)

    def _address(self) -> str:
        return self._owner.url()

    def _was_cut(self) -> ClientError | None:
        self._lose(lambda waiting: not (waiting.request.again and self._owner.lasting))
        if self._owner.on_cut():
            return None
        return ConnectionLost("the connection was cut, and its session with it")

    async def _serve(self, socket: ClientConnection) -> None:
        async with asyncio.timeout(self._options.connect_limit):
            hello = json.loads(await socket.recv())
        if hello.get("type") != "server_hello" or hello["protocolVersion"] != PROTOCOL:
            raise Denied(f"this is not protocol {PROTOCOL} of agent-coworker")
        writing = asyncio.get_running_loop().create_task(self._write(socket), name="coworker client writes")
        try:
            self._joined(hello)
            self._owner.on_frame(hello, answers=False)
            await self._read(socket)
        finally:
            self.connected = False
            writing.cancel()
            await asyncio.wait({writing})

    async def _read(self, socket: ClientConnection) -> None:
        silent = 0
        while True:
            try:
                async with asyncio.timeout(self._options.heartbeat):
                    data = await socket.recv()
            except TimeoutError:
                silent += 1
                if silent > 1:
                    raise
                self._put(Waiting(requests.ping(), None))
            else:
                silent = 0
                await self._received(json.loads(data))

    def _joined(self, hello: Message) -> None:
        self.session = hello["sessionId"]
        self.connected = True
        self.count += 1
        if not self._owner.on_hello(hello):
            self._lose(lambda _: True)
        self._outgoing.extendleft(reversed(self._unanswered))
        self._unanswered.clear()
        self._more.set()

    def _lose(self, is_lost: Callable[[Waiting], bool]) -> None:
        """Give up those of the unanswered requests that will not be sent again."""
        for waiting in [waiting for waiting in self._unanswered if is_lost(waiting)]:
            self._unanswered.remove(waiting)
            waiting.fail(ConnectionLost("the connection was cut before the answer came"))

    async def _write(self, socket: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self._more.wait()
                self._more.clear()
                while self._outgoing and socket.state is State.OPEN:  # else it waits for the next connection
                    waiting = self._outgoing.popleft()
                    if waiting.answer is not None:
                        self._unanswered.append(waiting)
                    message = waiting.request.message
                    await socket.send(json.dumps({"type": message["type"], "sessionId": self.session, **message}))

    async def _received(self, frame: Message) -> None:
        """Hand it over first, and then give it to who waits for it: so an answer is never seen before its frame."""
        answered = self._take(lambda request: request.is_answer(frame))
        refused = None if answered is not None else self._take(lambda request: request.is_refusal(frame))
        self._owner.on_frame(frame, answers=answered is not None or refused is not None)
        if answered is not None and not answered.done():
            answered.set_result(frame)
        if refused is not None and not refused.done():
            refused.set_exception(Refused(frame["code"], frame["message"], frame))
        await self._owner.room()

    def _take(self, is_for: Callable[[Request], bool]) -> asyncio.Future[Message] | None:
        """What the oldest such request waits with; it waits no longer."""
        waiting = next((waiting for waiting in self._unanswered if is_for(waiting.request)), None)
        if waiting is None:
            return None
        self._unanswered.remove(waiting)
        return waiting.answer

    def _end(self, error: ClientError) -> None:
        if self.final is None:
            self.final = error
        left = [*self._unanswered, *self._outgoing]
        self._unanswered.clear()
        self._outgoing.clear()
        for waiting in left:
            waiting.fail(error)
        self._owner.on_end(error)

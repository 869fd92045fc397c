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
import random
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.protocol import State

from . import coworker_requests as requests
from .coworker_place import Message
from .coworker_requests import Request
from .errors import ClientClosed, ClientError, ConnectionLost, Denied, Refused
from .hub_connection import FINAL_CLOSES, PASSING_STATUSES

log = logging.getLogger("dragoman.client")

PROTOCOL = "3.0"
"""The version of the protocol that is spoken here."""


@dataclass(frozen=True, kw_only=True)
class CoworkerOptions:
    """Limits of a client. Times are seconds, sizes are bytes."""

    connect_limit: float = 10.0
    """For one connection to be made, and its ``server_hello`` to come."""

    answer_limit: float = 30.0
    """For one answer, reconnecting included; then ``TimeoutError``."""

    first_retry: float = 0.05
    """Pause before the first attempt to reconnect; it doubles, with a random part, up to ``longest_retry``."""

    longest_retry: float = 5.0
    """Longest pause between two attempts."""

    heartbeat: float = 20.0
    """Of silence, after which the server is asked whether it is there; after as long again the connection is dead."""

    message_limit: int = 64 * 1024 * 1024
    """Largest message taken from the server."""

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


class Connection:
    """See the module. ``session`` is that of the newest connection, ``count`` how many connections there were."""

    def __init__(self, headers: dict[str, str], options: CoworkerOptions, owner: Owner) -> None:
        self.connected = False
        self.count = 0
        self.session: str | None = None
        self.final: ClientError | None = None
        self._headers = headers
        self._options = options
        self._owner = owner
        self._outgoing: deque[Waiting] = deque()
        self._unanswered: list[Waiting] = []
        self._more = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to connect, in the background."""
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(), name="coworker client")

    async def close(self) -> None:
        """Stop for good; what waits fails with ``ClientClosed``."""
        self._end(ClientClosed("the client is closed"))
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

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

    async def _run(self) -> None:
        pause = self._options.first_retry
        while True:
            known = self.count
            try:
                await self._connect()
            except Denied as error:
                self._end(error)
                return
            except (OSError, TimeoutError, EOFError, InvalidHandshake, ConnectionClosed) as error:
                log.debug("no connection: %r", error)
            except Exception as error:
                log.exception("the server cannot be understood")
                self._end(Denied(f"the server cannot be understood: {error!r}"))
                return
            if self.count > known:
                self._lose(lambda waiting: not (waiting.request.again and self._owner.lasting))
                pause = self._options.first_retry
                if not self._owner.on_cut():
                    self._end(ConnectionLost("the connection was cut, and its session with it"))
                    return
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  spreads clients, guards nothing
            pause = min(2 * pause, self._options.longest_retry)

    async def _connect(self) -> None:
        """One connection, from its beginning to its end. Raises ``Denied`` when there should be no other."""
        options = self._options
        try:
            async with connect(
                self._owner.url(),
                additional_headers=self._headers,
                open_timeout=options.connect_limit,
                close_timeout=1.0,
                ping_interval=None,  # nobody answers the library's while we do not read
                max_size=options.message_limit,
                compression=None,
                proxy=None,
            ) as socket:
                await self._serve(socket)
        except InvalidStatus as error:
            status = error.response.status_code
            if status >= 500 or status in PASSING_STATUSES:
                raise
            raise Denied(f"the server refuses the connection: HTTP {status}", status=status) from error
        except (InvalidURI, ssl.SSLCertVerificationError) as error:
            raise Denied(str(error)) from error
        except ConnectionClosed as error:
            code = error.rcvd.code if error.rcvd is not None else 1006
            if code in FINAL_CLOSES or code >= 4000:
                raise Denied(f"the server ended the connection for good: {code}", close_code=code) from error

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

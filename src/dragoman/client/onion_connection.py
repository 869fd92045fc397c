"""One connection to a ConnectOnion server that makes itself again, and the requests that wait on it.

Each begins with a CONNECT of its own. What is sent while nobody is connected waits and goes out once. What had no
answer when a connection was cut goes out a second time only where that does no harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from .errors import ClientError, ConnectionLost, Denied, Refused
from .onion_place import Message
from .onion_requests import INTERRUPTED, Request, is_reply
from .reconnecting import ConnectionOptions, Reconnecting

log = logging.getLogger("dragoman.client")

_IDS_KEPT = 256
"""Ids of prompts that were acknowledged, so that one that is acknowledged twice is known."""


@dataclass(frozen=True, kw_only=True)
class OnionOptions(ConnectionOptions):
    """Limits of a client. Times are seconds, sizes are bytes."""

    silence: float = 75.0
    """Of hearing nothing, after which the connection counts as dead: the server says PING every 30."""

    frame_backlog: int = 4096
    """Frames that wait for ``frames()``, from which on the socket is not read; 0 keeps none for it."""

    again: bool = True
    """Whether prompts and answers that a cut may have lost are sent again, under the same ``input_id`` and
    ``request_id``. To a server that ignores these a prompt would be two, and an answer be to what it asks next."""


@dataclass(eq=False, slots=True)
class Waiting:
    """A request on its way. ``answer`` is None where nobody waits for one."""

    request: Request
    answer: asyncio.Future[Message] | None

    def succeed(self, frame: Message) -> None:
        """This is the answer."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(frame)

    def fail(self, error: ClientError) -> None:
        """There will be no answer."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error)


class Owner(Protocol):
    """Who is told what happens on a connection."""

    @property
    def running(self) -> bool:
        """Whether a turn runs, as far as was heard."""

    def url(self) -> str:
        """Where to connect to now."""

    def greeting(self) -> Message:
        """The CONNECT of the next connection."""

    def on_gate(self, frame: Message | None) -> None:
        """The server wants more than a signature (ONBOARD_REQUIRED), or does not any longer (None)."""

    def on_connected(self, frame: Message) -> None:
        """There is a connection."""

    def on_frame(self, frame: Message) -> bool:
        """A frame came; returns whether it was not known already."""

    async def room(self) -> None:
        """Wait until there is room for more frames: until then nothing is read."""

    def on_cut(self) -> bool:
        """There is no connection any more; returns whether another one is to be tried."""

    def on_end(self, error: ClientError) -> None:
        """There will be no other connection."""


class Connection(Reconnecting):
    """See the module. ``count`` is how many connections there were that the server let in."""

    def __init__(self, headers: dict[str, str], options: OnionOptions, owner: Owner) -> None:
        super().__init__("onion client", headers, options)
        self.connected = False
        self.gated = False
        self._options = options
        self._owner = owner
        self._outgoing: deque[Waiting] = deque()
        self._at_gate: deque[Waiting] = deque()
        self._unanswered: list[Waiting] = []
        self._taken: deque[str] = deque(maxlen=_IDS_KEPT)
        self._more = asyncio.Event()

    def send(self, request: Request) -> None:
        """Send it now, or with the next connection. Raises what ended the connection for good."""
        self._put(Waiting(request, None), self._outgoing)

    async def ask(self, request: Request, limit: float, *, at_gate: bool = False) -> Message:
        """Send it and return its answer. Raises ``Refused``, ``ConnectionLost``, ``TimeoutError``, and as ``send``.

        ``at_gate``: also before the server has let the caller in.
        """
        waiting = Waiting(request, asyncio.get_running_loop().create_future())
        assert waiting.answer is not None
        self._put(waiting, self._at_gate if at_gate else self._outgoing)
        try:
            async with asyncio.timeout(limit):
                return await waiting.answer
        finally:
            self._drop(waiting)

    # Inside

    def _put(self, waiting: Waiting, queue: deque[Waiting]) -> None:
        if self.final is not None:
            raise self.final
        queue.append(waiting)
        self._more.set()

    def _drop(self, waiting: Waiting) -> None:
        for held in (self._outgoing, self._at_gate, self._unanswered):
            if waiting in held:
                held.remove(waiting)

    def _address(self) -> str:
        return self._owner.url()

    def _was_cut(self) -> ClientError | None:
        if self._owner.on_cut():
            return None
        return ConnectionLost("the connection was cut")

    async def _serve(self, socket: ClientConnection) -> None:
        await socket.send(json.dumps(self._owner.greeting()))
        writing = asyncio.get_running_loop().create_task(self._write(socket), name="onion client writes")
        try:
            async with asyncio.timeout(self._options.connect_limit) as limit:
                while not self.connected:
                    await self._greeted(json.loads(await socket.recv()))
                    if self.gated:
                        limit.reschedule(None)  # a person may be typing
            while True:
                async with asyncio.timeout(self._options.silence):
                    data = await socket.recv()
                await self._received(json.loads(data))
        finally:
            self.connected = self.gated = False
            writing.cancel()
            await asyncio.wait({writing})
            self._lose()

    async def _greeted(self, frame: Message) -> None:
        """A frame that came before the server has let the caller in."""
        kind = frame["type"]
        if kind == "CONNECTED":
            self.connected, self.gated = True, False
            self.count += 1
            self._owner.on_gate(None)
            self._owner.on_connected(frame)
            self._more.set()
        elif kind == "ONBOARD_REQUIRED":
            self.gated = True
            self._owner.on_gate(frame)
        elif kind == "ERROR" and not self.gated:
            raise Denied(str(frame.get("message", "the server refused the connection")))
        await self._received(frame)

    def _lose(self) -> None:
        """What had no answer goes out again where that does no harm; the rest may have been carried out, or not."""
        left, self._unanswered = self._unanswered, []
        kept = [waiting for waiting in left if waiting.request.again and self._options.again]
        self._outgoing.extendleft(reversed(kept))
        for waiting in left:
            if waiting not in kept:
                waiting.fail(ConnectionLost("the connection was cut before the answer came"))

    async def _write(self, socket: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self._more.wait()
                self._more.clear()
                while (queue := self._due()) and socket.state is State.OPEN:  # else it waits for the next connection
                    waiting = queue.popleft()
                    if waiting.answer is not None:
                        self._unanswered.append(waiting)
                    await socket.send(json.dumps(waiting.request.message))

    def _due(self) -> deque[Waiting] | None:
        """What may be sent now."""
        if self._at_gate and (self.gated or self.connected):
            return self._at_gate
        return self._outgoing if self.connected and self._outgoing else None

    async def _received(self, frame: Message) -> None:
        """Hand it over first, and then give it to who waits for it: so an answer is never seen before its frame."""
        kind = frame["type"]
        if kind == "PING":
            self._at_gate.appendleft(Waiting(Request({"type": "PONG"}), None))
            self._more.set()
            return
        refused = self._refused(frame) if kind == "ERROR" else None
        if self._owner.on_frame(frame) and frame.get("id") not in self._taken:
            self._answered(frame)
        if refused is not None:
            self._unanswered.remove(refused)
            refused.fail(Refused(str(frame.get("code", "refused")), str(frame.get("message", "")), frame))
        await self._owner.room()

    def _answered(self, frame: Message) -> None:
        """Give it to who waits for it, if anybody does."""
        waiting = next((waiting for waiting in self._unanswered if waiting.request.is_answer(frame)), None)
        if waiting is None:
            return
        if "id" in frame:
            self._taken.append(frame["id"])
        self._unanswered.remove(waiting)
        waiting.succeed(frame)

    def _refused(self, frame: Message) -> Waiting | None:
        """Whom this ERROR answers, if anybody."""
        if self._owner.running and not is_reply(frame):
            return None
        if frame.get("code") == "STALE_ANSWER" or frame.get("message") == INTERRUPTED:
            return None
        return next((waiting for waiting in self._unanswered if waiting.request.may_be_refused), None)

    def _end(self, error: ClientError) -> None:
        if self.final is None:
            self.final = error
        left = [*self._unanswered, *self._outgoing, *self._at_gate]
        for held in (self._unanswered, self._outgoing, self._at_gate):
            held.clear()
        for waiting in left:
            waiting.fail(error)
        self._owner.on_end(error)

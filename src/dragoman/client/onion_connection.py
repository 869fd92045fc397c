"""One connection to a ConnectOnion server that makes itself again, and the requests that wait on it.

Each begins with a CONNECT of its own. What is sent while nobody is connected waits and goes out once. What had no
answer when a connection was cut goes out a second time only where that does no harm.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from websockets.asyncio.client import ClientConnection

from .errors import ClientError, ConnectionLost, Denied, Refused
from .framed_connection import FramedConnection, FramedOptions, FramedOwner, Message, Waiting
from .onion_requests import INTERRUPTED, Request, is_reply

_IDS_KEPT = 256
"""Ids of prompts that were acknowledged, so that one that is acknowledged twice is known."""


@dataclass(frozen=True, kw_only=True)
class OnionOptions(FramedOptions):
    """Limits of a client. Times are seconds, sizes are bytes."""

    silence: float = 75.0
    """Of hearing nothing, after which the connection counts as dead: the server says PING every 30."""

    again: bool = True
    """Whether prompts and answers that a cut may have lost are sent again, under the same ``input_id`` and
    ``request_id``. To a server that ignores these a prompt would be two, and an answer be to what it asks next."""


class Owner(FramedOwner, Protocol):
    """Who is told what happens on a connection."""

    @property
    def running(self) -> bool:
        """Whether a turn runs, as far as was heard."""

    def greeting(self) -> Message:
        """The CONNECT of the next connection."""

    def on_gate(self, frame: Message | None) -> None:
        """The server wants more than a signature (ONBOARD_REQUIRED), or does not any longer (None)."""

    def on_connected(self, frame: Message) -> None:
        """There is a connection."""

    def on_frame(self, frame: Message) -> bool:
        """A frame came; returns whether it was not known already."""


class Connection(FramedConnection[Request, Owner]):
    """See the module. ``count`` is how many connections there were that the server let in."""

    def __init__(self, headers: dict[str, str], options: OnionOptions, owner: Owner) -> None:
        super().__init__("onion client", headers, options, owner)
        self.gated = False
        self._options = options
        self._at_gate: deque[Waiting[Request]] = deque()
        """What goes out before the rest, and also before the server has let the caller in."""
        self._taken: deque[str] = deque(maxlen=_IDS_KEPT)

    async def ask_at_gate(self, request: Request, limit: float) -> Message:
        """As ``ask``, also before the server has let the caller in."""
        return await self._ask(request, limit, self._at_gate)

    # Inside

    def _encoded(self, request: Request) -> Message:
        return request.message

    def _due(self) -> deque[Waiting[Request]] | None:
        if self._at_gate and (self.gated or self.connected):
            return self._at_gate
        return self._outgoing if self.connected and self._outgoing else None

    def _held(self) -> tuple[list[Waiting[Request]] | deque[Waiting[Request]], ...]:
        return *super()._held(), self._at_gate

    def _was_cut(self) -> ClientError | None:
        if self._owner.on_cut():
            return None
        return ConnectionLost("the connection was cut")

    async def _serve(self, socket: ClientConnection) -> None:
        await socket.send(json.dumps(self._owner.greeting()))
        try:
            async with self._writing(socket):
                await self._read(socket)
        finally:
            self.gated = False
            self._sort_out()

    async def _read(self, socket: ClientConnection) -> None:
        async with asyncio.timeout(self._options.connect_limit) as limit:
            while not self.connected:
                await self._greeted(json.loads(await socket.recv()))
                if self.gated:
                    limit.reschedule(None)  # a person may be typing
        while True:
            async with asyncio.timeout(self._options.silence):
                data = await socket.recv()
            await self._received(json.loads(data))

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

    def _sort_out(self) -> None:
        """What had no answer goes out again where that does no harm; the rest may have been carried out, or not."""
        again = self._options.again
        self._lose([waiting for waiting in self._unanswered if not (waiting.request.again and again)])
        self._again()

    async def _received(self, frame: Message) -> None:
        """Hand it over first, and then give it to who waits for it: so an answer is never seen before its frame."""
        kind = frame["type"]
        if kind == "PING":
            self._at_gate.appendleft(Waiting(Request({"type": "PONG"})))
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

    def _refused(self, frame: Message) -> Waiting[Request] | None:
        """Whom this ERROR answers, if anybody."""
        if self._owner.running and not is_reply(frame):
            return None
        if frame.get("code") == "STALE_ANSWER" or frame.get("message") == INTERRUPTED:
            return None
        return next((waiting for waiting in self._unanswered if waiting.request.may_be_refused), None)

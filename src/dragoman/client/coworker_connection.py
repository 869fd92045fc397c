"""One connection to a coworker server that makes itself again, and the requests that wait on it.

What is sent while there is no connection waits, and goes out once, with the id of the session that the next connection
has. What was sent when a connection was cut goes out a second time only to the same session, and only where that does
no harm.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from websockets.asyncio.client import ClientConnection

from . import coworker_requests as requests
from .coworker_requests import Request
from .errors import ClientError, ConnectionLost, Denied, Refused
from .framed_connection import FramedConnection, FramedOptions, FramedOwner, Message, Waiting

PROTOCOL = "3.0"
"""The version of the protocol that is spoken here."""


@dataclass(frozen=True, kw_only=True)
class CoworkerOptions(FramedOptions):
    """Limits of a client. Times are seconds, sizes are bytes."""

    heartbeat: float = 20.0
    """Of silence, after which the server is asked whether it is there; after as long again the connection is dead."""


class Owner(FramedOwner, Protocol):
    """Who is told what happens on a connection."""

    @property
    def lasting(self) -> bool:
        """Whether the next connection may have the session that this one has."""

    def on_hello(self, hello: Message) -> bool:
        """There is a connection; returns whether it has the session that the one before had."""

    def on_frame(self, frame: Message, *, answers: bool) -> None:
        """A frame came; ``answers``: somebody waited for it."""


class Connection(FramedConnection[Request, Owner]):
    """See the module. ``session`` is that of the newest connection, ``count`` how many connections there were."""

    def __init__(self, headers: dict[str, str], options: CoworkerOptions, owner: Owner) -> None:
        super().__init__("coworker client", headers, options, owner)
        self.session: str | None = None
        self._options = options

    # Inside

    def _encoded(self, request: Request) -> Message:
        return {"type": request.type, "sessionId": self.session, **request.message}

    def _was_cut(self) -> ClientError | None:
        lasting = self._owner.lasting
        self._lose([waiting for waiting in self._unanswered if not (waiting.request.again and lasting)])
        if self._owner.on_cut():
            return None
        return ConnectionLost("the connection was cut, and its session with it")

    async def _serve(self, socket: ClientConnection) -> None:
        async with asyncio.timeout(self._options.connect_limit):
            hello = json.loads(await socket.recv())
        if hello.get("type") != "server_hello" or hello["protocolVersion"] != PROTOCOL:
            raise Denied(f"this is not protocol {PROTOCOL} of agent-coworker")
        async with self._writing(socket):
            self._joined(hello)
            self._owner.on_frame(hello, answers=False)
            await self._read(socket)

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
                self.send(requests.ping())
            else:
                silent = 0
                await self._received(json.loads(data))

    def _joined(self, hello: Message) -> None:
        self.session = hello["sessionId"]
        self.connected = True
        self.count += 1
        if not self._owner.on_hello(hello):
            self._lose(list(self._unanswered))
        self._again()
        self._more.set()

    async def _received(self, frame: Message) -> None:
        """Hand it over first, and then give it to who waits for it: so an answer is never seen before its frame."""
        answered = self._take(lambda request: request.is_answer(frame))
        refused = None if answered is not None else self._take(lambda request: request.is_refusal(frame))
        self._owner.on_frame(frame, answers=answered is not None or refused is not None)
        if answered is not None:
            answered.succeed(frame)
        if refused is not None:
            refused.fail(Refused(frame["code"], frame["message"], frame))
        await self._owner.room()

    def _take(self, is_for: Callable[[Request], bool]) -> Waiting[Request] | None:
        """The oldest such request; it waits no longer."""
        waiting = next((waiting for waiting in self._unanswered if is_for(waiting.request)), None)
        if waiting is not None:
            self._unanswered.remove(waiting)
        return waiting

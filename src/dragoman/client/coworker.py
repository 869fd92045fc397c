"""A client of agent-coworker 3.0: a socket, a session, and what the agent says.

    async with CoworkerClient("ws://127.0.0.1:7337/ws") as client:
        await client.say("delete the temp files")
        async for frame in client.frames():
            if frame["type"] == "approval":
                client.approve(frame["requestId"], approved=input(f"{frame['command']} [y/n] ") == "y")
            elif frame["type"] == "session_busy" and not frame["busy"]:
                break

By the protocol a session ends with its socket. Where the server knows more, ``features=("resume",)`` asks for it: then
the client reconnects by itself, to the same session, and whatever happens to the connection each frame is handed over
exactly once. ``session`` joins a session that exists; ``cursor``, kept together with what was made of the frames, goes
on from there in another process (``after``).

A frame is a dict as on the wire. WebSocket by ``websockets``, JSON by the standard library; nothing of the server is
imported.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from urllib.parse import urlencode, urlsplit, urlunsplit

from . import coworker_requests as requests
from .coworker_asking import CoworkerAsking
from .coworker_connection import Connection, CoworkerOptions
from .coworker_place import Message, Place
from .coworker_requests import Request
from .framed import FramedClient

__all__ = ["CoworkerClient", "CoworkerOptions", "Message"]


class CoworkerClient(FramedClient[Request, int], CoworkerAsking):
    """See the module. ``url`` is the socket's, as a server's ready line says.

    ``session`` joins a session; ``after`` goes on behind a cursor of it. ``features`` are extensions to ask for:
    ``resume``, ``void``. ``reconnect`` says whether to connect again after a cut: by default where the session is still
    there then. A client that insists (True) gets a new session each time; what it sends goes to the newest one.

    ``frames`` gives every frame, replies too, from ``server_hello`` on.
    """

    options: CoworkerOptions
    _connection: Connection

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        session: str | None = None,
        after: int | None = None,
        features: Iterable[str] = (),
        reconnect: bool | None = None,
        name: str | None = None,
        options: CoworkerOptions | None = None,
    ) -> None:
        super().__init__(options or CoworkerOptions(), after)
        self.hello: Message | None = None
        self.config: Message | None = None
        self.busy = False
        self._url = urlsplit(url.replace("http", "ws", 1) if url.startswith("http") else url)
        self._features = tuple(features)
        self._wanted = session
        self._reconnect = reconnect
        self._name = name
        self._place = Place(after)
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        self._connection = Connection(headers, self.options, self)

    # Life

    async def start(self) -> None:
        """Connect, and return once the session is there. Raises ``Denied``, ``TimeoutError``."""
        await self._begin(lambda: self.hello is not None)

    async def close(self) -> None:
        """End the connection, and by the protocol the session."""
        await self._leave()

    @property
    def session(self) -> str:
        """The session's id, as the newest ``server_hello`` said it."""
        assert self.hello is not None, "there is no session before start() has returned"
        return str(self.hello["sessionId"])

    @property
    def resumes(self) -> bool:
        """Whether the server lets the session outlive this client's connection."""
        return self.hello is not None and self.hello["capabilities"].get("resume") == "v1"

    @property
    def cursor(self) -> int | None:
        """The last event whose frames were handled, all of them; None where the server tells no cursors.

        A frame counts as handled once the next one is asked for.
        """
        return self._handled

    # Hearing

    async def idle(self, *, within: float | None = None) -> None:
        """Wait until no turn runs. Raises ``TimeoutError``, and as ``frames``."""
        async with asyncio.timeout(within):
            await self._until(lambda: not self.busy)

    # Turns

    async def say(self, text: str, *, message_id: str | None = None) -> Message:
        """Send a prompt; returns its echo. Raises ``Refused`` (``busy``).

        It has a ``clientMessageId`` in any case: on a session that is resumed a cut never makes two turns of it.
        """
        return await self.request(requests.user_message(text, message_id or str(uuid.uuid4())))

    async def run(self, command: str, arguments: str | None = None, *, message_id: str | None = None) -> Message:
        """Run a slash command; returns the echo. Raises ``Refused`` (``validation_failed``, ``busy``)."""
        return await self.request(requests.execute_command(command, arguments, message_id or str(uuid.uuid4())))

    def answer(self, request_id: str, answer: str) -> None:
        """Answer an ``ask``. One that came too late is told by a ``log`` frame and nothing else."""
        self._respond(request_id, requests.ask_response(request_id, answer))

    def approve(self, request_id: str, *, approved: bool) -> None:
        """Answer an ``approval``, as ``answer``."""
        self._respond(request_id, requests.approval_response(request_id, approved=approved))

    def cancel(self) -> None:
        """End the turn that runs, if there is one; ``idle`` waits for it."""
        self._send(requests.cancel())

    async def reset(self) -> None:
        """Clear the conversation and the todos. Raises ``Refused`` (``busy``)."""
        await self.request(requests.reset())

    # Asking

    async def request(self, request: Request, *, within: float | None = None) -> Message:
        return await self._connection.ask(request, self.options.answer_limit if within is None else within)

    # For the connection

    def url(self) -> str:
        """Where to connect to now."""
        asked: dict[str, str] = {}
        if self._features:
            asked["features"] = ",".join(self._features)
        if self._wanted is not None:
            asked["session"] = self._wanted
            if self._place.received is not None:
                asked["after"] = str(self._place.received)
        query = "&".join(part for part in (self._url.query, urlencode(asked, safe=",")) if part)
        return urlunsplit(self._url._replace(query=query))

    @property
    def lasting(self) -> bool:
        """Whether the next connection may have the session that this one has."""
        return self._wanted is not None

    def on_hello(self, hello: Message) -> bool:
        """There is a connection; returns whether it has the session that the one before had."""
        known = self.hello is not None and self.hello["sessionId"] == hello["sessionId"]
        first, self.hello, self.config = self.hello is None, hello, hello["config"]
        if known and self.resumes:
            self._place.resume()
        elif not (first and self._place.received is not None):
            self._place.begin(hello.get("cursor"))
        if not known:
            self.busy = False
            self._answers.clear()
        if self.resumes:
            self._wanted = hello["sessionId"]
        if self._handled is None:
            self._handled = hello.get("cursor")
        if self._name is not None:
            self._send(Request({"type": "client_hello", "client": self._name}))
        return known

    def on_frame(self, frame: Message, *, answers: bool) -> None:
        """A frame came; ``answers``: somebody waited for it."""
        new = self._is_new(frame, answers=answers)
        if frame["type"] in ("ask", "approval") and not new:
            self._answer_again(frame["requestId"])
        if frame["type"] == "session_busy":
            self.busy = frame["busy"]
        elif frame["type"] == "config_updated":
            self.config = frame["config"]
        if new:
            self._hand_over(frame)
        self._tell()

    def on_cut(self) -> bool:
        """There is no connection any more; returns whether another one is to be tried."""
        return self.lasting if self._reconnect is None else self._reconnect

    # Inside

    def _mark(self, frame: Message) -> int | None:
        cursor: int | None = frame.get("cursor")
        return cursor

    def _is_new(self, frame: Message, *, answers: bool) -> bool:
        if frame["type"] == "pong":
            return answers  # else it is that of a heartbeat
        if "cursor" in frame:
            return self._place.is_new(frame)
        if frame["type"] == "user_message" and self.resumes:
            return False  # the echo of a prompt that was sent twice: its event is told too
        return answers or self._place.is_new(frame)

    def _answer_again(self, request_id: str) -> None:
        """A prompt is told again though it was answered: the answer was lost with the connection."""
        if (request := self._answers.get(request_id)) is not None:
            self._send(request)

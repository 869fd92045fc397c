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
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from types import TracebackType
from urllib.parse import urlencode, urlsplit, urlunsplit

from . import coworker_requests as requests
from .coworker_asking import CoworkerAsking
from .coworker_connection import Connection, CoworkerOptions
from .coworker_place import Message, Place
from .coworker_requests import Request
from .errors import ClientClosed, ClientError

__all__ = ["CoworkerClient", "CoworkerOptions", "Message"]

_ANSWERS_KEPT = 64
"""Answers that are kept, to be given again where the cut connection may have lost them."""


class CoworkerClient(CoworkerAsking):
    """See the module. ``url`` is the socket's, as a server's ready line says.

    ``session`` joins a session; ``after`` goes on behind a cursor of it. ``features`` are extensions to ask for:
    ``resume``, ``void``. ``reconnect`` says whether to connect again after a cut: by default where the session is still
    there then. A client that insists (True) gets a new session each time; what it sends goes to the newest one.
    """

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
        self.options = options or CoworkerOptions()
        self.hello: Message | None = None
        self.config: Message | None = None
        self.busy = False
        self._url = urlsplit(url.replace("http", "ws", 1) if url.startswith("http") else url)
        self._features = tuple(features)
        self._wanted = session
        self._reconnect = reconnect
        self._name = name
        self._place = Place(after)
        self._handled = after
        self._given: int | None = None
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        self._connection = Connection(headers, self.options, self)
        self._frames: deque[Message] = deque()
        self._answers: OrderedDict[str, Request] = OrderedDict()
        self._watchers: set[asyncio.Future[None]] = set()
        self._iterating = False

    # Life

    async def __aenter__(self) -> CoworkerClient:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Connect, and return once the session is there. Raises ``Denied``, ``TimeoutError``."""
        self._connection.start()
        try:
            async with asyncio.timeout(self.options.answer_limit):
                await self._until(lambda: self.hello is not None)
        except TimeoutError:
            await self.close()
            problem = self._connection.problem
            raise TimeoutError(f"no session within {self.options.answer_limit:g} s: {problem}") from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection, and by the protocol the session."""
        await self._connection.close(ClientClosed("the client is closed"))

    @property
    def session(self) -> str:
        """The session's id, as the newest ``server_hello`` said it."""
        assert self.hello is not None, "there is no session before start() has returned"
        return str(self.hello["sessionId"])

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection.connected

    @property
    def connections(self) -> int:
        """How many connections there have been."""
        return self._connection.count

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

    def frames(self) -> AsyncIterator[Message]:
        """Every frame, replies too, in order, from ``server_hello`` on; ends with ``close``.

        May be left and taken up again; what comes meanwhile waits. While nobody iterates, so many frames wait
        (``frame_backlog``); then nothing more is read, and requests wait as well. Raises ``Denied`` or
        ``ConnectionLost`` when there will be no other connection.
        """
        return _Frames(self._next)

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
        self._connection.send(requests.cancel())

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
            self._connection.send(Request({"type": "client_hello", "client": self._name}))
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
        if new and self.options.frame_backlog:
            self._frames.append(frame)
        self._tell()

    async def room(self) -> None:
        """Wait until there is room for more frames: until then nothing is read."""
        if len(self._frames) > self.options.frame_backlog:
            await self._until(lambda: len(self._frames) <= self.options.frame_backlog)

    def on_cut(self) -> bool:
        """There is no connection any more; returns whether another one is to be tried."""
        return self.lasting if self._reconnect is None else self._reconnect

    def on_end(self, error: ClientError) -> None:  # noqa: ARG002  who waits is given it
        """There will be no other connection."""
        self._tell()

    # Inside

    async def _next(self) -> Message:
        """The frame that is due; the one before it is handled."""
        if self._iterating:
            raise RuntimeError("somebody waits for this client's next frame already")
        self._handled = self._given if self._given is not None else self._handled
        self._iterating = True
        try:
            await self._until(lambda: bool(self._frames))
        finally:
            self._iterating = False
        frame = self._frames.popleft()
        self._given = frame.get("cursor")
        self._tell()
        return frame

    def _is_new(self, frame: Message, *, answers: bool) -> bool:
        if frame["type"] == "pong":
            return answers  # else it is that of a heartbeat
        if "cursor" in frame:
            return self._place.is_new(frame)
        if frame["type"] == "user_message" and self.resumes:
            return False  # the echo of a prompt that was sent twice: its event is told too
        return answers or self._place.is_new(frame)

    def _tell(self) -> None:
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

    def _respond(self, request_id: str, request: Request) -> None:
        self._connection.send(request)
        self._answers[request_id] = request
        if len(self._answers) > _ANSWERS_KEPT:
            self._answers.popitem(last=False)

    def _answer_again(self, request_id: str) -> None:
        """A prompt is told again though it was answered: the answer was lost with the connection."""
        if (request := self._answers.get(request_id)) is not None:
            self._connection.send(request)


class _Frames(AsyncIterator[Message]):
    """What ``frames`` gives."""

    def __init__(self, next_frame: Callable[[], Awaitable[Message]]) -> None:
        self._next_frame = next_frame

    async def __anext__(self) -> Message:
        try:
            return await self._next_frame()
        except ClientClosed:
            raise StopAsyncIteration from None

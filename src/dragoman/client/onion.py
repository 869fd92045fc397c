"""A client of ConnectOnion's protocol: a session that outlives its sockets, and what its agent says.

    async with OnionClient("ws://127.0.0.1:7337/onion/ws", key=OnionKey(seed)) as client:
        await client.input("delete the temp files")
        async for frame in client.frames():
            if frame["type"] == "approval_needed":
                client.approve(frame["id"], approved=input(f"{frame['tool']} {frame['arguments']} [y/n] ") == "y")
            elif frame["type"] == "OUTPUT":
                print(frame["result"])
                break

Whatever happens to the connection, the client connects again to the same session and hands each event over exactly
once. What it missed of a turn that still runs is told again; of one that ended meanwhile, CONNECTED has the session.

A frame is a dict as on the wire. WebSocket by ``websockets``, JSON by the standard library, signatures by PyNaCl;
nothing of the server is imported.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from . import onion_requests as requests
from .errors import ClientClosed, ClientError, OnboardingRequired, TurnFailed
from .onion_asking import OnionAsking
from .onion_connection import Connection, OnionOptions
from .onion_key import OnionKey
from .onion_place import Message, Place, event_id
from .onion_requests import Request

__all__ = ["OnionClient", "OnionKey", "OnionOptions", "Outcome"]

_ANSWERS_KEPT = 64
"""Answers that are kept, to be given again where the cut connection may have lost them."""

_OUTCOMES_KEPT = 64
"""Turns whose outcome is kept for who has not looked yet."""


@dataclass(frozen=True)
class Outcome:
    """What came of a turn. ``duration_ms`` is None where the turn ended while nobody was connected."""

    result: str
    session: Message
    chat_items: list[Message]
    duration_ms: int | None


class OnionClient(OnionAsking):
    """See the module. ``url`` is the socket's, as a server's ready line says.

    ``key`` says who calls; without one the caller is anonymous. ``host`` is the server's address, where signatures are
    to be good for it alone. ``session_id`` names a session to go on with, ``last_msg_id`` an event of it to go on
    behind, ``history`` a session object that the client brings. ``invite_code`` is given to a server that wants one.
    """

    def __init__(
        self,
        url: str,
        *,
        key: OnionKey | None = None,
        host: str | None = None,
        token: str | None = None,
        session_id: str | None = None,
        last_msg_id: str | None = None,
        history: Message | None = None,
        invite_code: str | None = None,
        reconnect: bool = True,
        options: OnionOptions | None = None,
    ) -> None:
        self.options = options or OnionOptions()
        self.session_id = session_id
        self.status = "new"
        self.running = False
        self.session: Message = {}
        self.chat_items: list[Message] = []
        self.gate: Message | None = None
        self._url = urlunsplit(urlsplit(url.replace("http", "ws", 1) if url.startswith("http") else url))
        self._key = key
        self._host = host
        self._history = history
        self._invite_code = invite_code
        self._reconnect = reconnect
        self._place = Place(last_msg_id)
        self._handled, self._given = last_msg_id, last_msg_id
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        self._connection = Connection(headers, self.options, self)
        self._frames: deque[Message] = deque()
        self._answers: OrderedDict[str, Request] = OrderedDict()
        self._given_again: set[str] = set()
        self._outcomes: OrderedDict[int, Outcome | TurnFailed] = OrderedDict()
        self._over = self._missed = 0
        """How many turns were seen to end, and the newest of them whose end nobody heard."""
        self._begun: OrderedDict[str, int] = OrderedDict()
        """Which turn each prompt went into."""
        self._watchers: set[asyncio.Future[None]] = set()
        self._iterating = False

    # Life

    async def __aenter__(self) -> OnionClient:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Connect, and return once the session is there.

        Raises ``Denied`` with the server's words, ``TimeoutError``, ``Refused`` for the ``invite_code``, and
        ``OnboardingRequired``: then the connection stands, and ``onboard`` or ``close`` is what comes next.
        """
        self._connection.start()
        try:
            async with asyncio.timeout(self.options.answer_limit):
                await self._until(lambda: self.connected or self.gate is not None)
        except TimeoutError:
            await self.close()
            problem = self._connection.problem
            raise TimeoutError(f"no session within {self.options.answer_limit:g} s: {problem}") from None
        except BaseException:
            await self.close()
            raise
        if self.gate is not None:
            if self._invite_code is None:
                raise OnboardingRequired(self.gate)
            await self.onboard(invite_code=self._invite_code)

    async def onboard(self, *, invite_code: str | None = None, payment: float | None = None) -> None:
        """Become known to the server, and return once it let the caller in. It goes on with the CONNECT that waits.

        Raises ``Refused`` (``Invalid invite code``), after which another try may be made on the same connection.
        """
        offered = {"invite_code": invite_code, "payment": payment}
        signed = self._signed({name: given for name, given in offered.items() if given is not None})
        await self._connection.ask(requests.onboard(signed), self.options.answer_limit, at_gate=True)
        async with asyncio.timeout(self.options.answer_limit):
            await self._until(lambda: self.connected)

    async def close(self) -> None:
        """Leave. The session stays, and what runs in it goes on."""
        await self._connection.close(ClientClosed("the client is closed"))

    @property
    def connected(self) -> bool:
        """Whether there is a connection now that the server let in."""
        return self._connection.connected

    @property
    def connections(self) -> int:
        """How many such connections there have been."""
        return self._connection.count

    @property
    def last_msg_id(self) -> str | None:
        """The last event that was handled: it is, once the next frame is asked for.

        Kept together with what was made of the frames, it goes on from there in another process.
        """
        return self._handled

    # Hearing

    def frames(self) -> AsyncIterator[Message]:
        """Every frame but PING, in order, from CONNECTED on; ends with ``close``.

        May be left and taken up again; what comes meanwhile waits. While nobody iterates, so many frames wait
        (``frame_backlog``); then nothing more is read, and requests wait as well. Raises ``Denied`` or
        ``ConnectionLost`` when there will be no other connection.
        """
        return _Frames(self._next)

    # Turns

    async def input(self, prompt: str, *, images: Iterable[bytes | str] = (), files: Mapping[str, bytes] = {}) -> str:
        """Send a prompt; returns the id of its ``user_input``, once the server has it.

        While a turn runs it goes into that turn. ``images`` are PNGs, or data URLs of any kind; ``files`` go by their
        names. Raises ``Refused``. After a cut it is sent again (``OnionOptions.again``; without that,
        ``ConnectionLost``: it may have been taken, or not).
        """
        return str((await self._ask(requests.prompt(prompt, images, files)))["id"])

    async def run(self, prompt: str, *, images: Iterable[bytes | str] = (), files: Mapping[str, bytes] = {}) -> Outcome:
        """Send a prompt, and wait for what comes of it. Raises ``TurnFailed``, and as ``input``."""
        before = self._over
        prompt_id = await self.input(prompt, images=images, files=files)
        await self._until(lambda: prompt_id in self._begun or self._missed > before)
        turn = self._begun.pop(prompt_id, self._missed)  # one that ended while nobody was connected began there, too
        return await self._outcome(turn)

    async def outcome(self) -> Outcome:
        """What comes of the turn that runs. Raises ``TurnFailed``; with none running it waits for the next one's."""
        return await self._outcome(self._over + 1)

    # For the connection

    def url(self) -> str:
        """Where to connect to now."""
        return self._url

    def greeting(self) -> Message:
        """The CONNECT of the next connection, signed anew."""
        message: Message = {"type": "CONNECT"}
        if self.session_id is not None:
            message["session_id"] = self.session_id
        if self._place.last is not None:
            message["last_msg_id"] = self._place.last
        if self._history is not None:
            message["session"] = self._history
        return message | (self._signed({}) if self._key is not None else {})

    def on_gate(self, frame: Message | None) -> None:
        """The server wants more than a signature, or does not any longer."""
        self.gate = frame
        self._tell()

    def on_connected(self, frame: Message) -> None:
        """There is a connection. What the client brought is the server's now, and so is what it answered."""
        self.session_id, self.status = str(frame["session_id"]), str(frame["status"])
        turns, first = self.session.get("turn", 0), self.connections == 1
        self.session = frame.get("session", self.session)
        self.chat_items = frame.get("chat_items", self.chat_items)
        self._history = None
        was_running, self.running = self.running, self.status == "running"
        if not self.running and (was_running or (not first and self.session.get("turn", 0) > turns)):
            self._ended(self._unheard())
            self._missed = self._over
        self._given_again = set(self._answers)
        if self.options.again:
            for request in self._answers.values():
                self._connection.send(request)

    def on_frame(self, frame: Message) -> bool:
        """A frame came; returns whether it was not known already."""
        new = self._place.is_new(frame)
        if new:
            self._follow(frame)
            if self.options.frame_backlog and not self._is_own_doubt(frame):
                self._frames.append(frame)
        self._tell()
        return new

    async def room(self) -> None:
        """Wait until there is room for more frames: until then nothing is read."""
        if len(self._frames) > self.options.frame_backlog:
            await self._until(lambda: len(self._frames) <= self.options.frame_backlog)

    def on_cut(self) -> bool:
        """There is no connection any more; returns whether another one is to be tried."""
        self._tell()
        return self._reconnect

    def on_end(self, error: ClientError) -> None:  # noqa: ARG002  who waits is given it
        """There will be no other connection."""
        self._tell()

    # Inside

    def _signed(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._key is None:
            raise ValueError("that takes a key")
        return self._key.signed(arguments if self._host is None else {**arguments, "to": self._host})

    def _send(self, request: Request) -> None:
        self._connection.send(request)

    async def _ask(self, request: Request) -> Message:
        return await self._connection.ask(request, self.options.answer_limit)

    def _follow(self, frame: Message) -> None:
        """Keep up with what is true of the session."""
        kind = frame["type"]
        if kind == "user_input":
            self.running = True
            self._begun[frame["id"]] = self._over + 1
            if len(self._begun) > _OUTCOMES_KEPT:
                self._begun.popitem(last=False)
        elif kind == "OUTPUT":
            self.session, self.chat_items = frame["session"], frame["chat_items"]
            self._ended(Outcome(frame["result"], self.session, self.chat_items, frame["duration_ms"]))
        elif kind == "ERROR" and self.running and not requests.is_reply(frame):
            self._ended(TurnFailed(str(frame.get("message", ""))))

    def _unheard(self) -> Outcome | TurnFailed:
        """The outcome of a turn that ended while nobody was connected, by the session that CONNECTED brought."""
        result = self.session.get("result")
        if result is None:
            return TurnFailed("the turn ended without a result while the connection was cut")
        return Outcome(str(result), self.session, self.chat_items, None)

    def _ended(self, outcome: Outcome | TurnFailed) -> None:
        self.running = False
        self._place.turn_over()
        self._answers.clear()
        self._over += 1
        self._outcomes[self._over] = outcome
        if len(self._outcomes) > _OUTCOMES_KEPT:
            self._outcomes.popitem(last=False)

    async def _outcome(self, turn: int) -> Outcome:
        await self._until(lambda: self._over >= turn)
        outcome = self._outcomes[turn]
        if isinstance(outcome, TurnFailed):
            raise outcome
        return outcome

    def _respond(self, request_id: str, request: Request) -> None:
        self._connection.send(request)
        self._answers[request_id] = request
        if len(self._answers) > _ANSWERS_KEPT:
            self._answers.popitem(last=False)

    def _is_own_doubt(self, frame: Message) -> bool:
        """An answer that was given again after a cut had arrived before it: nobody needs to hear of that."""
        if frame["type"] != "ERROR" or frame.get("code") != "STALE_ANSWER":
            return False
        if frame.get("request_id") not in self._given_again:
            return False
        self._given_again.discard(frame["request_id"])
        return True

    async def _next(self) -> Message:
        """The frame that is due; the one before it is handled."""
        if self._iterating:
            raise RuntimeError("somebody waits for this client's next frame already")
        self._handled = self._given
        self._iterating = True
        try:
            await self._until(lambda: bool(self._frames))
        finally:
            self._iterating = False
        frame = self._frames.popleft()
        self._given = event_id(frame) or self._given
        self._tell()
        return frame

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


class _Frames(AsyncIterator[Message]):
    """What ``frames`` gives."""

    def __init__(self, next_frame: Callable[[], Awaitable[Message]]) -> None:
        self._next_frame = next_frame

    async def __anext__(self) -> Message:
        try:
            return await self._next_frame()
        except ClientClosed:
            raise StopAsyncIteration from None

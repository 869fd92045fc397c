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
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import onion_requests as requests
from .errors import OnboardingRequired, TurnFailed
from .framed import FramedClient
from .onion_asking import OnionAsking
from .onion_connection import Connection, OnionOptions
from .onion_key import OnionKey
from .onion_place import Message, Place, event_id
from .onion_requests import Request

__all__ = ["OnionClient", "OnionKey", "OnionOptions", "Outcome"]

_OUTCOMES_KEPT = 64
"""Turns whose outcome is kept for who has not looked yet."""


@dataclass(frozen=True)
class Outcome:
    """What came of a turn. ``duration_ms`` is None where the turn ended while nobody was connected."""

    result: str
    session: Message
    chat_items: list[Message]
    duration_ms: int | None


class OnionClient(FramedClient[Request, str], OnionAsking):
    """See the module. ``url`` is the socket's, as a server's ready line says.

    ``key`` says who calls; without one the caller is anonymous. ``host`` is the server's address, where signatures are
    to be good for it alone. ``session_id`` names a session to go on with, ``last_msg_id`` an event of it to go on
    behind, ``history`` a session object that the client brings. ``invite_code`` is given to a server that wants one.

    ``frames`` gives every frame but PING, from CONNECTED on.
    """

    options: OnionOptions
    _connection: Connection

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
        super().__init__(options or OnionOptions(), last_msg_id)
        self.session_id = session_id
        self.status = "new"
        self.running = False
        self.session: Message = {}
        self.chat_items: list[Message] = []
        self.gate: Message | None = None
        self._url = url.replace("http", "ws", 1) if url.startswith("http") else url
        self._key = key
        self._host = host
        self._history = history
        self._invite_code = invite_code
        self._reconnect = reconnect
        self._place = Place(last_msg_id)
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        self._connection = Connection(headers, self.options, self)
        self._given_again: set[str] = set()
        self._outcomes: OrderedDict[int, Outcome | TurnFailed] = OrderedDict()
        self._over = self._missed = 0
        """How many turns were seen to end, and the newest of them whose end nobody heard."""
        self._begun: OrderedDict[str, int] = OrderedDict()
        """Which turn each prompt went into."""

    # Life

    async def start(self) -> None:
        """Connect, and return once the session is there.

        Raises ``Denied`` with the server's words, ``TimeoutError``, ``Refused`` for the ``invite_code``, and
        ``OnboardingRequired``: then the connection stands, and ``onboard`` or ``close`` is what comes next.
        """
        await self._begin(lambda: self.connected or self.gate is not None)
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
        await self._connection.ask_at_gate(requests.onboard(signed), self.options.answer_limit)
        async with asyncio.timeout(self.options.answer_limit):
            await self._until(lambda: self.connected)

    async def close(self) -> None:
        """Leave. The session stays, and what runs in it goes on."""
        await self._leave()

    @property
    def last_msg_id(self) -> str | None:
        """The last event that was handled: it is, once the next frame is asked for.

        Kept together with what was made of the frames, it goes on from there in another process.
        """
        return self._handled

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
                self._send(request)

    def on_frame(self, frame: Message) -> bool:
        """A frame came; returns whether it was not known already."""
        new = self._place.is_new(frame)
        if new:
            self._follow(frame)
            if not self._is_own_doubt(frame):
                self._hand_over(frame)
        self._tell()
        return new

    def on_cut(self) -> bool:
        """There is no connection any more; returns whether another one is to be tried."""
        self._tell()
        return self._reconnect

    # Inside

    def _signed(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._key is None:
            raise ValueError("that takes a key")
        return self._key.signed(arguments if self._host is None else {**arguments, "to": self._host})

    async def _ask(self, request: Request) -> Message:
        return await self._connection.ask(request, self.options.answer_limit)

    def _mark(self, frame: Message) -> str | None:
        return event_id(frame)

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

    def _is_own_doubt(self, frame: Message) -> bool:
        """An answer that was given again after a cut had arrived before it: nobody needs to hear of that."""
        if frame["type"] != "ERROR" or frame.get("code") != "STALE_ANSWER":
            return False
        if frame.get("request_id") not in self._given_again:
            return False
        self._given_again.discard(frame["request_id"])
        return True

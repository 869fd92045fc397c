"""A client of the bridge of coding agents: all of their sessions, and what the agents in them do.

    async with connect("ws://127.0.0.1:4003/") as client:
        print(list(client.sessions))
        async for event in client.events():
            print(event["sessionId"], event["type"], event.get("tool"))

Whatever happens to the connection, the client connects again and hands each event over exactly once, in order: those
that it missed are taken from the bridge's history. Where the history does not reach back far enough, it says so.

A frame, an event and a session are dicts as on the wire. WebSocket by ``websockets``, JSON by the standard library;
nothing of the server is imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable

from . import cin_requests as requests
from .cin_connection import CinOptions, Connection
from .cin_place import Message, Place, ids_of
from .cin_requests import Request, data_of
from .errors import ConnectionLost
from .framed import FramedClient
from .reconnecting import Sleep

__all__ = ["GAP", "CinClient", "CinOptions", "connect"]

GAP = "client:gap"
"""Type of a frame that no bridge sends: events may have been missed here that its history does not have."""


class CinClient(FramedClient[Request, str]):
    """See the module. ``url`` is the socket's; ``token`` is for a bridge that wants one, ``origin`` for one that wants
    an ``Origin`` of native clients, too. ``reconnect=False``: the first cut is the end. ``sleep`` is how it waits
    between two attempts to connect, and between two pings.

    ``sessions`` are all that there are, by id, as the newest frame has them, also while that waits in ``frames``.
    ``gaps`` counts the connections before which something may have been missed for good.
    """

    options: CinOptions
    _connection: Connection

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        origin: str | None = None,
        reconnect: bool = True,
        options: CinOptions | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(options or CinOptions(), None)
        self.sessions: dict[str, Message] = {}
        self.gaps = 0
        self._url = url.replace("http", "ws", 1) if url.startswith("http") else url
        self._reconnect = reconnect
        self._place = Place()
        self._blind = False
        """Whether the server has no history."""
        self._held: list[Message] | None = None
        """Frames that came since the connection, until it is known what was missed before it."""
        self._wanted: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        if origin is not None:
            headers["Origin"] = origin
        self._connection = Connection(headers, self.options, self, sleep)

    # Life

    async def start(self) -> None:
        """Connect, and return once the sessions are there. Raises ``Denied``, ``TimeoutError``, ``ConnectionLost``."""
        await self._begin(lambda: self._place.begun)

    async def close(self) -> None:
        """End the connection."""
        await self._leave()

    # Hearing

    async def events(self) -> AsyncIterator[Message]:
        """The ``data`` of every ``event`` in ``frames``, which is read for it; the other frames are passed over."""
        async for frame in self.frames():
            if frame["type"] == "event":
                yield data_of(frame)

    def subscribe(self, sessions: Collection[str] = (), event_types: Collection[str] = ()) -> None:
        """From now on hand over only events of these sessions and of these types; empty means all.

        Each call replaces the one before. Frames about sessions come all the same. A session is named by its id or by
        its agent's own.
        """
        self._wanted = frozenset(sessions), frozenset(event_types)
        if self.connected:
            self._send(requests.subscribe(sessions, event_types))

    # Asking

    async def history(self, limit: int = 100, session: str | None = None) -> list[Message]:
        """The newest events, of all sessions or of one, the oldest first. Raises ``TimeoutError``, ``ConnectionLost``.

        They are not handed over, and what was handed over is among them.
        """
        frame = await self._connection.ask(requests.history(limit, session), self.options.answer_limit)
        return _dicts(data_of(frame))

    async def ping(self) -> float:
        """Ask whether the bridge is there; returns the seconds until it said so. Raises as ``history``.

        The client does so by itself every ``ping_every``.
        """
        clock = asyncio.get_running_loop().time
        asked = clock()
        await self._connection.ask(requests.ping(), self.options.answer_limit)
        return clock() - asked

    # Saying

    def answer(self, session: str, response: str | int, decision_id: str | None = None) -> None:
        """Answer a permission prompt by the number of an option; what comes of it is told in frames.

        ``decision_id`` is the prompt's ``decisionId``. Without it the answer is to whatever the session asks now, so
        that raises ``ConnectionLost`` while there is no connection.
        """
        if decision_id is None and not self.connected:
            raise ConnectionLost("there is no connection, and the answer does not say what it is to")
        self._send(requests.answer(session, str(response), decision_id))

    def send(self, kind: str, data: object = None) -> None:
        """Send a message of an extension (``harness:test_started``). Raises ``ValueError`` for any other type."""
        self._send(requests.extension(kind, data))

    # For the connection

    def url(self) -> str:
        """Where to connect to now."""
        return self._url

    def greeting(self) -> Iterable[Request]:
        """What is said first on each connection."""
        return [requests.subscribe(*map(sorted, self._wanted))] if any(self._wanted) else []

    def wants_history(self) -> bool:
        """Whether the history is to be asked for on each connection."""
        return not self._blind

    def on_init(self, frame: Message) -> None:
        """There is a connection."""
        if not self._place.begun:  # nobody has heard anything: so this is the first that counts
            self._frames.clear()
            self._place.forget()
        self._follow(frame)
        self._hand_over(frame)
        if self._place.begun:
            self._held = []
            if self._blind:
                self.on_history(None)
        self._tell()

    def on_history(self, events: object) -> None:
        """What the history says that was asked for with the connection; None where no answer came."""
        history = _dicts(events)
        if not self._place.begun:
            self._blind = events is None
            self._place.begin(history)
        else:
            self._catch_up(history, answered=events is not None)
        self._tell()

    def on_frame(self, frame: Message) -> None:
        """A frame came that answers nobody."""
        if frame["type"] == GAP:
            return  # only we can know
        self._follow(frame)
        if self._held is not None:
            self._held.append(frame)
        else:
            self._deliver(frame)
            self._tell()

    def on_cut(self) -> bool:
        """There is no connection any more; returns whether another one is to be tried."""
        self._held = None
        self._tell()
        return self._reconnect

    # Inside

    def _mark(self, frame: Message) -> str | None:  # noqa: ARG002  the place is kept by ids, and not for who iterates
        return None

    def _catch_up(self, history: list[Message], *, answered: bool) -> None:
        """Hand over what was missed, and then what came since."""
        held, self._held = self._held or [], None
        live = ids_of(event for frame in held if (event := _event_in(frame)) is not None)
        missed, whole = self._place.missed(history, live, self.options.catch_up)
        if not (answered and whole):
            self.gaps += 1
            self._hand_over({"type": GAP})
        for event in missed:
            self._deliver({"type": "event", "data": event})
        for frame in held:
            self._deliver(frame)

    def _deliver(self, frame: Message) -> None:
        if frame["type"] == "event":
            event = _event_in(frame)
            if event is None or not self._is_wanted(event) or not self._place.is_new(event):
                return
        self._hand_over(frame)

    def _is_wanted(self, event: Message) -> bool:
        """Whether it was subscribed to: not every server knows, and none at once."""
        sessions, types = self._wanted
        names = [event.get("sessionId"), event.get("agentSessionId")]
        ours = not sessions or any(name in sessions for name in names if isinstance(name, str))
        kind = event.get("type")
        return ours and (not types or (isinstance(kind, str) and kind in types))

    def _follow(self, frame: Message) -> None:
        """Keep the list of sessions (seed: ``init``, ``session:*``; of older servers: ``sessions``)."""
        kind, data = frame["type"], data_of(frame)
        if kind == "init" and isinstance(data, dict):
            self.sessions = _by_id(data.get("sessions"))
        elif kind == "sessions":
            self.sessions = _by_id(data)
        elif kind in {"session:created", "session:updated", "session:status"}:
            self.sessions.update(_by_id([data]))
        elif kind == "session:deleted":
            for name in _by_id([data]):
                self.sessions.pop(name, None)


connect = CinClient
"""As it reads best in ``async with``."""


def _event_in(frame: Message) -> Message | None:
    data = data_of(frame) if frame["type"] == "event" else None
    return data if isinstance(data, dict) else None


def _dicts(data: object) -> list[Message]:
    return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []


def _by_id(sessions: object) -> dict[str, Message]:
    return {name: session for session in _dicts(sessions) if isinstance(name := session.get("id"), str)}

"""Plays the clients' side of a conversation: each message when the recorded client sent it, after the same words of the
server. The agent is let go on only when the recording says that it did.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from dragoman.services.identity import Identity
from tests.dialects.onion.scripted_host import Stage

from .canonical import Names
from .recording import (
    MERGING,
    Answered,
    Asked,
    Broken,
    Entry,
    Frame,
    Left,
    Opened,
    Quiet,
    Received,
    Refused,
    Sent,
)

LIMIT = 20.0
"""Seconds for what has to come next."""

PROBE = {"type": "SESSION_STATUS", "session": {"session_id": "is anything left?"}}
ANSWER = {"type": "SESSION_STATUS", "session_id": "is anything left?", "status": "not_found"}
"""Asked where the recorded client waited in vain, or went: what is said before the answer has come by then."""

KEYS = {identity.address: identity for identity in (Identity.from_seed(bytes([seed]) * 32) for seed in range(1, 14))}
"""Keys of the recorded clients, by their addresses; those of clients that made one themselves are not known."""

_HEADERS = ("content-type", "access-control-allow-origin")


class Stuck(Exception):
    """What has to come next did not come."""


class Host(Protocol):
    """The server that is played with."""

    stage: Stage

    @property
    def port(self) -> int: ...
    def reach(self, at: float) -> None:
        """It is now so many seconds after the recording began, at least."""

    async def idle(self) -> None:
        """Wait until no turn runs in any session."""


class Player:
    """One conversation. ``entries`` is what came of it, in the order of the clients.

    Messages of the types ``beside`` are no part of it; they are in ``others``.
    """

    def __init__(self, host: Host, *, limit: float = LIMIT, beside: Collection[str] = ()) -> None:
        self._host = host
        self._limit = limit
        self._beside = beside
        self.others: list[Received] = []
        self._sockets: dict[str, ClientConnection] = {}
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._news = asyncio.Condition()
        self._due: dict[str, int] = {}
        self._told: set[tuple[str, str]] = set()
        self._closed: set[str] = set()
        self._early = False
        self.entries: list[Entry] = []

    async def play(self, expected: Sequence[Entry]) -> None:
        """The clients' side of ``expected``, which is in canonical form. Raises ``Stuck``."""
        try:
            for at, entry in enumerate(expected):
                if isinstance(entry, Received):
                    await self._expect(entry)
                else:
                    await self._settled()
                    self._host.reach(entry.at)
                    await self._do(entry, expected[at + 1 :])
            await self._settled()
        finally:
            for conn in list(self._sockets):
                await self._leave(conn)

    # What the server says

    async def _expect(self, entry: Received) -> None:
        """Count it, and let the agent go on to it where it waits."""
        step = self._lets_go(entry.frame)
        if step is not None:
            await self._settled()
            await self._host.stage.allow(step)
        self._due[entry.conn] = self._due.get(entry.conn, 0) + 1

    def _lets_go(self, frame: Frame) -> str | None:
        """What of the agent comes before this is said; each thing once, on however many sockets it is said."""
        name = (str(frame["type"]), str(frame.get("id")))
        if name in self._told:
            return None
        self._told.add(name)
        if frame["type"] == "user_input" and frame.get("runtime_input"):
            self._early = True
            return "step"
        if frame["type"] == "llm_call":
            early, self._early = self._early, False
            return None if early else "step"
        if frame["type"] == "llm_result":
            return "answer"
        slow = frame["type"] == "tool_result" and frame.get("name") == "slow" and frame.get("status") == "success"
        return "slow" if slow else None

    async def _settled(self) -> None:
        """Until everything has come that is due."""
        await self._until(lambda: all(self._heard(conn) >= count for conn, count in self._due.items()))

    def _heard(self, conn: str) -> int:
        return sum(isinstance(entry, Received) and entry.conn == conn for entry in self.entries)

    async def _until(self, true: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(self._limit), self._news:
                await self._news.wait_for(true)
        except TimeoutError:
            raise Stuck("what has to come next did not come") from None

    async def _read(self, conn: str, socket: ClientConnection) -> None:
        try:
            while True:
                data = await socket.recv()
                assert isinstance(data, str), "the server speaks in text frames"
                heard = Received(conn, json.loads(data))
                if heard.frame["type"] in self._beside:
                    self.others.append(heard)
                else:
                    await self._add(heard)
        except ConnectionClosed:
            if conn not in self._closed:
                await self._add(Broken(conn))

    async def _add(self, entry: Entry) -> None:
        async with self._news:
            self.entries.append(entry)
            self._news.notify_all()

    # What the clients do

    async def _do(self, entry: Entry, then: Sequence[Entry]) -> None:
        match entry:
            case Opened(conn, path):
                await self._open(conn, path)
            case Refused(path):
                await self._add(Refused(path, await self._refused(path)))
            case Sent(conn):
                await self._send(conn, entry, then)
            case Left(conn):
                if not isinstance(self.entries[-1], Sent):  # else it left in the same moment, and heard no more
                    await self._drained(conn)
                    await self._proved(conn)
                await self._add(Left(conn))
                await self._leave(conn)
            case Quiet():
                await self._quiet()
                await self._add(Quiet())
            case Asked():
                await self._ask(entry)
            case Answered() | Broken() | Received():
                pass  # the server's

    def _url(self, path: str) -> str:
        return f"ws://127.0.0.1:{self._host.port}{path}"

    async def _open(self, conn: str, path: str) -> None:
        await self._add(Opened(conn, path))
        socket = await connect(self._url(path), max_size=None, compression=None, proxy=None, ping_interval=None)
        self._sockets[conn] = socket
        self._readers[conn] = asyncio.create_task(self._read(conn, socket))

    async def _refused(self, path: str) -> int:
        try:
            async with connect(self._url(path), compression=None, proxy=None):
                return 101
        except InvalidStatus as refusal:
            return refusal.response.status_code

    async def _send(self, conn: str, entry: Sent, then: Sequence[Entry]) -> None:
        message = _signed(self._ours(entry.message), entry.message)
        if entry.kind == "CONNECT" and _status(conn, then) == "connected":
            await self._let_end()
        if entry.kind.endswith("_RESPONSE"):
            await self._proved(conn)
        await self._add(Sent(conn, message))
        await self._sockets[conn].send(json.dumps(_whole(message)) if isinstance(message, dict) else message)

    async def _proved(self, conn: str) -> None:
        """Until the server knows what has come here: nobody answers, or goes, within the same moment.

        The first time round its own pings have come, and were answered; the second time it has the answers.
        """
        for _ in range(2):
            with contextlib.suppress(ConnectionClosed):  # by the server, as some recordings expect
                await (await self._sockets[conn].ping())

    async def _let_end(self) -> None:
        """What runs while nobody hears of it runs to its end."""
        await self._host.stage.set_free(True)
        await self._host.idle()
        await self._host.stage.set_free(False)

    async def _leave(self, conn: str) -> None:
        self._closed.add(conn)
        socket = self._sockets.pop(conn, None)
        if socket is not None:
            await socket.close()
            await self._readers.pop(conn)

    async def _quiet(self) -> None:
        """Until the server has worked off all that it was told."""
        for conn in list(self._sockets):
            await self._drained(conn)

    async def _drained(self, conn: str) -> None:
        """Until it has worked off all that it was told on one socket."""
        known = len(self.entries)
        answer = Received(conn, ANSWER)
        await self._sockets[conn].send(json.dumps(PROBE))
        await self._until(lambda: answer in self.entries[known:])
        del self.entries[self.entries.index(answer, known)]

    async def _ask(self, entry: Asked) -> None:
        body = self._ours(entry.body)
        path = str(self._ours(entry.path))
        await self._add(Asked(entry.method, path, body))
        await self._host.stage.set_free(True)
        await self._add(await asyncio.to_thread(self._http, entry.method, path, body))
        await self._host.stage.set_free(False)

    def _http(self, method: str, path: str, body: Any) -> Answered:
        connection = http.client.HTTPConnection("127.0.0.1", self._host.port, timeout=self._limit)
        with contextlib.closing(connection):
            data = body if body is None or isinstance(body, str) else json.dumps(body)
            connection.request(method, f"{path}", data)
            answer = connection.getresponse()
            headers = {key.lower(): value for key, value in answer.getheaders() if key.lower() in _HEADERS}
            text = answer.read().decode()
        is_json = headers.get("content-type", "").startswith("application/json")
        return Answered(answer.status, headers, json.loads(text) if is_json else {"_text": text[:15]})

    # Our ids

    def _ours(self, value: Any) -> Any:
        """Our ids for the names that the canonical form has, and our sessions where a client gives one back."""
        names = Names(self.entries).given

        def made(value: Any) -> Any:
            if isinstance(value, str):
                for name, given in names.items():
                    value = value.replace(name, given)
                return value
            if isinstance(value, list):
                return [made(item) for item in value]
            if isinstance(value, dict):
                if "<given back>" in value:
                    return self._told_session(*value["<given back>"])
                if "<bytes>" in value:
                    return value
                return {key: made(item) for key, item in value.items()}
            return value

        return made(value)

    def _told_session(self, conn: str, at: int) -> Any:
        told = [
            entry.frame["session"]
            for entry in self.entries
            if isinstance(entry, Received)
            and entry.conn == conn
            and entry.frame["type"] in MERGING
            and "session" in entry.frame
        ]
        return told[at]


def _signed(message: Any, was: Any) -> Any:
    """A message with our ids, signed anew where they are in what was signed."""
    if (
        not isinstance(message, dict)
        or not isinstance(message.get("payload"), dict)
        or message["payload"] == was["payload"]
    ):
        return message
    return {**message, "signature": KEYS[message["from"]].sign(message["payload"])}


def _whole(value: Any) -> Any:
    """A message with files as big as they were."""
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "<bytes>" in value:
        return f"data:text/plain;base64,{base64.b64encode(b'x' * value['<bytes>']).decode()}"
    return {key: _whole(item) for key, item in value.items()}


def _status(conn: str, then: Sequence[Entry]) -> str | None:
    """What the server calls the session that a CONNECT on this socket names."""
    for entry in then:
        if isinstance(entry, Received) and entry.conn == conn:
            return str(entry.frame.get("status"))
    return None

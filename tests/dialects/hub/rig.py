"""A whole server in the test's own loop, and the plainest possible client: real sockets, no code of ours in it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect

from dragoman.agents.scripted import ScriptedFactory
from dragoman.agents.terminal import TerminalFactory
from dragoman.agents.terminal.settings import TerminalSettings
from dragoman.dialects.hub import HubDialect, HubDialectSettings
from dragoman.hub.checkpoints import Checkpoints
from dragoman.hub.limits import HubLimits
from dragoman.hub.memory import MemoryJournal, MemoryStore
from dragoman.hub.permissions import LOCAL
from dragoman.hub.ports import AgentFactory
from dragoman.hub.providers import Providers
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.hub.skills import Skills
from dragoman.server.app import Application
from dragoman.server.guard import Guard
from dragoman.server.listener import Listener
from dragoman.server.pump import PumpLimits
from dragoman.server.sockets import listening_socket

LIMIT = 10.0
"""Seconds any single condition may take to come true."""

Message = dict[str, Any]
T = TypeVar("T")


async def eventually(probe: Callable[[], T], what: str, limit: float = LIMIT) -> T:
    """Ask again and again until the answer is true; return it."""
    async with asyncio.timeout(limit):
        while True:
            if answer := probe():
                return answer
            await asyncio.sleep(0.005)
    raise AssertionError(what)


class Rig:
    """One server. ``store`` outlives it: give it to the next one to play a restart."""

    def __init__(
        self,
        folder: Path,
        *,
        token: str | None = None,
        settings: HubDialectSettings | None = None,
        limits: HubLimits | None = None,
        factories: tuple[AgentFactory, ...] = (),
        store: MemoryStore | None = None,
        providers: Providers | None = None,
        skills: Skills | None = None,
        checkpoints: Checkpoints | None = None,
        port: int = 0,
    ) -> None:
        self.folder = folder
        self.store = store or MemoryStore()
        self.journal = MemoryJournal(self.store)
        terminals = TerminalFactory(TerminalSettings(), folder=folder / "terminals", url=lambda _: "http://localhost")
        self.registry = Registry(
            self.journal, [ScriptedFactory(), terminals, *factories], limits=limits, checkpoints=checkpoints
        )
        check = None if token is None else (lambda given: given == token)
        self.settings = settings or HubDialectSettings()
        self.dialect = HubDialect(
            self.registry, token=check, settings=self.settings, providers=providers, skills=skills
        )
        self.application = Application([self.dialect], root=None, limits=PumpLimits())
        guarded = Guard(self.application, bound="127.0.0.1", max_body=64 * 1024 * 1024)
        self._bound = listening_socket("127.0.0.1", port)
        self.listener = Listener(guarded, self._bound, max_connections=2000)

    async def start(self) -> None:
        await self.registry.open()
        await self.listener.start()

    async def stop(self) -> None:
        self.listener.refuse_new()
        await self.registry.stop_sessions(2.0)
        await self.dialect.close(1.0)
        self.application.close_links()
        await self.listener.close(1.0)
        await self.registry.close(1.0)

    def close_port(self) -> None:
        """For a server that was never started."""
        self._bound.close()

    @property
    def port(self) -> int:
        return self.listener.port

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/hub/ws"

    async def session(self, kind: str = "scripted", **more: Any) -> Session:
        """A started session, made in the hub itself."""
        session = await self.registry.create(LOCAL, kind=kind, cwd=str(self.folder), **more)
        await session.start(LOCAL)
        return session

    async def play(self, session: Session, script: str) -> None:
        """Run a script to its end."""
        await session.submit(LOCAL, script, via="test", when_busy="queue")
        await eventually(lambda: not session.shown.turn and not session.shown.queue, "the script ended")

    @contextlib.asynccontextmanager
    async def link(self, **more: Any) -> AsyncIterator[Link]:
        """A WebSocket client; gone with the block."""
        async with connect(self.url, max_size=None, compression=None, proxy=None, **more) as socket:
            link = Link(socket)
            reading = asyncio.create_task(link.read())
            try:
                yield link
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def http(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        """One HTTP request below the dialect's root. ``bytes`` go as they are, anything else as JSON."""
        return await asyncio.to_thread(self._http, method, path, body, headers or {})

    def _http(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, f"/hub{path}", data, headers)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()


@dataclass(frozen=True)
class Reply:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> tuple[int, str]:
        """Status and code of an error, after a look at its form."""
        value = self.json
        assert list(value) == ["error"], value
        assert {"code", "message"} <= value["error"].keys(), value
        assert self.headers["content-type"] == "application/json"
        return self.status, value["error"]["code"]


@dataclass
class Link:
    """All that came, in order; answers are found by their id."""

    socket: ClientConnection
    messages: list[Message] = field(default_factory=list)
    binary: list[bytes] = field(default_factory=list)
    order: list[Message | bytes] = field(default_factory=list)
    paused: asyncio.Event | None = None
    requests: int = 0

    async def read(self) -> None:
        async for data in self.socket:
            if isinstance(data, bytes):
                self.binary.append(data)
                self.order.append(data)
            else:
                message = json.loads(data)
                self.messages.append(message)
                self.order.append(message)

    async def send(self, op: str, **fields: Any) -> int:
        """Ask, and say under which id the answer will come."""
        self.requests += 1
        await self.socket.send(json.dumps({"op": op, "id": self.requests, **fields}))
        return self.requests

    async def answer(self, request: int) -> Message:
        found = await self.until(lambda: [m for m in self.messages if m.get("id") == request], f"answer {request}")
        assert len(found) == 1, found
        return found[0]

    async def ask(self, op: str, **fields: Any) -> Message:
        """Ask and get a good answer."""
        answer = await self.answer(await self.send(op, **fields))
        assert answer["type"] == "ok", answer
        return answer

    async def refused(self, op: str, **fields: Any) -> str:
        """Ask and get the code of a refusal."""
        answer = await self.answer(await self.send(op, **fields))
        assert answer["type"] == "error", answer
        return str(answer["code"])

    async def until(self, probe: Callable[[], T], what: str) -> T:
        return await eventually(probe, what)

    async def message(self, kind: str, count: int = 1) -> Message:
        """The ``count``-th message of that type."""
        return (await self.until(lambda: self.of(kind)[count - 1 :], f"{kind} {count}"))[0]

    def of(self, kind: str) -> list[Message]:
        return [message for message in self.messages if message["type"] == kind]

    def events(self, session: str) -> list[Message]:
        """Every event of a session that came by following, in the order it came."""
        return [event for m in self.of("events") if m["session"] == session for event in m["events"]]

    def facts(self, session: str) -> list[str]:
        return [event["fact"]["type"] for event in self.events(session)]

    async def caught_up(self, session: Session) -> list[Message]:
        """Its events once the newest has come."""
        head = session.shown.seq
        await self.until(lambda: self.events(session.id) and self.events(session.id)[-1]["seq"] >= head, "caught up")
        return self.events(session.id)

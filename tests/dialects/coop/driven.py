"""A coop server in the test's own loop with an agent that the test plays: its states, its dialogs, its driver."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import connect

from dragoman.dialects.coop import CoopDialect
from dragoman.dialects.coop.settings import CoopSettings
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import (
    AnyFact,
    DecisionOpened,
    DecisionRevised,
    HookAnswered,
    HookSignalled,
    Json,
    Option,
    Question,
    StateChanged,
)
from dragoman.hub.memory import MemoryJournal, MemoryStore
from dragoman.hub.permissions import LOCAL, Principal
from dragoman.hub.ports import StopVerdict, TerminalWatcher
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.hub.turns import TurnContext
from dragoman.server.app import Application
from dragoman.server.guard import Guard
from dragoman.server.listener import Listener
from dragoman.server.pump import PumpLimits
from dragoman.server.sockets import listening_socket
from tests.hub.rig import Puppet, PuppetFactory

from .harness import LIMIT, Frame, Link, Reply, eventually


class NoTape:
    """A tape on which nothing was written."""

    start = end = 0

    def read(self, offset: int, limit: int | None = None) -> tuple[int, bytes]:
        return offset, b""


class QuietTerminal:
    """A terminal that takes everything and shows nothing."""

    screen = None
    cols, rows, pid, running = 80, 24, 1, True

    def __init__(self) -> None:
        self.tape = NoTape()
        self.written = b""

    @property
    def bytes_written(self) -> int:
        return len(self.written)

    def write(self, data: bytes) -> None:
        self.written += data

    def press(self, keys: Sequence[str]) -> int:
        raise AssertionError(keys)

    def resize(self, cols: int, rows: int, by: str | None = None) -> None:
        raise AssertionError

    def signal(self, name: str) -> None:
        raise AssertionError

    def watch(self, watcher: TerminalWatcher) -> Callable[[], None]:
        return lambda: None


class Played(Puppet):
    """An agent on a terminal. It is its own driver, and takes its own hooks; the factory says what they do."""

    factory: PlayedFactory

    def __init__(self, session: Session, factory: PlayedFactory) -> None:
        super().__init__(session, factory)
        self.terminal = QuietTerminal()
        self.driver = self if factory.driven else None
        self.hooks = self if factory.hooked else None

    async def run_turn(self, turn: TurnContext) -> str | None:
        self.factory.typed.append(turn.prompt.text)
        await asyncio.Event().wait()
        return None

    # Driver

    async def taken(self, prompt: str) -> str | None:
        return await self.factory.outcome(f"prompt {prompt}")

    async def carried_out(self, decision: str) -> str | None:
        return await self.factory.outcome(decision)

    # Hooks

    def proves(self, secret: str) -> bool:
        return secret == self.factory.secret

    async def ingest(self, event: str, data: Json) -> None:
        raise AssertionError(event)

    async def stop(self, data: Json) -> StopVerdict:
        if not isinstance(data, dict):
            raise InvalidRequest("a hook's payload is an object")
        self.factory.stops.append(data)
        verdict = self.factory.verdict
        event = self.session.record(HookAnswered(hook="stop", verdict=verdict.type))
        await self.session.durable(event.seq)
        return verdict

    async def signal(self, principal: Principal, body: Json) -> None:
        event = self.session.record(HookSignalled(signal=body, by=principal.id))
        await self.session.durable(event.seq)

    async def start(self, data: Json = None) -> str:  # type: ignore[override]  # the agent's start and the hook's
        if data is not None:
            self.factory.starts.append(data)
            event = self.session.record(HookAnswered(hook="start", source="resume", injected=True))
            await self.session.durable(event.seq)
            return self.factory.script
        return ""


class PlayedFactory(PuppetFactory):
    """``waits`` keeps every delivery back until the test says otherwise; ``says`` is the driver's word."""

    kind = "terminal"
    elsewhere = False

    def __init__(self) -> None:
        super().__init__()
        self.driven = self.hooked = True
        self.typed: list[str] = []
        self.says: str | None = None
        self.free = asyncio.Event()
        self.free.set()
        self.asked_for: list[str] = []
        self.secret = "hook-secret"
        self.verdict = StopVerdict(type="allowed")
        self.script = ""
        self.stops: list[Json] = []
        self.starts: list[Json] = []

    def make(self, session: Session) -> Played:
        return Played(session, self)

    async def outcome(self, what: str) -> str | None:
        self.asked_for.append(what)
        await self.free.wait()
        return self.says


class Play:
    """The server, with one session. ``await`` nothing between two facts: they are durable when a test asks."""

    def __init__(self, folder: Path, *, token: str | None = None, settings: CoopSettings | None = None) -> None:
        self.folder, self.token = folder, token
        self.factory = PlayedFactory()
        self.registry = Registry(MemoryJournal(MemoryStore()), [self.factory])
        self.dialect = CoopDialect(
            self.registry,
            token=None if token is None else (lambda given: given == token),
            settings=settings or CoopSettings(),
            shutdown=None,
            loopback=True,
        )
        self.application = Application([self.dialect], root="coop", limits=PumpLimits())
        self._bound = listening_socket("127.0.0.1", 0)
        self.listener = Listener(Guard(self.application, bound="127.0.0.1"), self._bound, max_connections=100)
        self.transcript: list[str] = []
        self._names = (f"d{number}" for number in itertools.count(1))
        self.session: Session

    async def start(self) -> None:
        await self.registry.open()
        self.session = await self.registry.create(LOCAL, kind="terminal", agent="claude", cwd=str(self.folder))
        await self.listener.start()

    async def stop(self) -> None:
        self.factory.free.set()
        self.listener.refuse_new()
        await self.registry.stop_sessions(1.0)
        await self.dialect.close(1.0)
        self.application.close_links()
        await self.listener.close(1.0)
        await self.registry.close(1.0)

    # The agent's side

    @property
    def state(self) -> str:
        return self.session.state.status.state

    def record(self, fact: AnyFact) -> None:
        self.session.record(fact, settling=True)

    def moves(self, state: str, cause: str = "hook:x", **more: Any) -> None:
        self.record(StateChanged(prev=self.state, next=state, cause=cause, **more))

    def asks(self, kind: str = "permission", **more: Any) -> str:
        """A dialog comes up, and the state says so."""
        decision = next(self._names)
        labels = more.pop("options", ("Yes", "Yes, always", "No") if kind in ("permission", "plan") else ())
        self.session.open_decision(
            DecisionOpened(
                decision=decision,
                kind=kind,  # type: ignore[arg-type]
                text="may I?",
                options=tuple(Option(label) for label in labels),
                **more,
            )
        )
        self.moves("prompt", f"hook:prompt({kind})", decision=decision)
        return decision

    def revises(self, decision: str, **more: Any) -> None:
        self.record(DecisionRevised(decision=decision, **more))

    async def durable(self) -> None:
        await self.session.durable(self.session.head)

    # The client's side

    @property
    def port(self) -> int:
        return self.listener.port

    @contextlib.asynccontextmanager
    async def link(self, mode: str = "state", *, label: str = "", **query: str) -> AsyncIterator[Link]:
        asked = {"mode": mode, **query}
        uri = f"ws://127.0.0.1:{self.port}/ws?{urlencode(asked)}"
        async with connect(uri, proxy=None, compression=None, ping_interval=None, close_timeout=1) as wire:
            yield Link(wire, self.transcript, label or mode)

    async def http(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        return await asyncio.to_thread(self._http, method, path, body, headers)

    async def post(self, path: str, body: Any, **headers: str) -> Reply:
        return await self.http("POST", path, body, **headers)

    def _http(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path if path.startswith("/") else f"/api/v1/{path}", data, named)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()


QUESTIONS = (
    Question("Which database?", (Option("PostgreSQL"), Option("SQLite"))),
    Question("Which port?"),
)

__all__ = ["QUESTIONS", "Frame", "Play", "eventually"]

"""The bridge's HTTP side in the test's own loop, with agents that the test plays: programs of ours, and others."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.dialects.cin.dialect import CinDialect
from dragoman.dialects.cin.origins import passes
from dragoman.dialects.cin.settings import CinSettings
from dragoman.hub.errors import NotReady
from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    AnyFact,
    DecisionOpened,
    Json,
    Option,
    PromptSubmitted,
)
from dragoman.hub.permissions import LOCAL
from dragoman.hub.ports import HookPost
from dragoman.hub.session import Session
from dragoman.hub.turns import TurnContext
from dragoman.server.app import Application
from dragoman.server.guard import Guard
from dragoman.server.listener import Listener
from dragoman.server.pump import PumpLimits
from dragoman.server.sockets import listening_socket
from dragoman.services.git import GitSettings
from tests.dialects.cin.api import Reply
from tests.dialects.cin.recorded.bridge import Link
from tests.dialects.coop.driven import QuietTerminal
from tests.faults.process import LIMIT
from tests.hub.rig import Hub, InMemory, Puppet, PuppetFactory


class Keys(QuietTerminal):
    """A terminal that remembers what was pressed."""

    def __init__(self) -> None:
        super().__init__()
        self.pressed: list[str] = []

    def press(self, keys: Sequence[str]) -> int:
        self.pressed += keys
        return 0


class Program(Puppet):
    """A program on a terminal; its turns end when they are cancelled."""

    factory: Programs

    def __init__(self, session: Session, factory: Programs) -> None:
        super().__init__(session, factory)
        self.terminal: Keys = Keys()
        factory.made[session.id] = self

    async def start(self) -> None:
        if self.factory.fails is not None:
            raise self.factory.fails
        self.session.record(AgentStarted(pid=1))

    def check(self, prompt: PromptSubmitted) -> None:
        if not self.factory.ready:
            raise NotReady

    async def run_turn(self, turn: TurnContext) -> str | None:
        self.factory.typed.append(turn.prompt.text)
        await asyncio.Event().wait()
        return None

    async def close(self, budget: float) -> None:
        self.exits()

    def exits(self) -> None:
        """The program ends."""
        if self.session.state.executor is not None:
            self.session.record(AgentExited(cause="exit", code=0), settling=True)


class Programs(PuppetFactory):
    """Makes the programs. ``ready``: they take prompts; ``fails``: they cannot be started."""

    kind = "terminal"
    elsewhere = False

    def __init__(self) -> None:
        super().__init__()
        self.ready = True
        self.fails: Exception | None = None
        self.typed: list[str] = []
        self.made: dict[str, Program] = {}

    def make(self, session: Session) -> Program:
        return Program(session, self)


class Elsewhere(PuppetFactory):
    """Makes agents that run elsewhere."""

    kind = "hooked"
    elsewhere = True


class NoIntake:
    """Nothing posts hooks here."""

    async def take(self, post: HookPost) -> None:
        raise AssertionError(post)

    async def ask(self, post: HookPost) -> str:
        raise AssertionError(post)


class Play:
    """The server. ``hub`` is what lies under it."""

    def __init__(self, folder: Path, token: str | None, settings: CinSettings, *, makes_sessions: bool) -> None:
        self.folder = folder
        self._makes_sessions = makes_sessions
        self.programs, self.elsewhere = Programs(), Elsewhere()
        self.hub = Hub(InMemory(), folder, factories=[self.programs, self.elsewhere])
        self._token = token
        self._settings = settings
        self._listener: Listener
        self.dialect: CinDialect

    async def start(self) -> None:
        await self.hub.open()
        self.dialect = CinDialect(
            self.hub.registry,
            token=None if self._token is None else (lambda given: given == self._token),
            settings=self._settings,
            git=GitSettings(),
            intake=NoIntake(),
            folder=self.folder,
            state=self.folder.parent / "state",
            makes_sessions=self._makes_sessions,
        )
        application = Application([self.dialect], root="cin", limits=PumpLimits())
        guard = Guard(application, bound="127.0.0.1", origin_rule=lambda _path, origin: passes(origin))
        self._listener = Listener(guard, listening_socket("127.0.0.1", 0), max_connections=100)
        await self._listener.start()

    async def stop(self) -> None:
        self._listener.refuse_new()
        await self.dialect.close(1.0)
        await self._listener.close(1.0)
        await self.hub.close()

    @property
    def port(self) -> int:
        return self._listener.port

    @asynccontextmanager
    async def link(self) -> AsyncIterator[Link]:
        """A socket, from its first frame on."""
        link = Link()
        assert await link.open(self.port) == 101
        try:
            yield link
        finally:
            await link.leave()

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """One request on a connection of its own."""
        return await asyncio.to_thread(self._ask, method, path, body, headers)

    async def good(self, method: str, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
        """The body of a request that must succeed."""
        reply = await self.ask(method, path, body, **headers)
        assert reply.status == status, (method, path, reply)
        return reply.body

    def _ask(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            data = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
            connection.request(method, path, data, {name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            raw, names = answer.read(), {name.lower(): text for name, text in answer.getheaders()}
            is_json = names.get("content-type") == "application/json" and raw
            return Reply(answer.status, names, json.loads(raw) if is_json else raw)
        finally:
            connection.close()

    # Agents

    async def made(self, **body: Any) -> dict[str, Any]:
        """A session of ours, as it was answered."""
        session: dict[str, Any] = (await self.good("POST", "/sessions", body, 201))["session"]
        return session

    def program(self, session: dict[str, Any]) -> Program:
        return self.programs.made[session["id"]]

    async def outsider(self, cwd: str, agent: str = "claude", pid: int | None = 1, **options: Json) -> Session:
        """A session of an agent elsewhere, which says that it works there."""
        session = await self.hub.registry.create(LOCAL, kind="hooked", cwd=cwd, agent=agent, options=options)
        await self.says(session, AgentStarted(pid=pid))
        return session

    async def says(self, session: Session, *facts: AnyFact) -> None:
        """What happens there, once it is durable."""
        for fact in facts:
            session.record(fact, settling=True)
        await session.durable(session.head)

    async def asks(self, session: dict[str, Any], name: str = "d1", **more: Any) -> None:
        """The program wants a permission."""
        found = self.program(session).session
        options = tuple(Option(label) for label in more.pop("options", ("Yes", "Yes, always", "No")))
        detail: dict[str, Json] = more.pop("detail", {})
        found.open_decision(
            DecisionOpened(decision=name, kind="permission", text="may I?", options=options, detail=detail, **more)
        )
        await found.durable(found.head)


@asynccontextmanager
async def played(
    folder: Path, token: str | None = None, *, makes_sessions: bool = True, **changes: Any
) -> AsyncIterator[Play]:
    """The server, whose own folder is ``folder/work``."""
    work = folder.resolve() / "work"
    work.mkdir()
    play = Play(work, token, msgspec.structs.replace(CinSettings(), **changes), makes_sessions=makes_sessions)
    await play.start()
    try:
        yield play
    finally:
        await play.stop()

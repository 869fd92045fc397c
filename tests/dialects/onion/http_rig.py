"""The onion dialect in a whole server in the test's own loop, asked over HTTP by the plainest possible client."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.providers.keys import KeyStore
from dragoman.agents.native.settings import NativeSettings
from dragoman.agents.scripted import ScriptedFactory
from dragoman.dialects.onion import OnionDialect
from dragoman.dialects.onion.settings import OnionSettings
from dragoman.hub.events import Json
from dragoman.hub.memory import MemoryJournal, MemoryStore
from dragoman.hub.permissions import LOCAL
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.server.app import Application
from dragoman.server.guard import Guard
from dragoman.server.listener import Listener
from dragoman.server.pump import PumpLimits
from dragoman.server.sockets import listening_socket
from dragoman.services.artifacts import ArtifactStore
from dragoman.services.artifacts.settings import ArtifactSettings
from dragoman.services.identity import Identity
from dragoman.services.trust import Trust, TrustSettings
from dragoman.services.uploads import UploadSettings
from dragoman.services.workspace import LayeredConfigs
from tests.dialects.hub.rig import eventually as eventually  # noqa: PLC0414  for those who use this rig

LIMIT = 20.0
TOKEN = "s3rver-token"

HOST, A, B, ADMIN = (Identity.from_seed(bytes([number]) * 32) for number in (1, 2, 3, 4))


@dataclass(frozen=True)
class Reply:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json", self
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        """Status and text of an error."""
        return self.status, self.json["error"]


class Server:
    """One server; ``settings`` go to the dialect, ``trust`` to who is let in. ``far``: its clients come from elsewhere
    as far as trust can tell."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: OnionSettings | None = None,
        trust: TrustSettings | None = None,
        uploads: UploadSettings | None = None,
        token: str | None = None,
        root: str | None = None,
        far: bool = False,
        max_body: int = 8 * 1024 * 1024,
    ) -> None:
        self.folder = folder
        self.work, self.lists = folder / "work", folder / "lists"
        for place in (self.work, self.lists):
            place.mkdir(exist_ok=True)
        self.registry = Registry(
            MemoryJournal(MemoryStore()),
            [ScriptedFactory()],
            artifacts=ArtifactStore(ArtifactSettings(), folder / "artifacts"),
        )
        self.settings = msgspec.structs.replace(settings or OnionSettings(), kind="scripted", name="tester")
        self.trust = Trust(
            trust or TrustSettings(policy="open"),
            folder=self.lists,
            host=HOST,
            loopback=not far,
            has_token=token is not None,
            clock=self.registry.clock,
            environment={},
        )
        self._uploads = uploads or UploadSettings()
        self._token, self._root, self._far, self._max_body = token, root, far, max_body
        self.has_token = token is not None
        self.prefix = "" if root == "onion" else "/onion"

    async def start(self) -> None:
        await self.registry.open()
        providers = ProviderDirectory(NativeSettings(), KeyStore(self.folder / "keys.json"))
        self.dialect = OnionDialect(
            self.registry,
            token=None if self._token is None else (lambda given: given == self._token),
            settings=self.settings,
            trust=self.trust,
            uploads=self._uploads,
            providers=providers,
            configs=LayeredConfigs(self.folder / "home", {}, providers.ids),
            folder=self.work,
            state=self.folder / "state",
            secrets=lambda: (TOKEN,),
            tools=lambda: ["bash", "read"],
        )
        application = Application([self.dialect], root=self._root, limits=PumpLimits())
        app: Any = _from_elsewhere(application) if self._far else application
        guarded = Guard(app, bound="127.0.0.1", max_body=self._max_body)
        self.listener = Listener(guarded, listening_socket("127.0.0.1", 0), max_connections=500)
        self._application = application
        await self.listener.start()

    async def stop(self) -> None:
        self.listener.refuse_new()
        await self.registry.stop_sessions(2.0)
        await self.dialect.close(2.0)
        self._application.close_links()
        await self.listener.close(1.0)
        await self.registry.close(1.0)

    @property
    def port(self) -> int:
        return self.listener.port

    # Signing

    def now(self) -> int:
        return self.registry.clock.now() // 1000

    def signed(self, who: Identity, **payload: Json) -> dict[str, Any]:
        """A signed body."""
        full: dict[str, Json] = {"timestamp": self.now(), **payload}
        return {"payload": full, "from": who.address, "signature": who.sign(full)}

    def signs(self, who: Identity, path: str, method: str = "GET", **more: Json) -> dict[str, str]:
        """The headers that sign a request without a body."""
        payload: dict[str, Json] = {
            "method": method,
            "path": f"{self.prefix}{path}",
            "timestamp": self.now(),
            **more,
        }
        return {
            "x-co-from": who.address,
            "x-co-signature": who.sign(payload),
            "x-co-timestamp": str(payload["timestamp"]),
        }

    # Asking

    async def get(self, path: str, method: str = "GET", **headers: str) -> Reply:
        return await self.ask(method, path, None, {name.replace("_", "-"): value for name, value in headers.items()})

    async def post(self, path: str, body: Any, **headers: str) -> Reply:
        return await self.ask("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})

    async def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        """One request below the dialect's root. ``bytes`` go as they are, anything else as JSON."""
        return await asyncio.to_thread(self._ask, method, path, body, headers or {})

    def _ask(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=4 * LIMIT)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, f"{self.prefix}{path}", data, headers)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    @contextlib.asynccontextmanager
    async def socket(self, **connects: Any) -> AsyncIterator[Socket]:
        """A WebSocket client that is let in."""
        address = f"ws://127.0.0.1:{self.port}{self.prefix}/ws"
        async with connect(address, max_size=None, compression=None, proxy=None) as connection:
            socket = Socket(connection)
            await socket.say("CONNECT", **connects)
            await socket.until("CONNECTED")
            yield socket

    async def only(self) -> Session:
        """The one session there is."""
        (row,) = self.registry.rows(LOCAL)
        return await self.registry.get(LOCAL, row.session)


class Socket:
    """A WebSocket client."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def say(self, kind: str, **fields: Any) -> None:
        await self.connection.send(json.dumps({"type": kind, **fields}))

    async def until(self, kind: str) -> dict[str, Any]:
        """The next message of that type."""
        async with asyncio.timeout(LIMIT):
            while True:
                message: dict[str, Any] = json.loads(await self.connection.recv())
                if message["type"] == kind:
                    return message


def _from_elsewhere(app: Any) -> Callable[..., Any]:
    """The application, for clients that do not seem to be on this machine."""

    async def served(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "client": ("198.51.100.7", 4711)}, receive, send)

    return served


MakeServer = Callable[..., Awaitable[Server]]


@contextlib.asynccontextmanager
async def servers(folder: Path) -> AsyncIterator[MakeServer]:
    """A way to start servers, each in a folder of its own; all are stopped in the end."""
    made: list[Server] = []

    async def start(**more: Any) -> Server:
        place = folder / str(len(made))
        place.mkdir()
        server = Server(place, **more)
        await server.start()
        made.append(server)
        return server

    try:
        yield start
    finally:
        for server in made:
            await server.stop()

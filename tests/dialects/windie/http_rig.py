"""A whole server with the windie dialect in the test's own loop, asked over HTTP by the plainest possible client."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from dragoman.dialects.windie.dialect import WindieDialect
from dragoman.dialects.windie.host import Host
from dragoman.server.serve import Server
from tests.server.asking import serving

LIMIT = 20.0
"""Seconds that any answer may take to come."""

SERVER_TOKEN = "s3rver-token"
RUNS_KEY = "runs-k3y"

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360f8cfc00000030101008d1de3f20000000049454e44ae426082"
)
"""One pixel."""

BOUNDARY = "b0und4ry"


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
    def refused(self) -> tuple[int, Any]:
        """Status and detail of an error."""
        return self.status, self.json["detail"]


class WindieServer:
    """One server, and requests to it below ``/windie``."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        """Holds ``data``, the server's own folder."""

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def dialect(self) -> WindieDialect:
        (found,) = (each for each in self.server._dialects if isinstance(each, WindieDialect))
        return found

    @property
    def host(self) -> Host:
        return self.dialect.host

    # Asking

    async def get(self, path: str, token: str | None = None, method: str = "GET", **headers: str) -> Reply:
        """``headers`` are named with ``_`` for ``-``."""
        return await self.ask(method, path, None, _headers(token, headers))

    async def post(self, path: str, body: Any = None, token: str | None = None, **headers: str) -> Reply:
        """``bytes`` go as they are, anything else as JSON."""
        return await self.ask("POST", path, body, {"content-type": "application/json", **_headers(token, headers)})

    async def upload(self, data: bytes, token: str | None = None, *, name: str = "shot.png", **headers: str) -> Reply:
        """An artifact, in a form as clients send it."""
        return await self.post("/api/artifacts/", form(data, name=name), token, **{**FORM, **headers})

    async def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        """One request below the dialect's root."""
        return await asyncio.to_thread(self._ask, method, path, body, headers or {})

    async def register(self, **headers: str) -> dict[str, Any]:
        """A new install: ``user_id``, ``install_id``, ``install_token``."""
        reply = await self.post("/api/install/register", {"operating_system": "Linux"}, **headers)
        assert reply.status == 200, reply
        registered: dict[str, Any] = reply.json
        return registered

    def _ask(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, f"/windie{path}", data, headers)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    # Over the socket

    @contextlib.asynccontextmanager
    async def socket(
        self, token: str | None = None, *, user_id: str = "tester", **definition: Any
    ) -> AsyncIterator[Socket]:
        """A link whose handshake has been sent; ``definition`` is the agent definition, none where it is empty."""
        headers = {"authorization": f"Bearer {token}"} if token is not None else {}
        async with connect(
            f"ws://127.0.0.1:{self.port}/windie/ws",
            additional_headers=headers,
            max_size=None,
            compression=None,
            proxy=None,
        ) as connection:
            socket = Socket(connection)
            more = {"agent_definition": definition} if definition else {}
            await socket.say({"type": "handshake", "user_id": user_id, **more})
            yield socket


class Socket:
    """A WebSocket client."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def say(self, message: Any) -> None:
        await self.connection.send(json.dumps(message))

    async def heard(self) -> dict[str, Any]:
        """The next message."""
        async with asyncio.timeout(LIMIT):
            message: dict[str, Any] = json.loads(await self.connection.recv())
            return message

    async def until(self, kind: str) -> dict[str, Any]:
        """The next message of that type."""
        while True:
            message = await self.heard()
            if message["type"] == kind:
                return message


def form(data: bytes, *, field: str = "file", name: str = "shot.png", media: str = "image/png") -> bytes:
    """The body of an upload."""
    head = f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="{field}"; filename="{name}"\r\n'
    return f"{head}content-type: {media}\r\n\r\n".encode() + data + f"\r\n--{BOUNDARY}--\r\n".encode()


FORM = {"content_type": f"multipart/form-data; boundary={BOUNDARY}"}


def _headers(token: str | None, more: dict[str, str]) -> dict[str, str]:
    given = {name.replace("_", "-"): value for name, value in more.items()}
    return given if token is None else {"authorization": f"Bearer {token}", **given}


@contextlib.asynccontextmanager
async def serving_windie(
    folder: Path, *, token: str | None = None, auth: str = "auto", runs_key: str | None = RUNS_KEY, **sections: Any
) -> AsyncIterator[WindieServer]:
    """A server whose conversations run with the scripted model. ``token`` is the server's own, ``auth`` is whether
    installs must show theirs; ``sections`` are further settings, ``windie`` those of the dialect."""
    server = {"token": token, **sections.pop("server", {})} if token is not None else sections.pop("server", {})
    windie = {"runs_key": runs_key, **sections.pop("windie", {})}
    settings: dict[str, Any] = {
        "server": server,
        "installs": {"auth": auth, "registrations_per_minute": 0, **sections.pop("installs", {})},
        "native": {
            "local_servers": [],
            "provider": "scripted",
            "providers": {"scripted": {"api": "scripted"}},
            **sections.pop("native", {}),
        },
        "dialects": {"windie": windie},
        **sections,
    }
    async with serving(folder, **settings) as made:
        yield WindieServer(made, folder)

"""A request to an ASGI application without a socket, and a whole server in the test's own loop."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message

from dragoman.server.serve import Server
from dragoman.server.settings import load


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    text: str


async def get(app: ASGIApp, path: str, *, peer: str = "127.0.0.1", method: str = "GET", **headers: str) -> Answer:
    """One request from ``peer``."""
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": "",
        "query_string": b"",
        "client": (peer, 50_000),
        "headers": [(name.encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()],
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    named = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], named, body.decode())


@contextlib.asynccontextmanager
async def serving(folder: Path, **sections: dict[str, Any]) -> AsyncIterator[Server]:
    """A server on a free port of loopback, with these settings."""
    flags = {"server": {"port": 0, **sections.pop("server", {})}, "data": {"folder": str(folder / "data")}, **sections}
    server = Server(load(None, {}, flags))
    await server.start()
    await server.listen()
    try:
        yield server
    finally:
        await server.stop()

"""The bridge's HTTP side of a real server, asked by the plainest client: one connection, one request after another."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.dialects.cin.recorded.bridge import Bridge
from tests.faults.process import LIMIT

PAGE = "http://localhost:4002"
"""The origin of a page that may use the bridge."""

STRANGER = "https://evil.example"

PROGRAMS = ("claude", "codex", "gemini", "qwen", "opencode")
"""What stands in for agents: a program that echoes what it is given."""


@dataclass(frozen=True)
class Reply:
    """An answer; ``body`` is JSON where it says so, else bytes."""

    status: int
    headers: Mapping[str, str]
    body: Any

    def failed(self, status: int, *words: str) -> None:
        """Assert that it is an error in the bridge's own form, and says these words."""
        assert self.status == status, self
        assert self.headers["content-type"] == "application/json", self
        assert self.body["ok"] is False, self
        for word in words:
            assert word in self.body["error"], self


class Api:
    """``bridge`` runs; ``prefix`` is where the dialect is asked: at the root or below ``/cin``."""

    def __init__(self, bridge: Bridge, prefix: str = "") -> None:
        self.bridge = bridge
        self.prefix = prefix
        self.connected()

    def connected(self) -> None:
        """Have a connection to the server, which may be another one by now."""
        self.connection = http.client.HTTPConnection("127.0.0.1", self.bridge.port, timeout=LIMIT)

    @property
    def work(self) -> Path:
        """The server's own folder."""
        return self.bridge.folder

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """One request on the one connection. Text and bytes go out as they are, anything else as JSON; ``_`` in a
        header's name is ``-``."""
        data = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, self.prefix + path, data, given)
        answer = self.connection.getresponse()
        raw = answer.read()
        names = {name.lower(): value for name, value in answer.getheaders()}
        is_json = names.get("content-type") == "application/json" and raw
        return Reply(answer.status, names, json.loads(raw) if is_json else raw)

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, **headers)

    def good(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        """The body of a request that must succeed."""
        reply = self.ask(method, path, body)
        assert reply.status == status, (method, path, reply)
        return reply.body

    def session(self, cwd: Path | str, **more: Any) -> dict[str, Any]:
        """A session of our own there, whose program runs."""
        made: dict[str, Any] = self.good("POST", "/sessions", {"cwd": str(cwd), "agent": "codex", **more}, 201)[
            "session"
        ]
        return made

    def close(self) -> None:
        self.connection.close()


@contextlib.contextmanager
def served(folder: Path, *, settings: str = "", env: Mapping[str, str] | None = None) -> Iterator[Api]:
    """A server whose own folder is ``folder/work``, with stand-ins for agents on its path; ``settings`` are lines of
    the dialect's."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name in PROGRAMS:
        (programs / name).write_text('#!/bin/sh\necho "stand-in: ${0##*/} $*"\nexec cat\n')
        (programs / name).chmod(0o755)
    bridge = Bridge(folder, env={"PATH": f"{programs}:{os.environ['PATH']}", **(env or {})})
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("[dialects.cin]\n", f"[dialects.cin]\n{settings}"))
    asyncio.run(bridge.start())
    api = Api(bridge)
    try:
        yield api
    finally:
        api.close()
        code = bridge.stop()
        assert code == 0, bridge.log.read_text()
    assert "Traceback" not in bridge.log.read_text(), bridge.log.read_text()

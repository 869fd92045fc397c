"""`dragoman serve` as a process that speaks cin at its root, and clients that keep what they hear."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from dragoman.server.settings import Settings
from tests.dialects.cin.stream_checker import Frame
from tests.faults.process import LIMIT, Served

T = TypeVar("T")

MOUNTED = hasattr(Settings().dialects, "cin")
"""Whether there is something to talk to."""

LOCAL = "http://localhost:4002"
"""The origin of a page that may talk to it."""


@dataclass(frozen=True)
class Answer:
    """What came of a request: ``body`` is what was JSON, else text."""

    status: int
    ctype: str | None
    acao: str | None
    body: Any


class Bridge(Served):
    """A server whose person's home is ``home``. ``legacy`` is whether it speaks to the dashboard in use as well;
    ``hooked`` are more settings of sessions elsewhere."""

    def __init__(
        self, folder: Path, *, legacy: bool = True, hooked: str = "", env: dict[str, str] | None = None
    ) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.events_file = folder / "events.jsonl"
        settings = folder / "config.toml"
        settings.write_text(_settings(self.events_file, legacy=legacy) + hooked)
        places = ("--data", str(folder / "data"), "--config", str(settings), "--dialect", "cin")
        own = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config")}
        own |= {"CODEX_HOME": str(self.home / ".codex"), "CLAUDE_CONFIG_DIR": str(self.home / ".claude")}
        super().__init__(folder / "work", *places, env={**own, **(env or {})})
        self.log = folder / "log"

    @property
    def port(self) -> int:
        """Where it listens, on 127.0.0.1."""
        return int(self.ready["port"])

    async def request(self, method: str, path: str, body: Any = None, *, origin: str | None = None) -> Answer:
        """One HTTP request: a text goes out as it is, anything else as JSON."""
        return await asyncio.to_thread(request, self.port, method, path, body, origin)

    @contextlib.asynccontextmanager
    async def link(self, path: str = "/", *, origin: str | None = LOCAL) -> AsyncIterator[Link]:
        """A socket, from its first frame on."""
        link = Link()
        assert await link.open(self.port, path, origin) == 101
        try:
            yield link
        finally:
            await link.leave()


class Link:
    """A socket with all that it heard, in order; ``closed`` is the code it was closed with."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.closed: int | None = None
        self._news = asyncio.Event()
        self._socket: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None

    async def open(self, port: int, path: str = "/", origin: str | None = LOCAL) -> int:
        """Connect it. The status of the answer: 101, or how it was refused."""
        try:
            self._socket = await connect(
                f"ws://127.0.0.1:{port}{path}",
                origin=None if origin is None else Origin(origin),
                max_size=None,
                compression=None,
                proxy=None,
                ping_interval=None,
            )
        except InvalidStatus as refusal:
            return refusal.response.status_code
        self._reader = asyncio.create_task(self._read(self._socket))
        return 101

    async def _read(self, socket: ClientConnection) -> None:
        try:
            while True:
                data = await socket.recv()
                assert isinstance(data, str), "the server speaks in text frames"
                self.frames.append(json.loads(data))
                self._news.set()
        except ConnectionClosed as end:
            self.closed = end.rcvd.code if end.rcvd is not None else 1006
            self._news.set()

    async def say(self, message: Any) -> None:
        """Send a message: a text or bytes go out as they are, anything else as JSON."""
        assert self._socket is not None
        await self._socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    async def until(self, probe: Callable[[], T], what: str, limit: float = LIMIT) -> T:
        """Wait for frames, or an end, that make it true."""
        try:
            async with asyncio.timeout(limit):
                while not (answer := probe()):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"not within {limit} s: {what}\n{self.story()}") from None
        return answer

    async def hear(self, kind: str, after: int = 0, **fields: Any) -> Frame:
        """The first frame of that type, behind the first ``after``, whose content has these fields."""

        def found() -> Frame | None:
            return next((frame for frame in self.frames[after:] if is_like(frame, kind, fields)), None)

        frame = await self.until(found, f"{kind} {fields}")
        assert frame is not None
        return frame

    async def pong(self) -> None:
        """Ask for a pong, and wait for it."""
        count = len(of(self.frames, "pong"))
        await self.say({"type": "ping"})
        await self.until(lambda: len(of(self.frames, "pong")) > count, "pong")

    async def leave(self) -> None:
        """Close it."""
        if self._socket is not None:
            await self._socket.close()
        if self._reader is not None:
            await self._reader

    def story(self) -> str:
        """The newest frames, shortened."""
        return "\n".join(f"{number} {json.dumps(frame)[:220]}" for number, frame in enumerate(self.frames))[-8000:]


def request(port: int, method: str, path: str, body: Any, origin: str | None) -> Answer:
    """One HTTP request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    try:
        given = body if isinstance(body, str) or body is None else json.dumps(body)
        headers = {"content-type": "application/json"} if given is not None else {}
        connection.request(method, path, given, headers | ({"origin": origin} if origin is not None else {}))
        answer = connection.getresponse()
        data = answer.read().decode()
        ctype = (answer.headers.get("content-type") or "").partition(";")[0] or None
        found = json.loads(data) if ctype == "application/json" and data else data
        return Answer(answer.status, ctype, answer.headers.get("access-control-allow-origin"), found)
    finally:
        connection.close()


def is_like(frame: Frame, kind: str, fields: dict[str, Any]) -> bool:
    """Whether it is of that type, and its content has these fields."""
    told = frame.get("data", frame.get("payload"))
    return frame["type"] == kind and all(isinstance(told, dict) and told.get(key) == fields[key] for key in fields)


def of(frames: Sequence[Frame], kind: str) -> list[Frame]:
    """Those of one type."""
    return [frame for frame in frames if frame["type"] == kind]


def _settings(events_file: Path, *, legacy: bool) -> str:
    tolerate = '["legacy"]' if legacy else "[]"
    return f"[dialects.cin]\ntolerate = {tolerate}\n[hooked]\nevents_file = {json.dumps(str(events_file))}\n"

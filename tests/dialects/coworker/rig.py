"""`dragoman serve` as a process that speaks coworker with a scripted model, and clients that keep what they hear."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from dragoman.client.coworker import CoworkerClient, CoworkerOptions
from dragoman.client.errors import ClientError
from tests.agents.native.native_rig import script as script  # noqa: PLC0414  for those who use this rig
from tests.faults.process import Served

log = logging.getLogger(__name__)

LIMIT = 20.0
"""Seconds any single condition may take to come true."""

AUTO = "session_backup_state auto_checkpoint"
BEGIN, END = ["user_message", "session_busy true"], [AUTO, "session_busy false"]
"""How every turn begins and ends, as ``without_stream`` has it."""

Frame = dict[str, Any]
T = TypeVar("T")

CONFIG = """
[native]
provider = "scripted"
local_servers = []
[native.turn]
retry_first = 0.01
[native.delegates]
claude = "no-claude-here"
codex = "CODEX"
[native.providers.scripted]
api = "scripted"
"""


class Coworker(Served):
    """A server whose folder is ``work``; ``home`` is the person's. ``config`` is added to its settings file, ``codex``
    is the program that it takes for Codex."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        config: str = "",
        codex: str = "no-codex-here",
        env: dict[str, str] | None = None,
    ) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.home.mkdir(parents=True)
        settings = folder / "config.toml"
        settings.write_text(CONFIG.replace("CODEX", codex) + config)
        places = ("--data", str(folder / "data"), "--config", str(settings))
        super().__init__(self.work, *places, *flags, env={"HOME": str(self.home), **(env or {})})
        self.log = folder / "log"

    @property
    def url(self) -> str:
        """Where the dialect's socket is."""
        return str(self.ready["dialects"]["coworker"])

    @contextlib.asynccontextmanager
    async def client(self, **more: Any) -> AsyncIterator[Heard]:
        """A client, connected, whose frames are kept."""
        options = more.pop("options", CoworkerOptions(first_retry=0.005, longest_retry=0.05))
        async with CoworkerClient(more.pop("url", self.url), options=options, **more) as client:
            heard = Heard(client)
            reading = asyncio.create_task(heard.read())
            try:
                yield heard
            finally:
                await client.close()
                await reading
                heard.check()

    async def closed(self, session: str) -> None:
        """Wait until that session is closed."""
        async with asyncio.timeout(LIMIT):
            while (await self.asked("GET", f"/sessions/{session}"))["status"] != "closed":
                await asyncio.sleep(0.02)

    def memory(self) -> int:
        """Resident bytes."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS:"))

    def descriptors(self) -> list[str]:
        """Open files and sockets, but for what is opened once and kept: the database by each thread that reads it, the
        results of sessions."""
        found = []
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.append(str(link.readlink()))
        return sorted(name for name in found if "journal" not in name and "session_results" not in name)

    def children(self) -> list[int]:
        """Processes that it started and that are still there, also as zombies."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


class Heard:
    """A client with all that it heard, in order. ``mark`` is where ``next`` goes on."""

    def __init__(self, client: CoworkerClient) -> None:
        self.client = client
        self.frames: list[Frame] = []
        self.mark = 0
        self.problem: BaseException | None = None
        self._news = asyncio.Event()

    async def read(self) -> None:
        """Until the client is closed."""
        try:
            async for frame in self.client.frames():
                self.frames.append(frame)
                self._news.set()
        except ClientError as problem:
            self.problem = problem
        finally:
            self._news.set()

    def check(self) -> None:
        """No frame is of another session."""
        strangers = [frame for frame in self.frames if frame["sessionId"] != self.client.session]
        assert not strangers, strangers[:3]

    async def until(self, probe: Callable[[], T], what: str, limit: float = LIMIT) -> T:
        """Wait for frames that make it true."""
        try:
            async with asyncio.timeout(limit):
                while not (answer := probe()):
                    self._news.clear()
                    assert self.problem is None, self.problem
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"not within {limit} s: {what}\n{self.story()}") from None
        return answer

    async def next(self, kind: str, **fields: Any) -> Frame:
        """The next frame of that type with these fields, behind the one before."""

        def found() -> Frame | None:
            for place in range(self.mark, len(self.frames)):
                frame = self.frames[place]
                if frame["type"] == kind and all(frame.get(key) == value for key, value in fields.items()):
                    self.mark = place + 1
                    return frame
            return None

        frame = await self.until(found, f"{kind} {fields}")
        assert frame is not None
        return frame

    async def connected(self) -> list[Frame]:
        """What a new link is told, to its last frame."""
        await self.until(lambda: {"provider_catalog", "provider_status"} <= set(kinds(self.frames)), "connected")
        self.mark = len(self.frames)
        return self.frames[: self.mark]

    async def settled(self) -> list[Frame]:
        """Wait for the end of the turn that is due, and return the frames behind the mark up to it."""
        begin = self.mark
        await self.next("session_busy", busy=False)
        return self.frames[begin : self.mark]

    async def turn(self, text: str) -> list[Frame]:
        """Play a turn to its end; its frames, from the echo on. What a new link is told unasked comes before it."""
        await self.connected()
        await self.client.say(text)
        return turn_of(await self.settled())

    def story(self) -> str:
        """The newest frames, shortened."""
        lines = [f"{number} {json.dumps(frame)[:200]}" for number, frame in enumerate(self.frames)]
        return "\n".join(lines[-60:])


@contextlib.asynccontextmanager
async def raw_link(url: str, **more: Any) -> AsyncIterator[ClientConnection]:
    """A socket without any client of ours."""
    async with connect(url, max_size=None, compression=None, proxy=None, ping_interval=None, **more) as socket:
        yield socket


async def read_until(socket: ClientConnection, frames: list[Frame], kind: str, **fields: Any) -> Frame:
    """Read up to such a frame, and keep what came; returns the frame."""
    async with asyncio.timeout(10):
        while True:
            frames.append(json.loads(await socket.recv()))
            if frames[-1]["type"] == kind and all(frames[-1].get(key) == value for key, value in fields.items()):
                return frames[-1]


def turn_of(frames: Iterable[Frame]) -> list[Frame]:
    """The frames from the echo of a prompt on."""
    kept = list(frames)
    while kept and kept[0]["type"] != "user_message":
        kept.pop(0)
    return kept


def kinds(frames: Iterable[Frame]) -> list[str]:
    """Each frame in a word or two."""
    return [_kind(frame) for frame in frames]


def of(frames: Iterable[Frame], kind: str) -> list[Frame]:
    """Those of one type."""
    return [frame for frame in frames if frame["type"] == kind]


def without_stream(frames: Iterable[Frame]) -> list[str]:
    """The same without chunks and log lines."""
    return [_kind(frame) for frame in frames if frame["type"] not in ("model_stream_chunk", "log")]


def _kind(frame: Frame) -> str:
    kind = str(frame["type"])
    said = {"model_stream_chunk": "partType", "session_busy": "busy", "session_backup_state": "reason"}
    return f"{kind} {frame[said[kind]]}".lower() if kind in said else kind


def calls(*made: tuple[str, Any]) -> Sequence[str]:
    """Steps of a script that call tools, one a step, each with its input."""
    return [f"call {tool} {json.dumps(given)}" for tool, given in made]


class Relay:
    """Passes WebSocket messages on, and cuts each connection after so many of the server's: ``cuts``, one after the
    other; when they are used up, no more."""

    def __init__(self, url: str, cuts: Sequence[int] = ()) -> None:
        self.cuts = list(cuts)
        self.connections = 0
        self.target = url
        self._server: Server | None = None

    async def __aenter__(self) -> Relay:
        self._server = await serve(self._pass_on, "127.0.0.1", 0, compression=None, max_size=None)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        assert self._server is not None
        port = next(iter(self._server.sockets)).getsockname()[1]
        return f"ws://127.0.0.1:{port}/ws"

    async def _pass_on(self, near: ServerConnection) -> None:
        assert near.request is not None
        query = near.request.path.partition("?")[2]
        self.connections += 1
        left = self.cuts.pop(0) if self.cuts else None
        async with raw_link(f"{self.target}?{query}" if query else self.target) as far:
            asked = asyncio.create_task(self._ask(near, far))
            try:
                async for data in far:
                    if left == 0:
                        break
                    left = None if left is None else left - 1
                    await near.send(data)
            except ConnectionClosed as closed:
                log.debug("a relayed connection ended: %s", closed)
            finally:
                asked.cancel()
                await asyncio.wait({asked})
                for end in (near, far):
                    end.transport.abort()

    async def _ask(self, near: ServerConnection, far: ClientConnection) -> None:
        try:
            async for data in near:
                await far.send(data)
        except ConnectionClosed as closed:
            log.debug("a relayed connection ended: %s", closed)
        finally:
            far.transport.abort()

"""`dragoman serve` as a process that speaks onion with a scripted model, and clients that keep what they hear."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from nacl.signing import SigningKey

from tests.agents.native.native_rig import script as script  # noqa: PLC0414  for those who use this rig
from tests.faults.process import Served

from .wire import Wire

LIMIT = 20.0
"""Seconds any single condition may take to come true."""

CONTROL = frozenset(
    {"CONNECTED", "OUTPUT", "PING", "RUNTIME_INPUT_ACK", "ERROR", "SESSION_STATUS", "ONBOARD_REQUIRED"}
    | {"ONBOARD_SUCCESS", "ADMIN_RESULT"}
)
"""Types of frames that are no stream events."""

Frame = dict[str, Any]
T = TypeVar("T")

POLICY = """---
allow: [whitelisted, contact]
deny: [blocked]
onboard:
  invite_code: [sesame, friend]
default: ask
---
Strangers are asked for a code.
"""
"""A policy whose gate opens to two codes."""

CONFIG = """
[native]
provider = "scripted"
local_servers = []
[native.turn]
retry_first = 0.01
[native.delegates]
claude = "no-claude-here"
codex = "no-codex-here"
[native.providers.scripted]
api = "scripted"
"""


class Key:
    """A caller's key: of 32 equal bytes, so that it is the same in every run."""

    def __init__(self, byte: int) -> None:
        self._key = SigningKey(bytes([byte]) * 32)
        self.address = "0x" + self._key.verify_key.encode().hex()

    def signed(self, payload: dict[str, Any] | None = None) -> dict[str, Any]:
        """The three fields that carry a signature; without a ``payload``, of one that says when.

        To the microsecond: with whole seconds two of one second are the same, and on a machine that is busy enough the
        second one may come so late that it counts as a replay.
        """
        payload = {"timestamp": round(time.time(), 6)} if payload is None else payload
        text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
        return {"payload": payload, "from": self.address, "signature": self.sign(text.encode())}

    def sign(self, text: bytes) -> str:
        """The signature over these bytes, as it is written on the wire."""
        return self._key.sign(text).signature.hex()


HOST, ALICE, BOB, CAROL = (Key(byte) for byte in (1, 2, 3, 4))


class Onion(Served):
    """A server whose folder is ``work``; ``home`` is the person's, with the configuration folder in it. ``config`` is
    added to its settings file."""

    def __init__(self, folder: Path, *flags: str, config: str = "", env: dict[str, str] | None = None) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.home.mkdir(parents=True)
        settings = folder / "config.toml"
        settings.write_text(CONFIG + config)
        places = ("--data", str(folder / "data"), "--config", str(settings))
        own = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config")}
        super().__init__(self.work, *places, *flags, env={**own, **(env or {})})
        self.log = folder / "log"

    @property
    def url(self) -> str:
        """Where the dialect's socket is."""
        return str(self.ready["dialects"]["onion"])

    @contextlib.asynccontextmanager
    async def talk(self, url: str | None = None, headers: dict[str, str] | None = None) -> AsyncIterator[Talk]:
        """A socket that has said nothing yet."""
        talk = Talk()
        await talk.open(url or self.url, headers)
        try:
            yield talk
        finally:
            await talk.wire.close()

    @contextlib.asynccontextmanager
    async def client(self, session_id: str | None = None, **more: Any) -> AsyncIterator[Talk]:
        """A socket that is connected to a session: a new one, or that one. ``more`` is as for ``Talk.connect``."""
        async with self.talk() as talk:
            await talk.connect(session_id, **more)
            yield talk

    def memory(self) -> int:
        """Resident bytes."""
        return self._status("VmRSS:")

    def peak(self) -> int:
        """The most that have been resident at once."""
        return self._status("VmHWM:")

    def _status(self, name: str) -> int:
        text = Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name))

    async def get(self, path: str) -> tuple[int, str]:
        """GET, from the server's root: status and body."""
        return await asyncio.to_thread(self._get, path)

    def _get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.ready["port"], timeout=LIMIT)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    async def hub_sessions(self) -> list[dict[str, Any]]:
        """The server's sessions as the hub dialect lists them."""
        rows: list[dict[str, Any]] = (await self.asked("GET", "/sessions"))["sessions"]
        return rows


class Talk:
    """A socket with all that it heard, in order. ``mark`` is where ``next`` goes on.

    ``times`` says when each frame came (``time.perf_counter``), ``opened`` when the connection was begun.
    """

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.times: list[float] = []
        self.opened = 0.0
        self.mark = 0
        self.answers_app_pings = True
        self.on_frame: Callable[[Frame], None] | None = None
        self.wire: Wire
        self._news = asyncio.Event()

    async def open(self, url: str, headers: dict[str, str] | None = None) -> None:
        """Connect the socket."""
        self.opened = time.perf_counter()
        self.wire = await Wire.open(url, self._take, self._news.set, headers)

    # Saying

    def say(self, kind: str, **fields: Any) -> None:
        """Send one message."""
        self.wire.send(json.dumps({"type": kind, **fields}))

    async def connect(self, session_id: str | None = None, *, key: Key | None = None, **fields: Any) -> Frame:
        """CONNECT, signed if there is a key, and return the answer to it, which must be CONNECTED."""
        if session_id is not None:
            fields["session_id"] = session_id
        self.say("CONNECT", **fields, **(key.signed() if key is not None else {}))
        answer = await self.until(self._answer, "an answer to CONNECT")
        assert answer is not None
        assert answer["type"] == "CONNECTED", answer
        return answer

    def _answer(self) -> Frame | None:
        wanted = ("CONNECTED", "ERROR", "ONBOARD_REQUIRED")
        for place in range(self.mark, len(self.frames)):
            if self.frames[place]["type"] in wanted:
                self.mark = place + 1
                return self.frames[place]
        return None

    @property
    def session_id(self) -> str:
        """The session's id, as the newest CONNECTED said it."""
        return str(next(frame for frame in reversed(self.frames) if frame["type"] == "CONNECTED")["session_id"])

    def input(self, prompt: str, **fields: Any) -> None:
        """Send a prompt."""
        self.say("INPUT", prompt=prompt, **fields)

    # Hearing

    def _take(self, text: str) -> None:
        frame = json.loads(text)
        self.frames.append(frame)
        self.times.append(time.perf_counter())
        if frame["type"] == "PING" and self.answers_app_pings:
            self.say("PONG")
        if self.on_frame is not None:
            self.on_frame(frame)
        self._news.set()

    async def until(self, probe: Callable[[], T], what: str, limit: float = LIMIT) -> T:
        """Wait for frames that make it true. A connection that ends meanwhile fails the test."""
        try:
            async with asyncio.timeout(limit):
                while not (answer := probe()):
                    self._news.clear()
                    assert self.wire.open_now, f"the connection ended ({self.wire.close_code}): {what}\n{self.story()}"
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"not within {limit} s: {what}\n{self.story()}") from None
        return answer

    async def next(self, kind: str, **fields: Any) -> Frame:
        """The next frame of that type with these fields, behind the one before."""

        def found() -> Frame | None:
            for place in range(self.mark, len(self.frames)):
                if is_like(self.frames[place], kind, fields):
                    self.mark = place + 1
                    return self.frames[place]
            return None

        frame = await self.until(found, f"{kind} {fields}")
        assert frame is not None
        return frame

    async def turn(self, prompt: str, **fields: Any) -> list[Frame]:
        """Play a turn to its OUTPUT, and return its frames."""
        begin = self.mark = len(self.frames)
        self.input(prompt, **fields)
        await self.next("OUTPUT")
        return self.frames[begin : self.mark]

    async def status(self) -> str:
        """What SESSION_STATUS says. Everything that was on its way before has been heard then."""
        self.mark = len(self.frames)
        self.say("SESSION_STATUS", session={"session_id": self.session_id})
        return str((await self.next("SESSION_STATUS"))["status"])

    def story(self) -> str:
        """The newest frames, shortened."""
        lines = [f"{number} {json.dumps(frame)[:220]}" for number, frame in enumerate(self.frames)]
        return "\n".join(lines[-60:])


def is_like(frame: Frame, kind: str, fields: dict[str, Any]) -> bool:
    """Whether it is of that type, with these fields."""
    return frame["type"] == kind and all(frame.get(key) == value for key, value in fields.items())


def events(frames: Iterable[Frame]) -> list[Frame]:
    """The stream events among them."""
    return [frame for frame in frames if frame["type"] not in CONTROL]


def of(frames: Iterable[Frame], kind: str) -> list[Frame]:
    """Those of one type."""
    return [frame for frame in frames if frame["type"] == kind]


def kinds(frames: Iterable[Frame]) -> list[str]:
    """Each frame's type, without PINGs and deltas."""
    return [frame["type"] for frame in frames if frame["type"] not in ("PING", "assistant_delta")]


def calls(*made: tuple[str, Any]) -> Sequence[str]:
    """Steps of a script that call tools, one a step, each with its input."""
    return [f"call {tool} {json.dumps(given)}" for tool, given in made]

"""A whole server in the test's own loop, a scripted model behind HTTP, and links to its windie socket.

A link runs its tools as the TypeScript client in use does (``ts_client``), writes down all that is said and heard, and
has it judged (``sequence``). What the model says is picked by ``[[script:NAME]]`` in the query's text.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from dragoman.hub.permissions import LOCAL
from dragoman.server.serve import Server
from dragoman.server.settings import load
from dragoman.services.installs import Installs, Registered
from tests.agents.native.model_server.heard import Heard
from tests.agents.native.model_server.script import Answer, Gate, Say, Turn, say, use
from tests.agents.native.model_server.server import ModelServer, directed
from tests.agents.native.model_server.server import serving as serving_model
from tests.dialects.hub.rig import eventually
from tests.dialects.windie.judges.scenarios import Ids
from tests.dialects.windie.judges.sequence import Frame, Line, faults, heard, said
from tests.dialects.windie.judges.ts_client import Tool, TsClient
from tests.dialects.windie.judges.ts_client import Turn as Told

LIMIT = 15.0
"""Seconds that any one thing may take."""

ELSEWHERE = "which the server ran, had no tool-output"

SAVE_NOTE: Frame = {
    "name": "save_note",
    "description": "Save a note.",
    "execution_target": "local_runtime",
    "schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "argument_resolution": "passthrough",
}


def note(text: str) -> Any:
    """The model calls ``save_note``."""
    return use("save_note", {"text": text})


SCRIPTS: dict[str, tuple[Turn, ...]] = {
    "hello": (say("Hello ", "world"),),
    "tool": (Answer((Say(("Hello ",)), note("x"))), say("done")),
    "two": (Answer((Say(("Hello ",)), note("a"), note("b"))), say("done")),
    "long": (Answer((Say(("Long ", Gate("long"), "story")),)),),
    "quiet": (Answer((Say(("Quiet.",)),), before=Gate("quiet")),),
    "slow tool": (Answer((note("slow"),)), Answer((Say(("after ", Gate("after"), "all")),))),
}


def pick(heard: Heard) -> str:
    """The script that is asked for; without one it is ``hello``."""
    return directed(heard) or "hello"


def scripted(name: str, text: str = "please") -> str:
    """A query's text that has the model say this script."""
    return f"{text} [[script:{name}]]"


def worded(text: str) -> str:
    """A query's text with a script, for a model that is told of earlier ones as well."""
    return text if "[[script:" in text else scripted("hello", text)


class House:
    """A server and its model. ``stop`` and ``start`` are a restart: the data folder stays."""

    def __init__(self, folder: Path, model: ModelServer, sections: Mapping[str, Any]) -> None:
        self.folder, self.model = folder, model
        self._sections = sections
        self._server: Server | None = None

    @property
    def server(self) -> Server:
        assert self._server is not None
        return self._server

    async def start(self) -> None:
        windie = self._sections.get("windie", {})
        provider = {"api": "openai-chat", "base_url": self.model.base_url("openai-chat"), "models": ["big"]}
        flags = {
            "data": {"folder": str(self.folder / "data")},
            **{name: section for name, section in self._sections.items() if name not in ("server", "windie")},
            "server": {"port": 0, **self._sections.get("server", {})},
            # The built-in one is here, too: whatever a client chooses, nothing leaves this machine.
            "native": {
                "provider": "house",
                "local_servers": [],
                "turn": {"retries": 0},
                "providers": {"house": provider, "openai": provider},
                **self._sections.get("native", {}),
            },
            "dialects": {"windie": windie},
        }
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        server = Server(load(None, {}, flags), workplace=work)
        await server.start()
        await server.listen()
        self._server = server

    def at(self, port: int) -> None:
        """Start at this port next, in place of a free one."""
        self._sections = {**self._sections, "server": {**self._sections.get("server", {}), "port": port}}

    async def stop(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop()

    @property
    def url(self) -> str:
        """The HTTP root of the dialect."""
        return f"{self.server.http_url}/windie"

    @property
    def socket(self) -> str:
        return self.url.replace("http", "ws", 1) + "/ws"

    def script(self, name: str, *turns: Turn) -> str:
        """Have the model say this; returns the text that asks for it."""
        self.model.named[name] = turns
        return scripted(name)

    @property
    def installs(self) -> Installs:
        """Of the server that runs now."""
        assert self.server._windie is not None
        return self.server._windie.installs

    async def register(self) -> Registered:
        """A new install."""
        return await self.installs.register("Linux")

    async def ask(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, Any]:
        """Status and JSON of an HTTP answer, by the plainest client."""
        return await asyncio.to_thread(self._ask, method, path, dict(headers))

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=LIMIT)
        try:
            connection.request(method, f"/windie{path}", None, headers)
            answer = connection.getresponse()
            data = answer.read()
            return answer.status, json.loads(data) if data else None
        finally:
            connection.close()

    async def gate(self, name: str) -> None:
        """Wait until an answer of the model waits there."""
        async with asyncio.timeout(LIMIT):
            await self.model.gates[name].reached.wait()

    async def at_rest(self) -> None:
        """Nothing runs or waits in any session."""
        registry = self.server.registry
        await eventually(lambda: not [row for row in registry.rows(LOCAL) if row.unsettled], "rest", LIMIT)

    def open(self, name: str) -> None:
        """Let it go on."""
        self.model.gates[name].open()

    def asked(self) -> list[Heard]:
        """What the model was asked, in order."""
        return [entry.asked for entry in self.model.journal]

    @contextlib.asynccontextmanager
    async def socketed(self, **more: Any) -> AsyncIterator[ClientConnection]:
        """A bare WebSocket: nothing is said yet."""
        async with connect(
            self.socket, max_size=None, compression=None, proxy=None, ping_interval=None, **more
        ) as socket:
            yield socket

    @contextlib.asynccontextmanager
    async def link(
        self, user: str = "user", *, token: str | None = None, watches: Sequence[tuple[str, str]] = (), **more: Any
    ) -> AsyncIterator[Link]:
        """A link that has shaken hands, gone with the block; ``more`` as ``Link.greet``. ``watches`` are turns that
        run by then, with their conversations."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with self.socketed(additional_headers=headers) as socket:
            link = Link(socket, user, self)
            await link.greet(**more)
            for turn, conversation in watches:
                link.watches(turn, conversation)
            async with link.reading():
                yield link


def definition(tools: Sequence[Frame] | None = (SAVE_NOTE,), **more: Any) -> Frame:
    """An agent definition with these tools; None has no manifest at all."""
    said_of_tools: Frame = {"mode": "default_plus_client"}
    if tools is not None:
        said_of_tools["client_manifest"] = {"version": 1, "tools": list(tools)}
    return {"version": 1, "tools": said_of_tools, **more}


@dataclass(frozen=True)
class Closed:
    """How the server ended a link."""

    code: int
    reason: str


class Link:
    """One connection. ``runs``: its tools run by themselves; else their results are kept in ``held``."""

    def __init__(self, socket: ClientConnection, user: str, house: House) -> None:
        self.socket = socket
        self.user = user
        self.house = house
        self.lines: list[Line] = []
        self.client = TsClient(user=user, tools={"save_note": _save_note})
        self.runs = True
        self.held: list[Frame] = []
        self.closed: Closed | None = None
        self.watching = False
        self._reader: asyncio.Task[None] | None = None

    # Life

    async def greet(self, agent: Frame | None = None, **fields: Any) -> None:
        """The handshake."""
        shake: Frame = {"type": "handshake", "user_id": self.user, **fields}
        shake["agent_definition"] = definition() if agent is None else agent
        await self.say(shake)

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        self._reader = asyncio.create_task(self._read())
        try:
            await self.until(lambda: self.of("remote-tool-catalog") or self.closed, "the start-up events")
            yield
        finally:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    async def cut(self) -> None:
        """The connection is lost without a word."""
        self.socket.transport.abort()
        await self.until(lambda: self.closed, "the cut")

    async def _read(self) -> None:
        try:
            async for data in self.socket:
                frame = json.loads(data)
                self.lines.append(heard(frame))
                results = self.client.hear(frame)
                if self.runs:
                    for result in results:
                        await self.say(result)
                else:
                    self.held += results
        except ConnectionClosed:
            pass  # how it ended is told below
        self.closed = Closed(self.socket.close_code or 1006, self.socket.close_reason or "")

    # Saying

    async def say(self, frame: Frame) -> None:
        self.lines.append(said(frame))
        with contextlib.suppress(ConnectionClosed):  # a tool's result after a cut, as any client's
            await self.socket.send(json.dumps(frame))

    async def tell(self, kind: str, ident: str | None = None, **payload: Any) -> str:
        """A message; returns its id."""
        ident = ident or f"{kind}-{uuid.uuid4()}"
        await self.say({"id": ident, "type": kind, "payload": payload, "user_id": self.user})
        return ident

    async def ask(self, text: str, conversation: str = "conv", ident: str | None = None, **more: Any) -> str:
        """A query; returns its turn."""
        query = self.client.ask(worded(text), conversation, ident or f"turn_{uuid.uuid4()}")
        query["payload"] |= more
        await self.say(query)
        return str(query["id"])

    async def stop(self, conversation: str | None = None, turn: str | None = None) -> Frame:
        """Stop, and wait for the acknowledgement; returns it."""
        payload = {"conversation_ref": conversation, "turn_ref": turn}
        stop = {"id": f"stop-{uuid.uuid4()}", "type": "stop-query", "payload": payload}
        self.client.stopping(stop)
        await self.say(stop)
        return await self.reply(stop["id"])

    def watches(self, turn: str, conversation: str = "conv") -> None:
        """Another link of the user asks this; here it is told as well, and judged as if it had been asked here. To be
        called before anything of it can come."""
        frame = {"id": turn, "type": "query", "payload": {"conversation_ref": conversation}}
        self.watching = True
        self.lines.append(said(frame))
        self.client.asked(frame)

    async def release(self) -> None:
        """Send the results that were held."""
        held, self.held = self.held, []
        for result in held:
            await self.say(result)

    # Hearing

    @property
    def heard(self) -> list[Frame]:
        """Every frame that came, in order."""
        return [line.frame for line in self.lines if not line.ours]

    def of(self, kind: str, turn: str | None = None) -> list[Frame]:
        return [frame for frame in self.heard if frame.get("type") == kind and turn in (None, frame.get("turn_ref"))]

    def events(self, turn: str) -> list[Frame]:
        """The stream events of a turn."""
        return [frame for frame in self.heard if frame.get("turn_ref") == turn and "sequence" in frame]

    def kinds(self, turn: str) -> list[str]:
        return [frame["type"] for frame in self.events(turn)]

    async def until(self, probe: Callable[[], Any], what: str) -> Any:
        try:
            return await eventually(probe, what, LIMIT)
        except TimeoutError:
            raise AssertionError(f"{what} did not come; heard: {json.dumps(self.heard)[-3000:]}") from None

    async def first(self, kind: str, turn: str | None = None) -> Frame:
        frames: list[Frame] = await self.until(lambda: self.of(kind, turn), kind)
        return frames[0]

    async def reply(self, ident: str) -> Frame:
        """What answers this message, not an event of a turn."""

        def answers() -> list[Frame]:
            return [frame for frame in self.heard if frame.get("id") == ident and "sequence" not in frame]

        frames: list[Frame] = await self.until(answers, f"the answer to {ident}")
        return frames[0]

    async def over(self, turn: str) -> Told:
        """The turn, once it has ended."""
        await self.until(lambda: self.client.turns[turn].state != "open", f"the end of {turn}")
        return self.client.turns[turn]

    async def barrier(self) -> None:
        """Whatever was said before this is answered: a round trip."""
        await self.reply(await self.tell("load-settings"))

    async def ended(self) -> Closed:
        """How the server closed this link."""
        closed: Closed = await self.until(lambda: self.closed, "the close")
        return closed

    def judge(self, *, quiet: bool = True, allow: str | None = None) -> None:
        """No rule of the contract is broken by what was said and heard here.

        What another link of the user runs is shown here as what the server runs is, and its output is told to nobody
        (docs/dialects/windie.md), which the judge cannot tell from one that is missing. Faults with the words
        ``allow`` are let pass.
        """
        found = [each for each in faults(self.lines, quiet=quiet) if not (self.watching and ELSEWHERE in each)]
        found = [each for each in found if allow is None or allow not in each]
        assert not found, "\n".join([*found, *self._transcript()])

    def _transcript(self) -> list[str]:
        arrows = {True: "->", False: "<-"}
        return [f"{at} {arrows[line.ours]} {json.dumps(line.frame)[:400]}" for at, line in enumerate(self.lines)]


def _save_note(arguments: Frame) -> str:
    return "saved " + json.dumps(arguments, separators=(",", ":"))


MakeHouse = Callable[..., Awaitable[House]]

__all__ = ["SAVE_NOTE", "Closed", "House", "Ids", "Link", "MakeHouse", "Tool", "definition", "scripted"]


@contextlib.asynccontextmanager
async def houses(folder: Path) -> AsyncIterator[MakeHouse]:
    """A way to start servers, each with its model; all are stopped in the end, and no model was asked amiss."""
    async with contextlib.AsyncExitStack() as running:
        made: list[House] = []

        async def make(**sections: Any) -> House:
            model = await running.enter_async_context(serving_model(ModelServer()))
            model.named.update(SCRIPTS)
            model.pick = pick
            place = folder / f"house-{len(made)}"
            place.mkdir()
            house = House(place, model, sections)
            running.push_async_callback(house.stop)
            await house.start()
            made.append(house)
            return house

        yield make
        assert [violation for house in made for violation in house.model.violations] == []

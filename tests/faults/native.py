"""Native sessions on a real server whose models are scripted: what the tests of kills and cancels share."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.common.processes import MARKER
from dragoman.agents.native.providers import conversation
from dragoman.client.hub import Event, HubClient
from dragoman.hub import events
from tests.agents.native.model_server import ModelServer
from tests.agents.native.model_server.heard import Assistant, Called, Heard, Message, Said, User

from .process import LIMIT, Served, alive, eventually

SETTINGS = """
[native]
local_servers = []
provider = "chat"

[native.providers.chat]
api = "openai-chat"
base_url = "{chat}"
models = ["scripted-1"]

[native.providers.responses]
api = "openai-responses"
base_url = "{responses}"
models = ["scripted-1"]
"""


@asynccontextmanager
async def native_server(
    folder: Path, model: ModelServer, more: str = "", *, env: dict[str, str] | None = None
) -> AsyncIterator[Served]:
    """A server, not started yet, whose providers ``chat`` and ``responses`` are this model; killed afterwards.

    ``more`` is put behind its settings (TOML).
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "settings.toml"
    given = SETTINGS.format(chat=model.base_url("openai-chat"), responses=model.base_url("openai-responses"))
    settings.write_text(f"{given}\n{more}")
    served = Served(folder, "--config", str(settings), env=env)
    try:
        yield served
    finally:
        if served.process is not None:
            served.kill()


def hub(served: Served) -> HubClient:
    """A client of the server that runs now."""
    return HubClient(f"http://127.0.0.1:{served.ready['port']}/hub")


class Watched:
    """One session as a follower sees it, over any number of clients and servers."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.log: list[Event] = []
        self.times: list[float] = []
        """When each event came, by the monotonic clock."""
        self.on_event: Callable[[Event], None] = lambda _: None

    def follow(self, client: HubClient) -> None:
        """Go on where the last client was."""
        client.follow(self.session, self._take, after=len(self.log))

    def _take(self, event: Event) -> None:
        assert event.seq == len(self.log) + 1, "a follower neither loses nor repeats"
        self.log.append(event)
        self.times.append(time.monotonic())
        self.on_event(event)

    def of(self, kind: str, **fields: Any) -> list[Event]:
        """The events of a type whose facts have these fields."""
        return [
            event
            for event in self.log
            if event.fact["type"] == kind and all(event.fact.get(name) == value for name, value in fields.items())
        ]

    async def one(self, kind: str, limit: float = LIMIT, **fields: Any) -> Event:
        """The first of them, once there is one."""
        return (await eventually(lambda: self.of(kind, **fields), f"{kind} {fields} in {self.session}", limit))[0]

    def time_of(self, event: Event) -> float:
        """When it came."""
        return self.times[event.seq - 1]

    async def end_of(self, prompt: str, limit: float = LIMIT) -> Event:
        """The end of this prompt's turn, once it has come."""
        started = await self.one("turn.started", limit, prompt=prompt)
        return await self.one("turn.ended", limit, turn=started.fact["turn"])


def commands_of(*sessions: str) -> list[int]:
    """Processes of commands that these sessions run, by the marker in their environment."""
    wanted = tuple(f"{MARKER}={session}/".encode() for session in sessions)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                variables = (entry / "environ").read_bytes().split(b"\0")
                if any(variable.startswith(wanted) for variable in variables) and alive(int(entry.name)):
                    found.append(int(entry.name))
    return found


async def gone(pids: Iterable[int]) -> float:
    """When the last of these processes was seen no more, by the monotonic clock; looked for every few milliseconds."""
    left = list(pids)
    async with asyncio.timeout(LIMIT):
        while left := [pid for pid in left if alive(pid)]:
            await asyncio.sleep(0.003)
    return time.monotonic()


def typed(log: Iterable[dict[str, Any]]) -> list[events.Event]:
    """A log as it comes over the wire, as the hub has it."""
    return [msgspec.convert(event, events.Event) for event in log]


def neutral(heard: Heard) -> list[conversation.Message]:
    """What a model was told, in the words of the agent's own conversation."""
    return [_neutral(message) for message in heard.messages]


def _neutral(message: Message) -> conversation.Message:
    if isinstance(message, User):
        return conversation.UserMessage(message.text)
    if isinstance(message, Assistant):
        return conversation.AssistantMessage(tuple(_part(part) for part in message.parts))
    return conversation.ToolMessage(message.id, message.tool, message.text)


def _part(part: Any) -> conversation.Text | conversation.Reasoning | conversation.Call:
    if isinstance(part, Said):
        return conversation.Text(part.text)
    if isinstance(part, Called):
        return conversation.Call(part.id, part.tool, part.arguments)
    return conversation.Reasoning(part.text)


def said_by_people(heard: Heard) -> str:
    """All that users said, in one text."""
    return "\n".join(message.text for message in heard.messages if isinstance(message, User))

"""A bridge in this process: a hub, the dialect on it, and links whose frames a test takes when it wants."""

from __future__ import annotations

import json
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.dialects.base import Upgrade
from dragoman.dialects.cin.dialect import CinDialect
from dragoman.dialects.cin.link import CinLink
from dragoman.dialects.cin.settings import CinSettings
from dragoman.hub.permissions import LOCAL, Principal
from dragoman.hub.ports import HookPost
from dragoman.services.git import GitSettings
from tests.hub.rig import Hub, InMemory, until

Frame = dict[str, Any]

UPGRADE = Upgrade(path="/", query={}, bearer=None, peer="127.0.0.1", loopback=True)


class NoIntake:
    """Nothing posts hooks here."""

    async def take(self, post: HookPost) -> None:
        raise AssertionError(post)

    async def ask(self, post: HookPost) -> str:
        raise AssertionError(post)


class Client:
    """One link, seen from outside. It takes frames only when asked to, and answers pings unless told not to."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.pings: list[bytes] = []
        self.answers_pings = True
        self.wakes = 0
        self.closed: int | None = None
        self.link: CinLink

    # Wire

    def wake(self) -> None:
        self.wakes += 1

    def close(self, code: int, reason: str = "") -> None:
        self.closed = code

    def set_message_limit(self, size: int) -> None:
        raise AssertionError("the limit of this protocol is always the same")

    # For tests

    def say(self, message: object) -> None:
        """Send a message: a text as it is, anything else as JSON."""
        self.link.receive(message if isinstance(message, str | bytes) else json.dumps(message))

    def take(self, most: int = 1_000_000) -> list[Frame]:
        """Pull what there is; the frames that came."""
        came: list[Frame] = []
        for _ in range(most):
            pulled = self.link.pull()
            if pulled is None:
                break
            for opcode, payload in frames_in(pulled):
                if opcode == 1:
                    came.append(json.loads(payload))
                else:
                    assert opcode == 9
                    self.pings.append(payload)
        self.frames += came
        if self.answers_pings and self.pings:
            self.pong()
            return came + self.take()
        return came

    def pong(self) -> None:
        """Answer the pings that came."""
        pings, self.pings = self.pings, []
        for payload in pings:
            self.link.pong(payload)

    async def hear(self, kind: str, count: int = 1) -> list[Frame]:
        """Take frames until there were so many of a kind; those."""

        def heard() -> list[Frame]:
            self.take()
            return [frame for frame in self.frames if frame["type"] == kind]

        await until(lambda: len(heard()) >= count, lambda: [frame["type"] for frame in self.frames])
        return heard()

    def events(self) -> list[Frame]:
        """The events that came as such."""
        self.take()
        return [frame["data"] for frame in self.frames if frame["type"] == "event"]


def frames_in(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The WebSocket frames that the bytes are: opcode and payload."""
    at = 0
    while at < len(data):
        opcode, length = data[at] & 0x0F, data[at + 1]
        at += 2
        if length == 126:
            (length,) = struct.unpack_from("!H", data, at)
            at += 2
        elif length == 127:
            (length,) = struct.unpack_from("!Q", data, at)
            at += 8
        yield opcode, data[at : at + length]
        at += length
    assert at == len(data)


class Bridge:
    """The dialect on a hub."""

    def __init__(self, hub: Hub, dialect: CinDialect) -> None:
        self.hub = hub
        self.dialect = dialect

    async def open(self, principal: Principal = LOCAL) -> Client:
        """A link whose first frames were not taken yet."""
        client = Client()
        link = await self.dialect.open(UPGRADE, client)
        assert isinstance(link, CinLink)
        link.principal = principal
        client.link = link
        return client


@asynccontextmanager
async def bridge(folder: Path, hub: Hub | None = None, **changes: Any) -> AsyncIterator[Bridge]:
    """A bridge with these settings; twins are off unless asked for."""
    own = hub is None
    hub = hub or Hub(InMemory(), folder)
    if own:
        await hub.open()
    settings = msgspec.structs.replace(CinSettings(tolerate=()), **changes)
    dialect = CinDialect(
        hub.registry,
        token=None,
        settings=settings,
        git=GitSettings(),
        intake=NoIntake(),
        folder=folder,
        state=folder / "cin",
    )
    try:
        yield Bridge(hub, dialect)
    finally:
        await dialect.close(1.0)
        if own:
            await hub.close()

"""Links of the windie dialect without a server: a hub whose model is scripted, and wires that are lists."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.providers.keys import KeyStore
from dragoman.agents.native.settings import NativeSettings
from dragoman.dialects.base import Upgrade
from dragoman.dialects.windie.dialect import WindieDialect
from dragoman.dialects.windie.link import WindieLink
from dragoman.dialects.windie.settings import WindieSettings
from dragoman.hub.clock import SystemClock
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.services.artifacts import ArtifactSettings, ArtifactStore, OwnedArtifacts, OwnedArtifactSettings
from dragoman.services.installs import Access, Installs, InstallSettings
from dragoman.services.user_settings import UserSettings
from tests.agents.native.native_rig import NativeHub, Recording, native_hub
from tests.hub.rig import until

Frame = dict[str, Any]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))

_numbers = itertools.count(1)


def tool(name: str = "save_note") -> Frame:
    """A tool as a manifest has it."""
    return {
        "name": name,
        "description": "Saves.",
        "schema": {"type": "object", "properties": {"text": {"type": "string"}}},
    }


def definition(*tools: Frame, **more: Any) -> Frame:
    """An agent definition with these tools and no others."""
    return {
        "version": 1,
        "tools": {"mode": "client_only", "client_manifest": {"version": 1, "tools": list(tools)}},
        **more,
    }


class Client:
    """One link, and all that it was told."""

    def __init__(self, dialect: WindieDialect) -> None:
        self.heard: list[Frame] = []
        self.closed: tuple[int, str] | None = None
        self.link: WindieLink
        self._dialect = dialect
        self._pulling = False

    async def open(self, user: str = "user", **handshake: Any) -> Client:
        """Connect, and say who it is."""
        upgrade = Upgrade(path="/ws", query={}, bearer=None, peer="127.0.0.1", loopback=True)
        self.link = await self._dialect.open(upgrade, self)
        self.link.receive(json.dumps({"type": "handshake", "user_id": user, **handshake}))
        await self.hears(lambda frame: frame["type"] == "remote-tool-catalog")
        return self

    # Wire

    def wake(self) -> None:
        if not self._pulling:
            self._pulling = True
            asyncio.get_running_loop().call_soon(self._pull)

    def close(self, code: int, reason: str = "") -> None:
        self.closed = code, reason

    def set_message_limit(self, size: int) -> None:
        """Whatever comes is short."""

    def _pull(self) -> None:
        self._pulling = False
        while (frame := self.link.pull()) is not None:
            self.heard.extend(map(json.loads, _messages(frame)))

    # What a test does

    def send(self, kind: str, payload: Frame, name: str | None = None) -> str:
        """Send a message; returns its id."""
        name = name or f"m{next(_numbers)}"
        self.link.receive(json.dumps({"id": name, "type": kind, "payload": payload}))
        return name

    def ask(self, text: str, ref: str = "conv", name: str | None = None, **more: Any) -> str:
        """Send a query; returns its id."""
        return self.send("query", {"text": text, "content": text, "conversation_ref": ref, **more}, name)

    async def hears(self, matches: Callable[[Frame], bool]) -> Frame:
        """Wait for such a message, also one that came before."""
        return cast("Frame", await until(lambda: next(filter(matches, self.heard), None), lambda: self.heard))

    async def reply(self, name: str, *kinds: str) -> Frame:
        """Wait for a message of these kinds with this id."""
        return await self.hears(lambda frame: frame.get("id") == name and frame["type"] in kinds)

    async def ended(self, name: str) -> str:
        """Wait for the end of a turn; its last text, or what its error says."""
        frame = await self.reply(name, "streaming-complete", "error")
        return cast("str", frame["payload"].get("final_response") or frame["payload"].get("message"))

    def told(self, name: str) -> list[str]:
        """The types of what was told of this id."""
        return [frame["type"] for frame in self.heard if frame.get("id") == name]

    async def called(self, count: int = 1) -> Frame:
        """Wait for the so manieth call that this link is to run; its payload."""

        def look() -> Frame | None:
            calls = [
                frame["payload"]
                for frame in self.heard
                if frame["type"] == "tool-call" and not frame["payload"]["metadata"].get("skip_local_execution")
            ]
            return calls[count - 1] if len(calls) >= count else None

        return cast("Frame", await until(look, lambda: self.heard))

    def leave(self) -> None:
        """The socket is gone."""
        self.link.lost()


class Place:
    """A hub with the dialect on it."""

    def __init__(self, hub: NativeHub, model: Recording, dialect: WindieDialect, uploads: OwnedArtifacts) -> None:
        self.hub = hub
        self.model = model
        self.dialect = dialect
        self.uploads = uploads

    async def client(self, user: str = "user", **handshake: Any) -> Client:
        return await Client(self.dialect).open(user, **handshake)

    async def session(self, ref: str = "conv") -> Session:
        """The session that a conversation is, once it is there."""
        rows = self.hub.registry.rows

        def look() -> str | None:
            return next((row.session for row in rows(LOCAL) if row.title == ref), None)

        return await self.hub.get(await until(look, ref))

    @contextmanager
    def slow_disk(self) -> Iterator[None]:
        """Nothing becomes durable meanwhile."""
        journal = self.hub.journal
        journal._scheduled = True  # as if the disk had been asked, and did not answer
        try:
            yield
        finally:
            journal._scheduled = False
            journal._schedule()

    async def upload(self, data: bytes = PNG, owner: str = "anybody") -> str:
        """Upload an artifact; its id."""

        async def pieces() -> AsyncIterator[bytes]:
            yield data

        return (await self.uploads.put(owner, pieces())).id


@asynccontextmanager
async def place(folder: Path, settings: WindieSettings | None = None) -> AsyncIterator[Place]:
    """See the module. Every log is held to the grammar afterwards."""
    model = Recording()
    store = ArtifactStore(ArtifactSettings(spare=0), folder / "artifacts")
    work = folder / "work"
    work.mkdir()
    clock = SystemClock()
    installs = Installs(InstallSettings(), folder / "installs", clock=clock)
    uploads = OwnedArtifacts(OwnedArtifactSettings(spare=0), folder / "uploads", clock)
    users = UserSettings(folder / "users", clock=clock)
    nothing: Any = None
    async with native_hub(work, provider=model, artifacts=store) as hub:
        dialect = WindieDialect(
            hub.registry,
            settings=settings or WindieSettings(),
            access=Access(InstallSettings(auth="off"), installs, loopback=True, token=None),
            installs=installs,
            artifacts=uploads,
            runs=nothing,
            users=users,
            providers=ProviderDirectory(
                NativeSettings(local_servers=()), KeyStore(folder / "keys.json"), environment={}
            ),
            previews=nothing,
            folder=work,
        )
        try:
            yield Place(hub, model, dialect, uploads)
        finally:
            await hub.registry.stop_sessions(1.0)
            await dialect.close(1.0)
            await uploads.close()
            await users.close()
            await installs.close(1.0)
    await store.close()


def _messages(frames: bytes) -> Iterable[bytes]:
    """The texts of the frames that these bytes are."""
    while frames:
        size, head = frames[1], 2
        if size in (126, 127):
            head = 4 if size == 126 else 10
            size = int.from_bytes(frames[2:head], "big")
        yield frames[head : head + size]
        frames = frames[head + size :]

"""Hosts and clients for the whole run: a client's libraries take seconds to load, so its process serves every test.

Each test has conversations of its own. Everything runs in the session's loop, because the processes' pipes do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from tests.agents.native.model_server import ModelServer, serving
from tests.e2e.clis import Unavailable

from .host import Host, Stage
from .packages import npm_client, python_client
from .people import STARTING, NpmPerson, Person, Program, PythonPerson, address_of, seed
from .wire import Wire

RELEASES = {"python-1.2.1": "1.2.1", "python-1.2.1-unsigned": "1.2.1", "python-1.9.2": "1.9.2"}
"""Kinds of people with the Python client, and its release."""

EVERYBODY = (*RELEASES, "npm-0.1.4")


class Clients:
    """Processes of clients, each started when it is first wanted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = AsyncExitStack()
        self._programs: dict[str, Program] = {}

    async def program(self, name: str) -> Program:
        """The process of a client; skips the test where it cannot be had."""
        if name not in self._programs:
            try:
                words = npm_client() if name == "npm" else python_client(name)
            except Unavailable as missing:
                pytest.skip(str(missing))
            program = Program(words, self._folder / name)
            self._programs[name] = await self._stack.enter_async_context(program.running())
        return self._programs[name]

    async def meet(self, kind: str, host: Host, *, url: str = "", key: str = "") -> Person:
        """Somebody new of a kind, who is to talk to this host, at ``url`` where it is not the host's own."""
        if kind in RELEASES:
            return await self.python(kind, host, url=url, key=key)
        return await self.npm(host, url=url, key=key)

    async def python(
        self, kind: str, host: Host, *, url: str = "", key: str = "", unsigned: bool = False
    ) -> PythonPerson:
        """The same with one of the Python clients; ``key`` is a seed. ``unsigned``: by the newer one's own word."""
        person = PythonPerson(await self.program(RELEASES[kind]))
        keys: str | bool | None = False if unsigned else None
        if not unsigned and not kind.endswith("unsigned"):
            keys = key = key or seed()
            person.principal = f"onion:{address_of(key)}"
        given = {"address": host.address, "relay_url": _socket_url(url or host.url), "keys": keys}
        await person.program.ask("connect", STARTING, agent=person.name, **given)
        return person

    async def npm(self, host: Host, *, url: str = "", key: str = "", relay: bool = False) -> NpmPerson:
        """The same with the npm client; ``key`` is a seed or a name. ``relay``: the way that has no direct URL."""
        person = NpmPerson(await self.program("npm"))
        url = url or host.url
        options = {"relayUrl": _socket_url(url)} if relay else {"directUrl": url}
        given = {"address": host.address, "keys": key or person.name, "options": options}
        address = await person.program.ask("connect", STARTING, agent=person.name, **given)
        person.principal = f"onion:{address}"
        return person

    async def close(self) -> None:
        """End them all."""
        await self._stack.aclose()


def _socket_url(url: str) -> str:
    return url.replace("http:", "ws:")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def clients(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Clients]:
    """See ``Clients``."""
    made = Clients(tmp_path_factory.mktemp("clients"))
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def model() -> AsyncIterator[ModelServer]:
    """The model of all hosts. In the end it has refused nothing."""
    async with serving() as server:
        yield server
        assert not server.violations


async def _serve(host: Host) -> AsyncIterator[Stage]:
    try:
        await host.start()
        yield Stage(host)
    finally:
        if host.process is not None:
            host.kill()
    assert "Traceback" not in host.log.read_text(), host.log.read_text()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stage(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> AsyncIterator[Stage]:
    """A host that lets everybody on this machine in."""
    async for it in _serve(Host(tmp_path_factory.mktemp("host"), model)):
        yield it


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def rooted(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> AsyncIterator[Stage]:
    """One that speaks the dialect at its root, too."""
    async for it in _serve(Host(tmp_path_factory.mktemp("rooted"), model, root=True)):
        yield it


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def plain(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> AsyncIterator[Stage]:
    """One as it is installed."""
    async for it in _serve(Host(tmp_path_factory.mktemp("plain"), model, plain=True)):
        yield it


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def gated(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> AsyncIterator[Stage]:
    """One with a trust gate."""
    async for it in _serve(Host(tmp_path_factory.mktemp("gated"), model, gate=True)):
        yield it


@pytest_asyncio.fixture(loop_scope="session")
async def mortal(tmp_path: Path, model: ModelServer) -> AsyncIterator[Stage]:
    """One that its test may kill, and start again."""
    async for it in _serve(Host(tmp_path / "host", model)):
        yield it


@pytest_asyncio.fixture(loop_scope="session")
async def wire(stage: Stage) -> AsyncIterator[Wire]:
    """A wire to ``stage`` that keeps all frames and can be cut."""
    async with Wire(stage.host.url).running() as it:
        yield it
    print(it.story())  # shown where the test failed

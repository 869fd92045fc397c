"""Whether the server is there, and whether it can work: ``/livez`` and ``/readyz``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from dragoman.agents.scripted import ScriptedFactory
from dragoman.hub.events import LogWritten
from dragoman.hub.memory import MemoryJournal, MemoryStore
from dragoman.hub.permissions import LOCAL
from dragoman.hub.registry import Registry
from dragoman.server.health import Readiness, pages

from .asking import Answer, get, serving


class Watched:
    """The pages of a hub, its journal, and whether it stops."""

    def __init__(self) -> None:
        self.journal = MemoryJournal(MemoryStore(), queue_events=3)
        self.registry = Registry(self.journal, [ScriptedFactory()])
        self.stops = False
        self.readiness = Readiness(self.registry, stopping=lambda: self.stops)
        self.pages: dict[str, ASGIApp] = pages(self.readiness, None)

    async def ask(self, path: str) -> Answer:
        return await get(self.pages[path], path)


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    hub = Watched()
    await hub.registry.open()
    yield hub
    await hub.registry.close(1.0)


async def test_a_server_that_can_work(watched: Watched) -> None:
    assert (await watched.ask("/livez")).text == "alive\n"
    ready = await watched.ask("/readyz")
    assert (ready.status, ready.text) == (200, "ready\n")
    assert ready.headers["content-type"] == "text/plain; charset=utf-8"


async def test_a_disk_that_cannot_be_written_is_told_without_its_words(watched: Watched) -> None:
    watched.journal.fail("/home/me/secret: disk full")
    ready = await watched.ask("/readyz")
    assert (ready.status, ready.text) == (503, "the journal cannot write\n")
    assert (await watched.ask("/livez")).status == 200
    watched.journal.heal()
    assert (await watched.ask("/readyz")).status == 200


async def test_a_journal_that_does_not_keep_up(watched: Watched, tmp_path: Path) -> None:
    session = await watched.registry.create(LOCAL, kind="scripted", cwd=str(tmp_path))
    for _ in range(3):
        session.record(LogWritten(line="much"))
    assert watched.readiness.obstacles() == ["the journal does not keep up"]
    await session.durable(session.head)
    assert not watched.readiness.obstacles()


async def test_a_server_that_stops(watched: Watched) -> None:
    watched.stops = True
    ready = await watched.ask("/readyz")
    assert (ready.status, ready.text) == (503, "the server stops\n")


async def test_without_metrics_there_is_no_such_page(watched: Watched) -> None:
    assert set(watched.pages) == {"/livez", "/readyz"}


async def test_they_are_only_read(watched: Watched) -> None:
    assert (await get(watched.pages["/readyz"], "/readyz", method="POST")).status == 405
    assert (await get(watched.pages["/livez"], "/livez", method="HEAD")).status == 200


async def test_they_need_no_token_and_stand_beside_the_dialect_at_the_root(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"token": "s3cret", "dialect": "coop"}) as server:
        assert server._application is not None
        for path in ("/livez", "/readyz"):
            assert (await get(server._application, path, peer="192.0.2.1")).status == 200
        server.request_stop()
        assert (await get(server._application, "/readyz")).status == 503
        assert (await get(server._application, "/livez")).status == 200

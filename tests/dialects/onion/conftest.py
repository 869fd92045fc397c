"""Fixtures: a server for the tests of a file, and ways to make others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from . import http_rig
from .rig import Onion

MakeServer = Callable[..., Awaitable[Onion]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Onion]:
    """One for all tests of a file that leave it alive."""
    server = Onion(tmp_path_factory.mktemp("onion"))
    asyncio.run(server.start())
    yield server
    server.kill()
    assert "Traceback" not in server.log.read_text(), server.log.read_text()


@pytest.fixture
async def make_server(tmp_path: Path) -> AsyncIterator[MakeServer]:
    """Start a server with these arguments, after ``prepare`` was called with it; all are ended after the test."""
    made: list[Onion] = []

    async def make(*flags: str, prepare: Callable[[Onion], None] | None = None, **more: Any) -> Onion:
        server = Onion(tmp_path / f"server-{len(made)}", *flags, **more)
        made.append(server)
        if prepare is not None:
            prepare(server)
        await server.start()
        return server

    yield make
    for server in made:
        if server.process is not None:
            server.kill()
        assert "Traceback" not in server.log.read_text(), server.log.read_text()


@pytest.fixture
async def make_http(tmp_path: Path) -> AsyncIterator[http_rig.MakeServer]:
    """Start the dialect's HTTP side in this process, in a folder of its own (``http_rig``)."""
    async with http_rig.servers(tmp_path) as start:
        yield start

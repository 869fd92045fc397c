"""Fixtures: servers for one test and servers that a whole file shares."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from .driven import Play
from .harness import Servers


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Servers that live as long as the test file."""
    servers = Servers(tmp_path_factory.mktemp("shared"))
    yield servers
    servers.close()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Servers of one test."""
    servers = Servers(tmp_path)
    yield servers
    servers.close()


@pytest.fixture(autouse=True)
def transcripts(shared: Servers, servers: Servers) -> Iterator[None]:
    """A failing test shows all that was said to and by its servers."""
    yield
    shared.show()
    servers.show()


@pytest.fixture
async def play(tmp_path: Path) -> AsyncIterator[Play]:
    """A server whose agent the test plays."""
    played = Play(tmp_path)
    await played.start()
    yield played
    print("\n".join(played.transcript[-300:]))
    await played.stop()

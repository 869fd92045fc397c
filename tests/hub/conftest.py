"""The hub of a test, in memory or on disk; whatever it wrote is held to the log's grammar when the test is over."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from .rig import Hub, InMemory, OnDisk, proven

MakeHub = Callable[..., Awaitable[Hub]]


@pytest.fixture
async def make_hub(tmp_path: Path) -> AsyncIterator[MakeHub]:
    """Makes opened hubs: ``await make_hub(disk=True, limits=…)``. Their logs are checked at the end."""
    async with AsyncExitStack() as hubs:
        homes = itertools.count()

        async def make(*, disk: bool = False, store: Any = None, **more: Any) -> Hub:
            home = tmp_path / f"hub-{next(homes)}"
            work = home / "work"
            work.mkdir(parents=True)
            hub = Hub(store or (OnDisk(home) if disk else InMemory()), work, **more)
            return await hubs.enter_async_context(proven(hub))

        yield make


@pytest.fixture
async def hub(make_hub: MakeHub) -> Hub:
    """A hub in memory."""
    return await make_hub()


@pytest.fixture(params=["memory", "disk"])
async def any_hub(request: pytest.FixtureRequest, make_hub: MakeHub) -> Hub:
    """A hub on each kind of journal."""
    return await make_hub(disk=request.param == "disk")

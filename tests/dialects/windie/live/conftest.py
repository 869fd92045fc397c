"""Fixtures: a server for one test, and a way to make others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .rig import House, MakeHouse, houses


@pytest.fixture
async def make_house(tmp_path: Path) -> AsyncIterator[MakeHouse]:
    """Start a server with these sections of settings; ``windie`` is the dialect's."""
    async with houses(tmp_path) as make:
        yield make


@pytest.fixture
async def house(make_house: MakeHouse) -> House:
    """A server with every default."""
    return await make_house()

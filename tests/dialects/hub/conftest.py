"""Fixtures: a server for one test, and a way to make others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from .rig import Rig

MakeRig = Callable[..., Awaitable[Rig]]


@pytest.fixture
async def make_rig(tmp_path: Path) -> AsyncIterator[MakeRig]:
    """Start a server with these arguments; all are stopped after the test."""
    rigs: list[Rig] = []

    async def make(**more: Any) -> Rig:
        rig = Rig(tmp_path, **more)
        await rig.start()
        rigs.append(rig)
        return rig

    yield make
    for rig in rigs:
        await rig.stop()


@pytest.fixture
async def rig(make_rig: MakeRig) -> Rig:
    """A server without a token and with every default."""
    return await make_rig()

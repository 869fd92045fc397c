"""Servers for tests of the windie dialect's HTTP side."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .http_rig import WindieServer, serving_windie


@pytest.fixture
async def open_server(tmp_path: Path) -> AsyncIterator[WindieServer]:
    """One on loopback where nobody needs a token."""
    async with serving_windie(tmp_path) as server:
        yield server


@pytest.fixture
async def closed_server(tmp_path: Path) -> AsyncIterator[WindieServer]:
    """One where every request needs an install's token."""
    async with serving_windie(tmp_path, auth="on") as server:
        yield server

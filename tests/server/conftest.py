"""Fixtures: a coop server whose agent the test plays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.dialects.coop.driven import Play


@pytest.fixture
async def play(tmp_path: Path) -> AsyncIterator[Play]:
    played = Play(tmp_path)
    await played.start()
    yield played
    await played.stop()

"""Fixtures of the coworker dialect's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .machine import Machine


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    made = Machine(tmp_path)
    yield made
    for directory in made.made:
        await directory.close()

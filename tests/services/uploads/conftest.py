from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .rig import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path)
    await made.begin()
    yield made
    await made.end()

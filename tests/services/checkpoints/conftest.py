"""A desk for each of the store's own tests."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from .store_rig import Desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(tmp_path)
    yield made
    await made.store.close()


@pytest.fixture
def short_socket() -> Iterator[Path]:
    """A socket under a path that is short enough for one."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        path = Path(folder) / "s"
        listening.bind(str(path))
        yield path

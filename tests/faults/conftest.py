"""Servers that end with their test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .process import Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server process, not started yet."""
    server = Served(tmp_path / "server")
    yield server
    if server.process is not None:
        server.kill()

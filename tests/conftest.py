"""What tests of all parts need."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_path() -> Iterator[Path]:
    """An empty folder with a path that leaves room for a unix socket's, which ``tmp_path`` need not."""
    with tempfile.TemporaryDirectory(prefix="dm-", dir="/tmp") as folder:
        yield Path(folder)

"""What tests of all parts need."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

CACHE = Path.home() / ".cache"

# The tests start hundreds of servers. Each would compile all that it imports once more, which takes as long as the rest
# of its start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="session", autouse=True)
def _a_home_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What this machine's user wrote for agents is none of the tests' business. The cache stays: e2e installs there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME") or str(CACHE))
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture
def short_path() -> Iterator[Path]:
    """An empty folder with a path that leaves room for a unix socket's, which ``tmp_path`` need not."""
    with tempfile.TemporaryDirectory(prefix="dm-", dir="/tmp") as folder:
        yield Path(folder)

"""A workspace with text in it, and a secret beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .context import FakeTurn


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder that the tools may touch; ``outside/secret`` lies beside it."""
    root = tmp_path / "root"
    root.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("the secret\n")
    return root


@pytest.fixture
def turn(root: Path) -> FakeTurn:
    return FakeTurn(root)


@pytest.fixture
def open_files() -> Iterator[None]:
    """Fails the test that leaves a descriptor open."""

    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert len(list(Path("/proc/self/fd").iterdir())) <= before

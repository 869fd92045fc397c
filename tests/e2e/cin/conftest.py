"""A person's machine for the whole run, and others for the tests in which the server is lost."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import clis
from tests.e2e.driven import ModelServer

from .house import House


@contextlib.contextmanager
def lived_in(model: ModelServer) -> Iterator[House]:
    """A house whose server runs."""
    # Codex wants no home below /tmp, and Gemini none below a folder that others may write to.
    homes = clis.cache().parent / "homes"
    homes.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=homes))
    house = House(folder, model)
    try:
        asyncio.run(house.start())
        yield house
    finally:
        if house.process is not None:
            house.stop()
        said = house.log.read_text(errors="replace")
        shutil.rmtree(folder, ignore_errors=True)
    assert "Traceback" not in said, said


@pytest.fixture(scope="session")
def house(model: ModelServer) -> Iterator[House]:
    """A server that stays."""
    with lived_in(model) as house:
        yield house


@pytest.fixture
def mortal(model: ModelServer) -> Iterator[House]:
    """One for a test that stops its server."""
    with lived_in(model) as house:
        yield house

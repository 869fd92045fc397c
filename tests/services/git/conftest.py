from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.git.repositories import Eye, Person


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "person")


@pytest.fixture
def eye(person: Person, tmp_path: Path) -> Eye:
    folder = tmp_path / "eye"
    folder.mkdir()
    return Eye(person, folder)

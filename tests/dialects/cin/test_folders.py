"""Which folders git is asked about for a bridge's sessions: those that somebody looks at, and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialects.cin import folders as module
from dragoman.dialects.cin.folders import Folders
from dragoman.hub.journal import SessionRow
from dragoman.services.git import GitSettings
from tests.hub.rig import until
from tests.services.git.repositories import Person, write

QUICK = GitSettings(settle=0.01, tick=3600.0, glance=3600.0, rest=0.01)


@asynccontextmanager
async def looking(told: list[str]) -> AsyncIterator[Folders]:
    folders = Folders(QUICK, told.append)
    try:
        yield folders
    finally:
        await folders.close()


def row(session: str, cwd: Path, **changes: Any) -> SessionRow:
    """A session whose program runs."""
    fields: dict[str, Any] = {"status": "idle", "unsettled": True, "kind": "terminal", **changes}
    return SessionRow(
        session=session,
        agent="claude",
        cwd=str(cwd),
        title="t",
        owner="o",
        created_at=1,
        changed_at=1,
        head=1,
        **fields,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return Person(tmp_path / "person").repository(tmp_path.resolve() / "r")


async def test_while_there_is_a_link_live_sessions_folders_are_looked_at(repository: Path, tmp_path: Path) -> None:
    told: list[str] = []
    other = tmp_path / "other"
    other.mkdir()
    async with looking(told) as folders:
        folders.row_changed(row("before", repository))
        assert folders.status(str(repository)) is None, "nobody looks"

        folders.begin([row("one", repository), row("two", repository), row("gone", other, unsettled=False)])
        await until(lambda: sorted(told) == ["one", "two"], told, 30)
        assert folders.status(str(other)) is None, "its session is offline"

        write(repository / "n")
        folders.row_changed(row("one", repository))
        await until(lambda: sorted(told) == ["one", "one", "two", "two"], told, 30)
        status = folders.status(str(repository))
        assert status is not None
        assert status.untracked == 1

        folders.end()
        assert folders.status(str(repository)) is None


async def test_a_session_that_is_over_is_no_reason_to_look(repository: Path) -> None:
    told: list[str] = []
    async with looking(told) as folders:
        folders.begin([row("one", repository), row("two", repository)])
        await until(lambda: len(told) == 2, told, 30)
        folders.row_changed(row("one", repository, status="closed"))
        assert folders.status(str(repository)) is not None, "the other's is the same"
        folders.row_changed(row("two", repository, dropped_at=5))
        assert folders.status(str(repository)) is None


async def test_a_session_that_moves_is_followed(repository: Path, tmp_path: Path) -> None:
    told: list[str] = []
    other = Person(tmp_path / "another").repository(tmp_path.resolve() / "other")
    async with looking(told) as folders:
        folders.begin([row("one", repository)])
        await until(lambda: told == ["one"], told, 30)
        folders.row_changed(row("one", other))
        await until(lambda: told == ["one", "one"], told, 30)
        assert folders.status(str(repository)) is None
        assert folders.status(str(other)) is not None


async def test_who_asks_without_a_link_is_told_for_a_while(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    async with looking(told) as folders:
        assert folders.asked(row("one", repository)) is None, "it was not looked at yet"
        await until(lambda: told == ["one"], told, 30)
        monkeypatch.setattr(module, "LINGER", 0.05)
        found = folders.asked(row("one", repository))
        assert found is not None
        assert found.branch == "main"
        await until(lambda: folders.status(str(repository)) is None, "it is let go", 30)


async def test_what_was_asked_for_lately_stays_when_the_last_link_goes(repository: Path) -> None:
    told: list[str] = []
    async with looking(told) as folders:
        folders.begin([row("one", repository)])
        folders.asked(row("one", repository))
        await until(lambda: told == ["one"], told, 30)
        folders.end()
        assert folders.status(str(repository)) is not None


async def test_of_a_session_that_is_over_nothing_is_asked(repository: Path) -> None:
    told: list[str] = []
    async with looking(told) as folders:
        folders.asked(row("one", repository, status="closed"))
        folders.asked(row("two", repository, dropped_at=1))
        folders.begin([])
        assert await folders._git.refresh(str(repository)) is None
        assert told == []

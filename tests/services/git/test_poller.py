"""When folders are looked at (issue: a small cached poller): on change and now and then, never for each event."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.services.git import FolderStatus, GitFolders, GitSettings
from tests.hub.rig import until
from tests.services.git.repositories import Person, counts, write

NEVER = 3600.0

QUICK: dict[str, float] = {"settle": 0.01, "tick": NEVER, "glance": NEVER, "rest": 0.01, "patience": 30.0}
"""Looks come at once, and only for what a test does."""


class Poller:
    """Folders that are watched, by a git that counts how often it is run; ``told`` are those whose change was told."""

    def __init__(self, person: Person, folder: Path, **changes: Any) -> None:
        self.counted = folder / "counted"
        program = folder / "counting-git"
        program.write_text(f'#!/bin/sh\necho "$1 $PWD" >> \'{self.counted}\'\nexec git "$@"\n')
        program.chmod(0o755)
        self.told: list[str] = []
        self.times = 0
        settings = msgspec.structs.replace(GitSettings(), **{**QUICK, "program": str(program), **changes})
        self.folders = GitFolders(settings, self.told.append, environment=person.environment, now=self._now)

    def _now(self) -> int:
        self.times += 1
        return self.times

    def looks(self, folder: Path) -> int:
        """How often a folder was looked at."""
        if not self.counted.exists():
            return 0
        return self.counted.read_text().splitlines().count(f"status {folder}")

    async def first(self, *folders: Path) -> None:
        """Watch them, and wait until each was looked at."""
        for folder in folders:
            self.folders.watch(str(folder))
        for folder in folders:
            await until(lambda folder=folder: self.status(folder), f"a look at {folder}", 30)  # type: ignore[misc]

    def status(self, folder: Path) -> FolderStatus | None:
        return self.folders.status(str(folder))

    def touch(self, folder: Path) -> None:
        self.folders.touch(str(folder))

    async def sees(self, folder: Path, expected: dict[str, int]) -> None:
        """Wait until that is what was seen."""

        def seen() -> bool:
            status = self.status(folder)
            return status is not None and counts(status) == expected

        await until(seen, lambda: (self.status(folder), expected), 30)


@pytest.fixture
def around(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@asynccontextmanager
async def poller(person: Person, folder: Path, **changes: Any) -> AsyncIterator[Poller]:
    poller = Poller(person, folder, **changes)
    try:
        yield poller
    finally:
        await poller.folders.close()


async def test_a_folder_is_looked_at_once_it_is_watched_and_its_status_told(person: Person, around: Path) -> None:
    folder, plain = person.repository(around / "r"), around / "plain"
    plain.mkdir()
    async with poller(person, around) as git:
        assert git.status(folder) is None
        await git.first(folder, plain)

        assert git.told == [str(folder), str(plain)]
        status = git.status(folder)
        assert status is not None
        assert (status.branch, status.is_repo, status.last_checked) == ("main", True, 1)
        assert git.status(plain) == FolderStatus(last_checked=2)


async def test_what_happens_in_a_folder_is_seen_when_it_is_touched(person: Person, around: Path) -> None:
    folder = person.repository(around / "r")
    async with poller(person, around) as git:
        await git.first(folder)
        write(folder / "n")
        git.touch(folder)

        await git.sees(folder, {"untracked": 1, "total": 1})
        assert git.told == [str(folder)] * 2


async def test_many_events_are_one_look(person: Person, around: Path) -> None:
    folder = person.repository(around / "r")
    async with poller(person, around, settle=0.3) as git:
        await git.first(folder)
        write(folder / "n")
        for _ in range(5000):
            git.touch(folder)
        await git.sees(folder, {"untracked": 1, "total": 1})
        await git.folders.refresh(str(folder))

        assert git.looks(folder) <= 3, "one at first, one for all events, one that was asked for"


async def test_a_look_that_finds_nothing_new_is_told_to_nobody(person: Person, around: Path) -> None:
    folder = person.repository(around / "r")
    async with poller(person, around, tick=0.02) as git:
        await git.first(folder)
        await until(lambda: git.looks(folder) >= 4, "looks now and then", 30)
        assert git.told == [str(folder)]

        write(folder / "a.txt", "changed\n")
        await git.sees(folder, {"unstaged.modified": 1, "total": 1})
        await until(lambda: len(git.told) == 2)


async def test_now_and_then_a_folder_is_looked_at_though_nobody_touched_it(person: Person, around: Path) -> None:
    folder = person.repository(around / "r")
    async with poller(person, around, tick=0.05) as git:
        await git.first(folder)
        write(folder / "n")
        await git.sees(folder, {"untracked": 1, "total": 1})


async def test_a_commit_and_a_checkout_are_seen_at_a_glance(person: Person, around: Path) -> None:
    folder = person.repository(around / "r")
    async with poller(person, around, glance=0.02) as git:
        await git.first(folder)
        write(folder / "n")
        person.commit(folder, "second")
        await until(lambda: (status := git.status(folder)) and status.last_commit_message == "second", None, 30)
        person.git(folder, "checkout", "-q", "-b", "other")
        await until(lambda: (status := git.status(folder)) and status.branch == "other", None, 30)


async def test_a_glance_runs_no_program(person: Person, around: Path) -> None:
    folder, other = person.repository(around / "r"), person.repository(around / "other")
    async with poller(person, around, glance=0.001) as git:
        await git.first(folder, other)
        ran = git.counted.read_text()
        # Many glances later:
        for _ in range(20):
            git.touch(other)
            done = git.looks(other)
            await until(lambda done=done: git.looks(other) > done, None, 30)  # type: ignore[misc]
        assert git.looks(folder) == ran.count(f"status {folder}")


async def test_a_folder_that_becomes_a_repository_is_seen_as_one(person: Person, around: Path) -> None:
    folder = around / "r"
    folder.mkdir()
    async with poller(person, around, glance=0.02) as git:
        await git.first(folder)
        assert not git.status(folder).is_repo  # type: ignore[union-attr]
        person.repository(folder)
        await until(lambda: (status := git.status(folder)) and status.last_commit_message == "first", None, 30)
        assert git.told == [str(folder)] * len(git.told)


async def test_a_folder_of_several_sessions_is_looked_at_once(person: Person, around: Path) -> None:
    folder = person.repository(around / "r")
    async with poller(person, around) as git:
        for _ in range(5):
            git.folders.watch(str(folder))
        await git.first(folder)
        assert git.looks(folder) == 1

        for _ in range(5):
            git.folders.unwatch(str(folder))
        assert git.status(folder) is not None, "one still watches it"
        git.folders.unwatch(str(folder))
        assert git.status(folder) is None
        git.folders.unwatch(str(folder))  # once too often


async def test_a_folder_that_is_watched_no_more_is_left_alone(person: Person, around: Path) -> None:
    folder, other = person.repository(around / "r"), person.repository(around / "other")
    async with poller(person, around, tick=0.02) as git:
        await git.first(folder, other)
        git.folders.unwatch(str(folder))
        git.touch(folder)
        await git.folders.refresh(str(other))  # what was begun is done
        looks, more = git.looks(folder), git.looks(other)
        await until(lambda: git.looks(other) >= more + 3, None, 30)

        assert git.looks(folder) == looks
        assert await git.folders.refresh(str(folder)) is None


async def test_what_is_asked_for_is_looked_at_after_the_question(person: Person, around: Path) -> None:
    folder = person.repository(around / "r")
    async with poller(person, around) as git:
        git.folders.watch(str(folder))
        for number in range(3):
            write(folder / f"{number}")
            status = await git.folders.refresh(str(folder))
            assert status is not None
            assert status.untracked == number + 1
        looks = git.looks(folder)
        found = await asyncio.gather(*(git.folders.refresh(str(folder)) for _ in range(50)))
        assert {status.untracked for status in found if status is not None} == {3}
        assert git.looks(folder) <= looks + 2, "all who ask at once are told by one look"


async def test_a_large_repository_costs_a_share_and_not_the_machine(person: Person, around: Path) -> None:
    large, small = person.repository(around / "large"), person.repository(around / "small")
    program = around / "slow-git"
    program.write_text('#!/bin/sh\ncase "$PWD $1" in *large\\ status) sleep 0.3;; esac\nexec "$0.counting" "$@"\n')
    program.chmod(0o755)
    (around / "slow-git.counting").symlink_to(around / "counting-git")
    async with poller(person, around, program=str(program), rest=2000.0) as git:
        await git.first(large)
        write(large / "n")
        for _ in range(10):
            git.touch(large)
            await asyncio.sleep(0)
        await git.first(small)
        assert git.looks(large) == 1, "it rests, however much happens there"

        status = await git.folders.refresh(str(large))
        assert status is not None
        assert counts(status) == {"untracked": 1, "total": 1}, "but who asks is told"


async def test_a_slow_folder_does_not_hold_up_the_loop(person: Person, around: Path) -> None:
    folder = person.repository(around / "r")
    program = around / "stuck-git"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    async with poller(person, around, program=str(program), patience=2.0) as git:
        git.folders.watch(str(folder))
        longest, last = 0.0, time.monotonic()
        while git.status(folder) is None:
            await asyncio.sleep(0)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        assert longest < 1.5


async def test_whoever_fails_when_told_stops_nothing(person: Person, around: Path) -> None:
    folder = person.repository(around / "r")

    def fails(_folder: str) -> None:
        raise RuntimeError("told")

    folders = GitFolders(GitSettings(**QUICK), fails, environment=person.environment)  # type: ignore[arg-type]
    try:
        folders.watch(str(folder))
        assert await folders.refresh(str(folder)) is not None
        write(folder / "n")
        status = await folders.refresh(str(folder))
        assert status is not None
        assert status.untracked == 1
    finally:
        await folders.close()


async def test_more_folders_than_are_watched_are_not(person: Person, around: Path) -> None:
    one, two, three = (person.repository(around / name) for name in ("one", "two", "three"))
    async with poller(person, around, folders=2) as git:
        await git.first(one, two)
        git.folders.watch(str(three))
        assert await git.folders.refresh(str(three)) is None
        git.folders.unwatch(str(one))
        await git.first(three)


async def test_the_end_waits_for_no_command_and_leaves_none_behind(person: Person, around: Path) -> None:
    folder = person.repository(around / "r")
    program, pids = around / "stuck-git", around / "pids"
    program.write_text(f"#!/bin/sh\nsleep 600 &\necho $$ $! >> '{pids}'\nwait\n")
    program.chmod(0o755)
    git = Poller(person, around, program=str(program))
    git.folders.watch(str(folder))
    asked = asyncio.create_task(git.folders.refresh(str(folder)))
    await until(lambda: pids.exists() and pids.read_text().endswith("\n"), None, 30)

    began = time.monotonic()
    await git.folders.close()
    assert time.monotonic() - began < 5.0
    assert await asked is None
    for pid in map(int, pids.read_text().split()):
        await until(lambda pid=pid: not _lives(pid), f"{pid} ends", 10)  # type: ignore[misc]
    git.folders.watch(str(folder))
    git.touch(folder)
    assert await git.folders.refresh(str(folder)) is None


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_an_end_before_anything_began_is_one(person: Person, around: Path) -> None:
    git = Poller(person, around)
    await git.folders.close()
    await git.folders.close()


async def test_nothing_is_left_in_the_temporary_folder(
    person: Person, around: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = around / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    folder = person.repository(around / "r")
    async with poller(person, around) as git:
        await git.first(folder)
        (own,) = temporary.iterdir()
        assert own.stat().st_mode & 0o077 == 0
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
@pytest.mark.parametrize("name", ["settle", "tick", "glance", "rest", "patience"])
def test_every_time_is_more_than_nothing(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"git.{name}"):
        GitSettings(**{name: value})  # type: ignore[arg-type]

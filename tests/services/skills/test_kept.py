"""The skills in use in a folder are kept, and are what looking again would find, whatever changes meanwhile."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.services.skills import SkillFolders

from .rig import Rig

LATER = 10_000_000_000


def later() -> int:
    """A clock by which every file of a test changed long ago."""
    return time.time_ns() + LATER


def folders(rig: Rig, now: Callable[[], int] = later) -> SkillFolders:
    return SkillFolders(rig.home, rig.environment, rig.configs, built_in=rig.built_in, now=now)


@pytest.fixture
def filled(rig: Rig) -> Rig:
    for place, name in ((rig.project, "ours"), (rig.enabled, "pdf"), (rig.person, "mine"), (rig.built_in, "docs")):
        rig.put(place, name)
    (rig.project / "unfinished").mkdir()
    return rig


def _swap(path: Path, to: Path) -> None:
    shutil.rmtree(path)
    path.symlink_to(to)


def _move(path: Path, to: Path) -> None:
    to.parent.mkdir()
    path.rename(to)


CHANGES: dict[str, Callable[[Rig], object]] = {
    "one is put": lambda rig: rig.put(rig.project, "new"),
    "one is edited": lambda rig: rig.put(rig.enabled, "pdf", "Another text\n"),
    "one is finished": lambda rig: rig.put(rig.project, "unfinished"),
    "one goes": lambda rig: (rig.person / "mine" / "SKILL.md").unlink(),
    "one is switched off": lambda rig: _move(rig.enabled / "pdf", rig.disabled / "pdf"),
    "one hides another": lambda rig: rig.put(rig.project, "docs", "Ours\n"),
    "one becomes a link that leads out": lambda rig: _swap(rig.project / "ours", rig.home),
    "a place is named": lambda rig: rig.environment.update(COWORK_BUILTIN_DIR=str(rig.home / "more")),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_what_changes_counts_at_once(filled: Rig, change: str) -> None:
    filled.put(filled.home / "more" / "skills", "extra")
    kept = folders(filled)

    async def held_to_a_new_look() -> list[str]:
        found = await kept.in_use(filled.cwd)
        assert found == await folders(filled).in_use(filled.cwd)
        return [f"{skill.name}: {skill.description}" for skill in found]

    before = [await held_to_a_new_look() for _ in range(2)]
    CHANGES[change](filled)
    after = [await held_to_a_new_look() for _ in range(2)]
    assert before[0] == before[1]
    assert after[0] == after[1] != before[0]


async def test_nothing_is_looked_through_again_while_nothing_changes(filled: Rig) -> None:
    kept = folders(filled)
    first = await kept.in_use(filled.cwd)
    assert await kept.in_use(filled.cwd) is first
    fresh = folders(filled, time.time_ns)
    assert await fresh.in_use(filled.cwd) is not await fresh.in_use(filled.cwd), "times are too coarse yet"

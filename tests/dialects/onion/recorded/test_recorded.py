"""The original's recorded conversations, held with our server: the same but for named differences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from .canonical import canonical
from .compare import problems
from .differences import DIFFERENCES, Difference, expected
from .host import RecordedHost
from .player import Player, Stuck
from .recording import SCENARIOS, Entry, load
from .showing import side_by_side

MOST = 48
"""Differences that there may be."""


@pytest.mark.parametrize("name", SCENARIOS)
async def test_our_server_says_what_was_recorded(name: str, tmp_path: Path) -> None:
    wanted = expected(name)
    found, got, console = await hold(name, wanted, tmp_path)
    assert not found, "\n".join([f"{name}:", *found, side_by_side(wanted, got), *console])


def test_there_are_few_differences_and_each_has_a_name() -> None:
    assert len(DIFFERENCES) <= MOST
    assert len({difference.name for difference in DIFFERENCES}) == len(DIFFERENCES)
    assert all(difference.cites for difference in DIFFERENCES)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_a_difference_is_one(difference: Difference) -> None:
    at = DIFFERENCES.index(difference)
    assert any(_changes(name, at) for name in SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_expected_is_what_it_is(name: str) -> None:
    wanted = expected(name)
    assert problems(wanted, wanted) == []


def _changes(name: str, at: int) -> bool:
    """Whether that difference still makes one, after those before it."""
    entries = canonical(load(name).entries)
    for earlier in DIFFERENCES[:at]:
        entries = earlier.rule(name, entries)
    return DIFFERENCES[at].rule(name, list(entries)) != entries


async def hold(name: str, wanted: Sequence[Entry], folder: Path) -> tuple[list[str], list[Entry], tuple[str, ...]]:
    """Hold one conversation with a server of its own: what was wrong, what was said, and the console's lines."""
    found: list[str] = []
    async with RecordedHost(name, load(name).began, folder).running() as host:
        player = Player(host)
        try:
            await player.play(wanted)
        except Stuck as problem:
            found.append(str(problem))
        got = canonical(player.entries)
        return found + problems(wanted, got), got, host.console

"""The original's recorded conversations, held with our server: the same but for named differences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.dialects.leaves import ANYTHING

from .canonical import canonical
from .compare import problems
from .differences import DIFFERENCES, Difference, expected, steps
from .host import RecordedHost
from .player import LIMIT, Player, Stuck
from .recording import SCENARIOS, Asked, Entry, Received, Sent, load
from .showing import side_by_side

MOST = 45
"""Differences that there may be."""

ANYTHINGS = 130
"""Fields that may be whatever they are, in all conversations together."""

MAY_CHANGE = frozenset(("CONNECT", "APPROVAL_RESPONSE"))
"""What a client sends otherwise: an id that it never saw here, an answer to what it is not asked."""


@pytest.mark.parametrize("name", SCENARIOS)
async def test_our_server_says_what_was_recorded(name: str, tmp_path: Path) -> None:
    wanted = expected(name)
    found, got, console = await hold(name, wanted, tmp_path)
    assert not found, "\n".join([f"{name}:", *found, side_by_side(wanted, got), *console])


async def test_what_our_server_says_too_much_is_seen(tmp_path: Path) -> None:
    wanted = expected("input_tool")
    less = [entry for entry in wanted if not (isinstance(entry, Received) and entry.frame["type"] == "tool_call")]
    found, _, _ = await hold("input_tool", less, tmp_path)
    assert any("tool_call search" in problem and "not expected" in problem for problem in found)


async def test_what_our_server_does_not_say_is_seen(tmp_path: Path) -> None:
    wanted = expected("connect_new")
    more = [*wanted[:3], Received("socket 1", {"type": "PING"}), *wanted[3:]]
    found, _, _ = await hold("connect_new", more, tmp_path, limit=0.5)
    assert any("PING" in problem and "missing" in problem for problem in found)


def test_there_are_few_differences_and_each_has_a_name() -> None:
    assert len(DIFFERENCES) <= MOST
    assert len({difference.name for difference in DIFFERENCES}) == len(DIFFERENCES)
    assert all(difference.cites for difference in DIFFERENCES)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_a_difference_is_one(difference: Difference) -> None:
    at = DIFFERENCES.index(difference)
    assert any(steps(name)[at] != steps(name)[at + 1] for name in SCENARIOS)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_a_difference_changes_nothing_that_a_client_does(difference: Difference) -> None:
    at = DIFFERENCES.index(difference)
    for name in SCENARIOS:
        before, after = (
            [entry for entry in steps(name)[place] if isinstance(entry, Sent | Asked)] for place in (at, at + 1)
        )
        given_up = [entry for entry in before if entry not in after]
        assert all(isinstance(entry, Sent) and entry.kind in MAY_CHANGE for entry in given_up), given_up


def test_little_may_be_anything() -> None:
    frames = [entry.frame for name in SCENARIOS for entry in steps(name)[-1] if isinstance(entry, Received)]
    left = json.dumps(frames).count(ANYTHING)
    assert left <= ANYTHINGS


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_expected_is_what_it_is(name: str) -> None:
    wanted = expected(name)
    assert problems(wanted, wanted) == []


async def hold(
    name: str, wanted: Sequence[Entry], folder: Path, *, limit: float = LIMIT
) -> tuple[list[str], list[Entry], tuple[str, ...]]:
    """Hold one conversation with a server of its own: what was wrong, what was said, and the console's lines."""
    found: list[str] = []
    async with RecordedHost(name, load(name).began, folder).running() as host:
        player = Player(host, limit=limit)
        try:
            await player.play(wanted)
        except Stuck as problem:
            found.append(str(problem))
        got = canonical(player.entries)
        return found + problems(wanted, got), got, host.console

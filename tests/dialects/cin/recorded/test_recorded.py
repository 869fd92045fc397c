"""The recorded conversations of both original servers, held with ours: the same but for named differences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.dialects.cin.stream_checker import problems as untrue
from tests.dialects.leaves import ANYTHING

from . import world
from .bridge import Bridge
from .canonical import CHANGES, HOME, canonical, git_of
from .claude import programs
from .compare import problems
from .differences import DIFFERENCES, Difference, expected, steps
from .player import LIMIT, Player, got
from .recording import NAMES, Frame, Step, load

MOST = 40
"""Differences that there may be."""

ANYTHINGS = 140
"""Fields that may be whatever they are, in all conversations together."""

NO_CLOCK = "settles = 3600\nsilence = 3600\ngone_working = 3600\ngone_idle = 3600\ngone_codex = 3600\n"
"""Nothing is believed because of the time that a replay takes."""


@pytest.mark.parametrize("name", NAMES)
async def test_our_server_says_what_was_recorded(name: str, tmp_path: Path) -> None:
    wanted = expected(name)
    found, player = await hold(name, wanted, tmp_path)
    assert not found, "\n".join([f"{name}:", *found])
    for who in player.links:
        filtered = who == "A" and name in ("cab", "cin")
        assert untrue(player.heard(who), filtered=filtered) == [], who
    if name == "cin":
        check_git(player)


def check_git(player: Player) -> None:
    """Of the folder that is the same here: one commit, and then a file that git does not know."""
    said, recorded = git_of(player.steps)[f"{player.folders[HOME]}/proj"], git_of(load("cin"))[f"{HOME}/proj"]
    assert {**said, "lastCommitTime": 0} == {**recorded, "lastCommitTime": 0}


async def test_what_our_server_says_too_much_is_seen(tmp_path: Path) -> None:
    wanted = [*expected("cin")[:12]]
    heard = {who: [frame for frame in frames if frame["type"] != "event"] for who, frames in wanted[9].heard.items()}
    wanted[9] = Step(wanted[9].action, wanted[9].answer, wanted[9].closed, {k: v for k, v in heard.items() if v})
    found, _ = await hold("cin", wanted, tmp_path)
    assert any("not expected" in problem and "user_prompt_submit" in problem for problem in found)


async def test_what_our_server_does_not_say_is_seen(tmp_path: Path) -> None:
    wanted = [*expected("cin")[:8]]
    more = {"A": [*wanted[6].heard["A"], {"type": "pong"}]}
    wanted[6] = Step(wanted[6].action, wanted[6].answer, wanted[6].closed, more)
    found, _ = await hold("cin", wanted, tmp_path, limit=0.3)
    assert any("missing" in problem and "pong" in problem for problem in found)


def test_there_are_few_differences_and_each_has_a_name() -> None:
    assert len(DIFFERENCES) <= MOST
    assert len({difference.name for difference in DIFFERENCES}) == len(DIFFERENCES)
    assert all(difference.cites for difference in DIFFERENCES)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_a_difference_is_one(difference: Difference) -> None:
    at = DIFFERENCES.index(difference)
    assert any(steps(name)[at] != steps(name)[at + 1] for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_no_difference_changes_what_a_client_does(name: str) -> None:
    first, *rest = steps(name)
    for after in rest:
        assert [step.action for step in after] == [step.action for step in first]


def test_little_may_be_anything() -> None:
    said = [[step.heard, step.answer and step.answer.body] for name in NAMES for step in steps(name)[-1]]
    assert json.dumps(said).count(ANYTHING) <= ANYTHINGS


@pytest.mark.parametrize("name", NAMES)
def test_what_is_expected_is_what_it_is(name: str) -> None:
    assert problems(expected(name), expected(name)) == []


REFUSED = ("/nope", "")
"""Folder, and name, that ours does not take (spec 3.2: a folder that is not there; an empty name changes nothing)."""


@pytest.mark.parametrize(("name", "count"), [("cab", 2), ("cab-file", 2)])
def test_what_the_other_original_said_of_sessions_is_said(name: str, count: int) -> None:
    """The frames of sessions are made anew from the events (``cards``): none of those that it sent is lost by that."""
    compared = 0
    for was, now in zip(canonical(load(name)), expected(name), strict=True):
        told = {(frame["type"], frame["data"]["id"]): frame["data"] for frame in now.heard.get("A", []) if _of(frame)}
        for frame in was.heard.get("A", []):
            card = frame.get("data") or {}
            if not _of(frame) or card["cwd"] in REFUSED or card["name"] in REFUSED:
                continue
            mine = next(one for (kind, _), one in told.items() if kind == frame["type"])
            same = ("name", "type", "agent", "cwd", *(("agentSessionId",) if card["type"] == "external" else ()))
            assert {key: mine.get(key) for key in same} == {key: card.get(key) for key in same}
            compared += 1
    assert compared >= count


@pytest.mark.parametrize("name", ["cin", "cin2", "cin3"])
def test_what_the_lists_of_the_original_showed_is_shown(name: str) -> None:
    """The same of the lists: every session that one showed is in ours by then, if it is one of ours at all."""
    mine: set[tuple[str, ...]] = set()
    compared = 0
    for was, now in zip(canonical(steps(name)[1]), expected(name), strict=True):
        for frame in now.heard.get("A", []):
            if frame["type"] == "sessions":
                mine |= {tuple(card[key] for key in ("name", "type", "agent", "cwd")) for card in frame["data"]}
        for frame in was.heard.get("A", []):
            if frame["type"] == "sessions":
                theirs = {tuple(card[key] for key in ("name", "type", "agent", "cwd")) for card in frame["data"]}
                strange = {card for card in theirs - mine if card[3] != f"{HOME}/src"}
                assert {card[2] for card in strange} <= {"claude"}, (strange, mine)  # Codex' own, taken for Claude's
                assert all((card[0], card[1], "codex", card[3]) in mine for card in strange), strange
                compared += len(theirs)
    assert compared > 3


def _of(frame: Frame) -> bool:
    return frame["type"] in CHANGES


async def hold(name: str, wanted: Sequence[Step], folder: Path, *, limit: float = LIMIT) -> tuple[list[str], Player]:
    """Hold one conversation with a server of its own: what was wrong, and who held it."""
    root = folder / "user"
    root.mkdir()
    world.make(root)
    bridge = Bridge(folder / "server", env={"PATH": programs(folder / "bin")}, hooked=NO_CLOCK)
    await bridge.start()
    player = Player(bridge, root.resolve(), folder / "bin", limit=limit)
    try:
        await player.play(wanted)
    finally:
        await player.leave()
        bridge.stop()
    return problems(wanted, got(player)), player

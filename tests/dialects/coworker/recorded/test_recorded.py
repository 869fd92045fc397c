"""The original's recorded conversations, held with our server: the same but for named differences."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dragoman.client.hub import HubClient

from . import stores, worlds
from .canonical import canonical
from .compare import problems, unlike
from .differences import DIFFERENCES, Difference, expected
from .model import ScriptedModel
from .player import LIMIT, Player, Stuck
from .recorder import SLEEPING, Recorder
from .recording import FOLDER, SCENARIOS, Entry, Frame, frames, kind, load
from .script import Script, script
from .server import commands, running
from .showing import side_by_side
from .web import served

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the recordings of the original are not here")

MOST = 15
"""Differences that there may be."""


@pytest.mark.parametrize("name", SCENARIOS)
async def test_our_server_says_what_was_recorded(name: str, tmp_path: Path) -> None:
    recorded = canonical(load(name))
    wanted = expected(name, recorded)
    held = await hold(name, wanted, script(recorded), tmp_path)
    found = [*problems(wanted, held.entries), *held.problems]
    assert not found, "\n".join([f"{name}:", *found, side_by_side(wanted, held.entries), held.log])


def test_there_are_few_differences_and_each_has_a_name() -> None:
    assert len(DIFFERENCES) <= MOST
    assert len({difference.name for difference in DIFFERENCES}) == len(DIFFERENCES)
    assert all(difference.cites for difference in DIFFERENCES)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_a_difference_is_one(difference: Difference) -> None:
    at = DIFFERENCES.index(difference)
    assert any(_changes(name, at) for name in SCENARIOS)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_a_difference_loses_no_sort_of_message_but_those_it_replaces(difference: Difference) -> None:
    lost: set[str] = set()
    for name in SCENARIOS:
        before = _before_rule(name, DIFFERENCES.index(difference))
        after = difference.rule(name, list(before))
        lost |= _sorts(before) - _sorts(after)
        assert len(frames(after)) >= len(frames(before)) - len(difference.replaces), name
    assert lost == difference.replaces


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_expected_keeps_every_order(name: str) -> None:
    wanted = expected(name, canonical(load(name)))
    assert problems(wanted, wanted) == []


def _sorts(entries: Sequence[Entry]) -> set[str]:
    """Every sort of message in a conversation; an error's code and source, and a line's first word, are of its sort."""
    return {_sort(frame) for frame in frames(entries)}


def _sort(frame: Frame) -> str:
    if frame["type"] == "error":
        return f"error {frame['code']}/{frame['source']}"
    return f"log {frame['line'].split(' ')[0]}" if frame["type"] == "log" else kind(frame)


def _before_rule(name: str, at: int) -> list[Entry]:
    entries = canonical(load(name))
    for earlier in DIFFERENCES[:at]:
        entries = earlier.rule(name, entries)
    return entries


def _changes(name: str, at: int) -> bool:
    """Whether that difference still makes one, after those before it."""
    entries = _before_rule(name, at)
    return DIFFERENCES[at].rule(name, list(entries)) != entries


@dataclass
class Held:
    """A conversation with our server, in canonical form, and what else was wrong beside its words."""

    entries: list[Entry] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    log: str = ""


async def hold(name: str, wanted: Sequence[Entry], told: Script, folder: Path) -> Held:
    """Hold one conversation with a server of its own."""
    held = Held()
    link: asyncio.Future[Player] = asyncio.get_running_loop().create_future()

    async def asked(questions: int) -> None:
        await (await link).asked(questions)

    model = ScriptedModel(told, asked)
    async with served(model.answer) as model_url, served(stores.answer) as store_url:
        world = worlds.prepare(name, folder, model=model_url, store=store_url)
        recorder = Recorder(name, world.project)
        async with running(world) as server:
            await _before(world, server.url)
            async with Player.linked(server.url) as player:
                link.set_result(player)
                try:
                    await asyncio.gather(player.play(wanted, recorder.do), _let_go(name, player, world))
                except Stuck as problem:
                    held.problems.append(str(problem))
                if commands(world.project, *SLEEPING):
                    held.problems.append("a command is left behind")
            held.problems += await _settled(server.hub_url)
            held.entries = canonical(player.entries, world.places)
            held.problems += recorder.problems
        held.log = server.log.read_text("utf-8", "replace")
    held.problems += [f"the model was asked for more: {asked}" for asked in model.unexpected]
    if model.unused:
        held.problems.append(f"{model.unused} answers of the model were not asked for")
    held.problems += unlike(told.prompts, model.prompts, "the model was told")
    return held


async def _let_go(name: str, player: Player, world: worlds.World) -> None:
    """The MCP server that works is there only after the other one was tried in vain: they are reached together."""
    if name in worlds.OBSERVED and name.startswith("turn"):
        await player.told("[MCP] Failed")
        world.go.touch()


async def _settled(url: str) -> list[str]:
    """The end of a link ends its session: what it waited for is void, and nothing of it runs (spec 1)."""
    async with HubClient(url) as client, asyncio.timeout(LIMIT):
        while True:
            rows = await client.sessions()
            seen = [await client.snapshot(row["session"]) for row in rows]
            left = [session for session in seen if session["turn"] or session["decisions"]]
            if not left and all(row["status"] == "closed" for row in rows):
                return [] if rows else ["there was no session"]
            await asyncio.sleep(0.02)


async def _before(world: worlds.World, url: str) -> None:
    if world.before:
        async with Player.linked(url) as player:
            for message in world.before:
                await player.ask(message, "provider_catalog")

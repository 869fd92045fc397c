"""Whatever a few links of one user do, in whatever order: no rule of the contract is broken on any of them."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from tests.agents.native.model_server.script import Answer, Failure, Gate, Pause, Say, say

from .rig import LIMIT, House, Link, note, scripted

SCRIPTS = {
    "hello": (say("Hello ", "world"),),
    "tool": (Answer((Say(("Hello ",)), note("x"))), say("done")),
    "two": (Answer((note("a"), note("b"))), say("done")),
    "drip": (Answer((Say(("one ", Pause(0.01), "two ", Pause(0.01), "three")),)),),
    "fails": (Failure("invalid", "no"),),
    "waits": (Answer((Say(("waits ", Gate("never"))),)),),
    "chain": (Answer((note("1"),)), Answer((note("2"),)), say("done")),
}


class Player:
    """One user's links, and one random thing after another.

    A conversation is asked and stopped on one link only: of a query and a stop on two links nobody can say which came
    first. The other links are told of it as well.
    """

    def __init__(self, house: House, seed: int) -> None:
        self.house = house
        self.dice = random.Random(seed)
        self.links: list[Link] = []
        self.all: list[Link] = []
        self.running: list[tuple[str, str]] = []
        self.conversations: dict[Link, list[str]] = {}
        self.open = contextlib.AsyncExitStack()
        self.turns = 0

    async def join(self) -> None:
        link = await self.open.enter_async_context(self.house.link("player", watches=self.running))
        link.runs = self.dice.random() < 0.7
        self.conversations[link] = [f"{len(self.all)}{letter}" for letter in "abc"]
        self.links.append(link)
        self.all.append(link)

    async def step(self) -> None:
        moves = [*[self.ask] * 3, *[self.breathe] * 2, self.stop, self.release, self.cut, self.compact]
        await self.dice.choice(moves)(self.dice.choice(self.links))

    async def ask(self, link: Link) -> None:
        self.turns += 1
        turn, conversation = f"turn-{self.turns}", self.dice.choice(self.conversations[link])
        self.running.append((turn, conversation))
        for other in self.links:
            if other is not link:
                other.watches(turn, conversation)
        await link.ask(scripted(self.dice.choice(list(SCRIPTS))), conversation, turn)

    async def stop(self, link: Link) -> None:
        scopes = [*self.conversations[link], *([None] if len(self.links) == 1 else [])]
        payload = {"conversation_ref": self.dice.choice(scopes), "turn_ref": None}
        stop = {"id": f"stop-{self.dice.getrandbits(64)}", "type": "stop-query", "payload": payload}
        link.client.stopping(stop)
        await link.say(stop)

    async def release(self, link: Link) -> None:
        await link.release()

    async def breathe(self, _: Link) -> None:
        await asyncio.sleep(self.dice.choice((0, 0, 0.005, 0.02)))

    async def compact(self, link: Link) -> None:
        await link.tell("compact-history", force=True, conversation_ref=self.dice.choice(self.conversations[link]))

    async def cut(self, link: Link) -> None:
        if self.dice.random() < 0.3:
            await link.cut()
            self.links.remove(link)
            await self.join()

    async def settle(self) -> None:
        """End what waits, until each link knows the end of all that was asked on it."""
        async with asyncio.timeout(LIMIT):
            while any(self.open_turns(link) for link in self.links):
                for link in self.links:
                    link.runs = True
                    await link.release()
                    for conversation in self.conversations[link]:
                        await link.stop(conversation)

    def open_turns(self, link: Link) -> list[str]:
        """Turns that were asked here and have not ended."""
        own = self.conversations[link]
        turns = link.client.turns.values()
        return [turn.ref for turn in turns if turn.state == "open" and turn.conversation in own]


@pytest.mark.parametrize("seed", range(12))
async def test_random_interleavings_break_no_rule(house: House, seed: int) -> None:
    house.model.named.update(SCRIPTS)
    player = Player(house, seed)
    async with player.open:
        for _ in range(player.dice.randint(1, 3)):
            await player.join()
        for _ in range(40):
            await player.step()
        await player.settle()
        for link in player.links:
            await link.barrier()
    for link in player.all:
        link.judge(quiet=False)
        for turn in link.client.turns.values():
            assert "sequence" not in (turn.problem or ""), turn.problem
        assert [frame for frame in link.of("error") if "internal error" in frame["payload"]["message"]] == []

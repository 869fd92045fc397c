"""Invariant 4: an answer is to the decision that its sender saw, also where it names none.

Two clients answer at once, and what the one says comes late: then another decision is open, of a command that is
marked. Nobody ever permits a marked command, so where one has run an answer was bound wrongly.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from .rig import ALICE, LIMIT, Frame, Onion, Talk, calls, is_like, of, script

Answers = Callable[["Hasty", Frame], Coroutine[Any, Any, None]]
"""How a client answers what it sees."""

PAIRS = 25
"""Harmless and marked commands of one turn, by turns."""


def commands(name: str) -> str:
    """A turn that asks for a harmless command, then for a marked one, and so on."""
    made: list[str] = []
    for number in range(PAIRS):
        made += calls(("bash", {"command": f"touch fine-{name}-{number}"}))
        made += calls(("bash", {"command": f"touch marked-{name}-{number}"}))
    return script(*made, "say over")


def is_marked(frame: Frame) -> bool:
    return "marked" in frame["arguments"]["command"]


@dataclass
class Hasty:
    """A client that says yes to what it sees without naming it, and never to what is marked."""

    served: Onion
    session_id: str
    dice: random.Random
    how: Answers
    talk: Talk = field(default_factory=Talk)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    marked: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether a marked command waits for an answer."""

    seen: set[str] = field(default_factory=set)
    talks: list[Talk] = field(default_factory=list)
    stale: int = 0

    async def open(self) -> Talk:
        """Another socket, which has said nothing yet."""
        talk = Talk()
        await talk.open(self.served.url)
        self.talks.append(talk)
        talk.on_frame, self.talk = self._heard, talk
        return talk

    def yes(self) -> None:
        self.talk.say("APPROVAL_RESPONSE", approved=True)

    async def dawdles(self) -> None:
        """A moment; mostly until something else is asked, which this client has not seen then."""
        if self.dice.random() < 0.7:
            await asyncio.wait_for(self.marked.wait(), LIMIT)
        await asyncio.sleep(self.dice.choice((0, 0, 0.001, 0.004)))

    def looks(self) -> None:
        self.talk.wire.resume()

    def _heard(self, frame: Frame) -> None:
        self.stale += is_like(frame, "ERROR", {"code": "STALE_ANSWER"})
        if frame["type"] == "approval_needed" and not is_marked(frame) and frame["id"] not in self.seen:
            self.seen.add(frame["id"])
            self.tasks.add(asyncio.create_task(self.how(self, frame)))

    async def leave(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for talk in self.talks:
            await talk.wire.close()


async def clicks(hasty: Hasty, _: Frame) -> None:
    """It says yes to what it sees, on a line so slow that there may be something else by then."""
    hasty.talk.wire.pause()
    await hasty.dawdles()
    hasty.yes()
    hasty.looks()


async def clicks_twice(hasty: Hasty, _: Frame) -> None:
    """The second yes is to nothing, or to what was answered."""
    hasty.talk.wire.pause()
    hasty.yes()
    await hasty.dawdles()
    hasty.yes()
    hasty.looks()


async def clicks_before_it_proves(hasty: Hasty, _: Frame) -> None:
    """What it sees is answered at once, and the ping behind it late."""
    hasty.talk.wire.answers_pings = False
    await hasty.dawdles()
    hasty.yes()
    await asyncio.sleep(hasty.dice.choice((0, 0.001, 0.004)))
    hasty.talk.wire.answers_pings = True
    hasty.talk.wire.pong()


async def says_anything(hasty: Hasty, _: Frame) -> None:
    """Spec §15 row 35: to the original whatever came was the answer."""
    await hasty.dawdles()
    for kind, fields in (
        ("mode_change", {"mode": "safe"}),
        ("ASK_USER_RESPONSE", {"answer": "yes"}),
        ("PLAN_REVIEW_RESPONSE", {"message": "approve"}),
        ("ULW_RESPONSE", {"action": "continue"}),
        ("APPROVAL_RESPONSE", {"approved": True, "request_id": "ev-1"}),
    ):
        hasty.talk.say(kind, **fields)


async def answers_over_a_reconnect(hasty: Hasty, frame: Frame) -> None:
    """What it says waits until it is back, and then follows its CONNECT at once."""
    await hasty.talk.wire.reset()
    await hasty.dawdles()
    talk = await hasty.open()
    named = {"last_msg_id": frame["id"]} if hasty.dice.random() < 0.7 else {}
    talk.say("CONNECT", session_id=hasty.session_id, **named, **ALICE.signed())
    talk.say("APPROVAL_RESPONSE", approved=True)


async def race(served: Onion, name: str, how: Answers) -> Counter[str]:
    """A turn of ``PAIRS`` races. What ran, and how many answers were late."""
    dice = random.Random(name)
    async with served.client(key=ALICE) as careful, contextlib.AsyncExitStack() as leaving:
        hasty = Hasty(served, careful.session_id, dice, how)
        await (await hasty.open()).connect(careful.session_id, key=ALICE)
        leaving.push_async_callback(hasty.leave)
        careful.input(commands(name))
        for _ in range(2 * PAIRS):
            asked = await careful.next("approval_needed")
            if is_marked(asked):
                hasty.marked.set()
                await asyncio.sleep(dice.choice((0.005, 0.01, 0.02)))
                careful.say("APPROVAL_RESPONSE", request_id=asked["id"], approved=False, mode="reject_soft")
            else:
                hasty.marked.clear()
                await asyncio.sleep(dice.choice((0, 0, 0.003)))
                careful.say("APPROVAL_RESPONSE", request_id=asked["id"], approved=True)
        await careful.next("OUTPUT")
        results = of(careful.frames, "tool_result")
        assert len(results) == 2 * PAIRS
        late = hasty.stale + len([frame for frame in careful.frames if frame.get("code") == "STALE_ANSWER"])
        return Counter(late=late, fine=sum(frame["status"] == "success" for frame in results))


RACERS = [clicks, clicks_twice, clicks_before_it_proves, says_anything, answers_over_a_reconnect]


@pytest.mark.slow
@pytest.mark.parametrize("how", RACERS, ids=lambda how: how.__name__)
async def test_no_marked_command_ever_runs(served: Onion, how: Answers) -> None:
    """A thousand races in all."""
    gate = asyncio.Semaphore(4)
    found: Counter[str] = Counter()

    async def one(number: int) -> None:
        async with gate:
            found.update(await race(served, f"{how.__name__}-{number}", how))

    await asyncio.gather(*(one(number) for number in range(1000 // PAIRS // len(RACERS))))
    ran = sorted(path.name for path in served.work.iterdir())
    assert not [name for name in ran if name.startswith(f"marked-{how.__name__}")]
    assert len([name for name in ran if name.startswith(f"fine-{how.__name__}-")]) == 1000 // len(RACERS)
    assert found["fine"] == 1000 // len(RACERS)
    assert found["late"] >= 20, "the two did race"

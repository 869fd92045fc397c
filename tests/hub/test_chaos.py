"""Everything at once: many clients, an agent in every mood, a disk that fails, crashes; then the logs are read.

What a client was told must be in the log, once, whatever came afterwards (invariants 1, 3, 4, 6, 9). A failure names
its seed: ``CHAOS=1234 pytest tests/hub/test_chaos.py`` plays that one only, ``CHAOS=1:500`` a range.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from pathlib import Path

import pytest

from dragoman.hub.decisions import DecisionClosed
from dragoman.hub.errors import HubError
from dragoman.hub.events import (
    Answer,
    DecisionOpened,
    DecisionResolved,
    Event,
    LogWritten,
    PromptSubmitted,
    PromptWithdrawn,
    ToolCalled,
    ToolEnded,
    TurnEnded,
)
from dragoman.hub.limits import HubLimits
from dragoman.hub.memory import MemoryJournal
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.turns import TurnContext

from .rig import Hub, InMemory, OnDisk, proven

LIMITS = HubLimits(tail_events=16, read_batch=8, snapshot_every=13, loaded_idle=1, ack_seconds=0.5, queue_prompts=5)


def seeds() -> list[int]:
    asked = os.environ.get("CHAOS", "0:12")
    first, _, last = asked.partition(":")
    return list(range(int(first), int(last))) if last else [int(first)]


class Chaos:
    """One play: what is done is random, what was promised is kept beside."""

    def __init__(self, hub: Hub, seed: int) -> None:
        self.hub = hub
        self.random = random.Random(seed)
        self.names: list[str] = []
        self.prompts: dict[tuple[str, str], str] = {}
        self.answers: dict[tuple[str, str], int] = {}
        self.withdrawn: set[tuple[str, str]] = set()
        self.cancelled: set[tuple[str, str]] = set()
        self.effects: list[tuple[str, str, int | None]] = []
        self.down = False
        hub.puppets.behave = self.behave

    # The agent

    async def behave(self, turn: TurnContext) -> str | None:
        mood = self.random
        for number in range(mood.randrange(5)):
            what = mood.randrange(8)
            if what == 0:
                call = f"{turn.turn}.{number}"
                turn.record(ToolCalled(call=call, tool="x", turn=turn.turn))
                await asyncio.sleep(0)
                if mood.random() < 0.7:
                    turn.record(ToolEnded(call=call, tool="x", status="ok", turn=turn.turn))
            elif what == 1:
                await self.ask(turn, f"{turn.turn}.{number}")
            elif what == 2:
                turn.take_steering()
            elif what == 3:
                await turn.recorded()
            elif what == 4 and mood.random() < 0.3:
                raise RuntimeError("a bad day")
            elif what == 5 and mood.random() < 0.3:
                await asyncio.get_running_loop().create_future()
            else:
                turn.record(LogWritten(line="working", turn=turn.turn))
                await asyncio.sleep(0)
        return "done"

    async def ask(self, turn: TurnContext, decision: str) -> None:
        opened = DecisionOpened(decision=decision, kind="question", text="?", turn=turn.turn)
        try:
            said = await turn.decide(opened)
        except DecisionClosed:
            return
        self.effects.append((turn.session.id, decision, said.option))

    # The clients

    async def client(self, number: int, steps: int) -> None:
        for step in range(steps):
            while self.down:
                await asyncio.sleep(0)
            # Refused is refused: only what was acknowledged is a promise.
            with contextlib.suppress(HubError):
                await self.one(f"{number}.{step}", await self.hub.get(self.random.choice(self.names)))
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)

    async def one(self, message: str, session: Session) -> None:
        what = self.random.randrange(10)
        if what < 5:
            await self.submit(session, message)
        elif what < 7 and session.state.decisions:
            decision = self.random.choice(list(session.state.decisions))
            option = self.random.randrange(1, 99)
            await session.answer(LOCAL, decision, Answer(option=1, text=str(option)), via="chaos")
            self.answers[session.id, decision] = option
        elif what == 7 and session.state.turn is not None:
            turn = session.state.turn.turn
            await session.cancel(LOCAL, turn, via="chaos")
            self.cancelled.add((session.id, turn))
        elif what == 8 and session.state.queue:
            prompt = self.random.choice(session.state.queue).prompt
            await session.withdraw(LOCAL, prompt)
            self.withdrawn.add((session.id, prompt))
        elif what == 9:
            await session.change_settings(LOCAL, {"title": message})

    async def submit(self, session: Session, message: str) -> None:
        when = self.random.choice(("refuse", "queue", "steer"))
        for _ in range(self.random.randrange(1, 3)):  # often twice, as after a lost acknowledgement
            receipt = await session.submit(
                LOCAL,
                message,
                via="chaos",
                client_message_id=message,
                when_busy=when,  # type: ignore[arg-type]
            )
            known = self.prompts.setdefault((session.id, message), receipt.prompt)
            assert known == receipt.prompt

    # The world

    async def world(self, steps: int) -> None:
        for _ in range(steps):
            for _ in range(self.random.randrange(10, 60)):
                await asyncio.sleep(0)
            what = self.random.randrange(6)
            if what == 0:
                await self.lives_on(self.hub.recrash)
            elif what == 1:
                await self.lives_on(self.hub.restart)
            elif what == 2:
                await self.hub.registry.apply_retention()
            elif what < 5 and isinstance(self.hub.journal, MemoryJournal):
                self.hub.journal.fail("the disk is full")
                for _ in range(self.random.randrange(1, 30)):
                    await asyncio.sleep(0)
                self.hub.journal.heal()

    async def lives_on(self, again: object) -> None:
        self.down = True
        await again()  # type: ignore[operator]
        self.down = False

    async def play(self, clients: int, steps: int) -> None:
        self.names = [(await self.hub.create("puppet")).id for _ in range(3)]
        playing = [asyncio.create_task(self.client(number, steps)) for number in range(clients)]
        world = asyncio.create_task(self.world(8))
        await asyncio.gather(world, *playing)
        self.hub.puppets.behave = self.finish
        for name in self.names:
            await self.settle(await self.hub.get(name))

    async def finish(self, turn: TurnContext) -> str | None:
        return "finished"

    async def settle(self, session: Session) -> None:
        """Cancel whatever still runs in a bad mood; what waits runs."""

        async def look() -> bool:
            turn = session.state.turn
            if turn is not None:
                with contextlib.suppress(HubError):
                    await session.cancel(LOCAL, turn.turn, via="chaos")
            return session.state.turn is None and not session.state.queue and session.head == session.shown.seq

        async with asyncio.timeout(10):
            while not await look():
                await asyncio.sleep(0)

    # The promises

    async def check(self) -> None:
        for name in self.names:
            self.check_promises(name, await self.hub.check(name))

    def check_promises(self, name: str, events: list[Event]) -> None:
        facts = [event.fact for event in events]
        sent = {fact.client_message_id: fact.prompt for fact in facts if isinstance(fact, PromptSubmitted)}
        for (session, message), prompt in self.prompts.items():
            assert session != name or sent.get(message) == prompt, f"the prompt {message} was acknowledged"
        said = {
            fact.decision: fact.answer.text
            for fact in facts
            if isinstance(fact, DecisionResolved) and fact.answer is not None
        }
        for (session, decision), option in self.answers.items():
            assert session != name or said.get(decision) == str(option), f"an answer to {decision} was acknowledged"
        for session, decision, _ in self.effects:
            assert session != name or decision in said, f"the answer to {decision} had its effect"
        back = {fact.prompt for fact in facts if isinstance(fact, PromptWithdrawn)}
        assert {prompt for session, prompt in self.withdrawn if session == name} <= back
        over = {fact.turn for fact in facts if isinstance(fact, TurnEnded)}
        assert {turn for session, turn in self.cancelled if session == name} <= over


@pytest.mark.parametrize("seed", seeds())
async def test_what_was_promised_is_in_the_log(tmp_path: Path, seed: int) -> None:
    """Invariants 1, 3, 4, 6, 9."""
    disk = seed % 3 == 0
    work = tmp_path / "work"
    work.mkdir()
    store = OnDisk(tmp_path / "store") if disk else InMemory()
    async with asyncio.timeout(50), proven(Hub(store, work, limits=LIMITS)) as hub:
        chaos = Chaos(hub, seed)
        await chaos.play(clients=6, steps=25)
        await chaos.check()
        assert len(chaos.prompts) > 10

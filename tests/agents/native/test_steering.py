"""What is said while a turn runs is never lost: it is taken into the turn, or gets one of its own (invariant 3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.agents.native.providers.conversation import UserMessage
from dragoman.hub.events import AnyFact, PromptTaken, StepStarted, ToolCalled, ToolEnded, TurnEnded, TurnStarted
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from tests.hub.rig import shows
from tests.hub.rig import turns_of_the_loop as turns

from .native_rig import QUICK, NativeHub, Recording, native_hub, of, script, settled

TURN = script('say first\ncall bash {"command": "echo one"}\ncall glob {"pattern": "*"}', "say and last")
"""A turn of two steps, with tools between them."""

SAID = "say and this too"
"""Behind a script that it is joined with it is one more line of that."""


@pytest.fixture
def model() -> Recording:
    return Recording()


@pytest.fixture
async def hub(tmp_path: Path, model: Recording) -> AsyncIterator[NativeHub]:
    async with native_hub(tmp_path, provider=model, settings=QUICK) as opened:
        yield opened


async def shown(session: Session, seq: int) -> None:
    """Wait until the event of this place is shown."""
    async with asyncio.timeout(20):
        async for event in session.follow(0):
            if event.seq >= seq:
                return


def becomes(facts: list[AnyFact], prompt: str) -> str:
    """What became of a prompt."""
    taken = [fact for fact in of(facts, PromptTaken) if fact.prompt == prompt]
    begun = [fact for fact in of(facts, TurnStarted) if fact.prompt == prompt]
    assert len(taken) + len(begun) == 1, "exactly once"
    return "taken" if taken else "a turn of its own"


def times_seen(model: Recording) -> int:
    """How often the model is told what was said, in the newest conversation."""
    return sum(message.text.count(SAID) for message in model.last if isinstance(message, UserMessage))


async def test_at_every_event_of_a_turn(hub: NativeHub, model: Recording) -> None:
    """During the model call, during a tool, between steps, after the last answer, at the turn's end."""
    whole = await hub.turn(await hub.session(mode="all"), TURN)
    became: dict[int, str] = {}
    for place in range(len(whole)):
        session = await hub.session(mode="all")
        began = session.head
        await hub.submit(session, TURN)
        await shown(session, began + 2 + place)  # behind what the session is made of, and the prompt
        prompt = await hub.submit(session, SAID, when_busy="steer")
        await settled(session)
        became[place] = becomes(await hub.facts(session), prompt)
        assert times_seen(model) == 1, place
        assert [fact.outcome for fact in of(await hub.facts(session), TurnEnded)][-1] == "completed"
    assert became[0] == "taken"
    assert became[len(whole) - 1] == "a turn of its own"
    first_tool = next(at for at, fact in enumerate(whole) if isinstance(fact, ToolCalled))
    last_tool = next(at for at, fact in enumerate(whole) if isinstance(fact, ToolEnded))
    assert became[first_tool] == became[last_tool] == "taken"


@pytest.mark.parametrize("turns_of_loop", range(0, 60, 3))
async def test_at_any_moment_around_the_last_answer(hub: NativeHub, model: Recording, turns_of_loop: int) -> None:
    """Not only when an event is shown: it may come while the last one is on its way to the disk."""
    session = await hub.session()
    await hub.submit(session, "hello")
    await turns(turns_of_loop)
    prompt = await hub.submit(session, SAID, when_busy="steer")
    await settled(session)
    becomes(await hub.facts(session), prompt)
    assert times_seen(model) == 1


@pytest.mark.parametrize(
    ("lines", "ends"),
    [("say a\nfail invalid_request no", "failed"), ("say a\nwait", "cancelled")],
    ids=["failed", "cancelled"],
)
async def test_a_turn_that_ends_badly_leaves_it_to_the_next(
    hub: NativeHub, model: Recording, lines: str, ends: str
) -> None:
    session = await hub.session()
    await hub.submit(session, script(f"pause 50\n{lines}"))
    await shows(session, StepStarted)
    prompt = await hub.submit(session, SAID, when_busy="steer")
    if ends == "cancelled":
        await session.cancel(LOCAL, via="test")
    await settled(session)
    facts = await hub.facts(session)
    assert [fact.outcome for fact in of(facts, TurnEnded)] == [ends, "completed"]
    assert becomes(facts, prompt) == "a turn of its own"
    assert times_seen(model) == 1


async def test_what_the_model_is_to_see_instead_is_what_it_sees(hub: NativeHub, model: Recording) -> None:
    """Taken into a turn, and in a turn of its own: what was typed stays in the log."""
    session = await hub.session()
    await hub.submit(session, script("say a\npause 50"))
    await shows(session, StepStarted)
    first = await hub.submit(session, "typed", when_busy="steer", content=SAID)
    await settled(session)
    assert becomes(await hub.facts(session), first) == "taken"
    assert times_seen(model) == 1
    second = await hub.submit(session, "typed again", content="told again")
    await settled(session)
    facts = await hub.facts(session)
    assert becomes(facts, second) == "a turn of its own"
    texts = [message.text for message in model.last if isinstance(message, UserMessage)]
    assert texts[-1] == "told again"
    assert not [text for text in texts if "typed" in text]

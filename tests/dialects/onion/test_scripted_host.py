"""The rebuilt agent says what the recordings say that the original's did."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from dragoman.hub.events import Answer, AnyFact, DecisionOpened, PromptTaken, ToolCalled, ToolEnded, TurnEnded
from dragoman.hub.memory import MemoryJournal, MemoryStore
from dragoman.hub.permissions import LOCAL
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session

from .recorded.recording import Received, Sent, load
from .scripted_host import FakeHostFactory, Stage

Make = Callable[[FakeHostFactory], Awaitable[Session]]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Makes a session in a hub of its own, started."""
    hubs: list[Registry] = []

    async def make(factory: FakeHostFactory) -> Session:
        hubs.append(Registry(MemoryJournal(MemoryStore()), [factory]))
        await hubs[-1].open()
        session = await hubs[-1].create(LOCAL, kind=factory.kind, cwd=str(tmp_path))
        await session.start(LOCAL)
        return session

    yield make
    for hub in hubs:
        await hub.close()


def _turns(name: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Each turn of a recording: its prompt, its result, and its calls with their ids."""
    found: list[tuple[str, str, list[tuple[str, str]]]] = []
    prompt = ""
    calls: list[tuple[str, str]] = []
    for entry in load(name).entries:
        if isinstance(entry, Sent) and entry.kind == "INPUT":
            assert isinstance(entry.message, dict)
            prompt, calls = entry.message["prompt"], []
        elif isinstance(entry, Received) and entry.frame["type"] == "tool_result":
            calls.append((entry.frame["tool_id"], entry.frame["name"]))
        elif isinstance(entry, Received) and entry.frame["type"] == "OUTPUT":
            found.append((prompt, entry.frame["result"], calls))
    assert found
    return found


@pytest.mark.parametrize("name", ["input_hello_two_turns", "input_tool", "input_tool_errors", "compact", "plan_review"])
async def test_turns_end_as_recorded(name: str, make: Make) -> None:
    session = await make(FakeHostFactory())
    for prompt, result, calls in _turns(name):
        facts = await _play(session, prompt)
        assert [(fact.call, fact.tool) for fact in facts if isinstance(fact, ToolEnded)] == calls
        ended = facts[-1]
        assert isinstance(ended, TurnEnded)
        assert _plain(ended.result) == _plain(result)


async def test_a_call_waits_for_the_stage(make: Make) -> None:
    stage = Stage(free=False)
    session = await make(FakeHostFactory(stage))
    await session.submit(LOCAL, "slow .5", via="test", when_busy="steer")
    await stage.allow("step")
    await stage.allow("answer")
    await _until(session, lambda facts: any(isinstance(fact, ToolCalled) for fact in facts))
    await session.submit(LOCAL, "also do this", via="test", when_busy="steer")
    assert not any(isinstance(fact, ToolEnded) for fact in await _facts(session))
    await stage.set_free(True)
    facts = await _until(session, lambda facts: isinstance(facts[-1], TurnEnded))
    kinds = [type(fact) for fact in facts]
    assert kinds.index(ToolEnded) < kinds.index(PromptTaken)
    assert facts[-1].result == "echo[2 user msgs, 3 tools]: slow .5 | last tool: slept 0.5 | also: also do this"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("mode", "result"),
    [
        ("reject_hard", "What would you like me to do?"),
        ("reject_soft", "echo[1 user msgs, 2 tools]: bash2 batch | last tool: ran rm -f yyy"),
    ],
)
async def test_a_refusal_ends_the_turn_only_when_it_is_meant_to(mode: str, result: str, make: Make) -> None:
    session = await make(FakeHostFactory())
    await session.submit(LOCAL, "bash2 batch", via="test", when_busy="steer")
    await _answer(session, Answer(accept=False, text="use yarn", values={"mode": mode}))
    if mode == "reject_soft":
        await _answer(session, Answer(accept=True, scope="once"))
    facts = await _until(session, lambda facts: isinstance(facts[-1], TurnEnded))
    assert facts[-1].result == result  # type: ignore[union-attr]


async def test_what_is_permitted_for_the_session_is_not_asked_again(make: Make) -> None:
    session = await make(FakeHostFactory())
    await session.submit(LOCAL, "bash it", via="test", when_busy="steer")
    await _answer(session, Answer(accept=True, scope="session"))
    await _until(session, lambda facts: isinstance(facts[-1], TurnEnded))
    facts = await _play(session, "bash again")
    assert not any(isinstance(fact, DecisionOpened) for fact in facts)


def _plain(result: str | None) -> str:
    """Without ids of sessions, and where a tool's failure goes on about its parameters."""
    return re.sub(r"PLAN_\S+|\n\nTool .*$", "", result or "", flags=re.DOTALL)


async def _facts(session: Session) -> list[AnyFact]:
    return [event.fact for event in await session.read(0)]


async def _until(session: Session, true: Callable[[list[AnyFact]], bool]) -> list[AnyFact]:
    """Wait for facts of which it is true."""
    async with asyncio.timeout(20):
        while not true(facts := await _facts(session)):
            await asyncio.sleep(0.002)
    return facts


async def _play(session: Session, prompt: str) -> list[AnyFact]:
    """A turn to its end, and what was recorded of it. Plans are accepted."""
    before = len(await _facts(session))
    await session.submit(LOCAL, prompt, via="test", when_busy="steer")
    if prompt == "plan it":
        await _answer(session, Answer(accept=True, text="Plan approved"))
    return (await _until(session, lambda facts: len(facts) > before and isinstance(facts[-1], TurnEnded)))[before:]


async def _answer(session: Session, answer: Answer) -> None:
    """What it asks next."""
    await _until(session, lambda _: bool(session.shown.decisions))
    await session.answer(LOCAL, next(iter(session.shown.decisions)), answer, via="test")

"""A person refuses a call, and says how that is meant: what becomes of the other calls, the turn, and the model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.agents.native.batch import COMPLETE_WITHIN, SHOWN_CALLS, SHOWN_CHARS, Batch
from dragoman.agents.native.providers.conversation import Message, ModelRequest, ToolMessage
from dragoman.agents.native.providers.port import CallMade, StreamEvent
from dragoman.agents.native.rejections import EXPLAIN, HARD, SOFT, WHAT_NEXT
from dragoman.agents.native.settings import TurnLimits
from dragoman.hub.events import (
    Answer,
    AnyFact,
    DecisionOpened,
    DecisionResolved,
    PromptTaken,
    StepStarted,
    SubagentEnded,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.tool_offers import ToolOffer
from tests.hub.rig import until

from .native_rig import QUICK, NativeHub, Recording, asked, native_hub, of, outcome, script, settled


class Held(Recording):
    """Before a call with the word *late* in its input it waits until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()

    async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        async for event in super().stream(request, raw=raw):
            if isinstance(event, CallMade) and "late" in event.arguments:
                await self.go_on.wait()
            yield event


@pytest.fixture
def model() -> Recording:
    return Recording()


@pytest.fixture
async def hub(tmp_path: Path, model: Recording) -> AsyncIterator[NativeHub]:
    async with native_hub(tmp_path, provider=model) as opened:
        yield opened


def bash(command: str, **more: Any) -> str:
    return f"call bash {msgspec.json.encode({'command': command, **more}).decode()}"


def results(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolMessage)]


def ends(facts: list[AnyFact]) -> dict[str, ToolEnded]:
    """How each call ended, by what its input says first."""
    inputs = {fact.call: next(iter(fact.input.values())) for fact in of(facts, ToolCalled)}
    return {inputs[fact.call]: fact for fact in of(facts, ToolEnded)}


async def reject(session: Session, mode: str | None, text: str | None = "use yarn", about: str | None = None) -> None:
    """Refuse the decision that is open, the one ``about`` this where there are several."""
    opened = await until(
        lambda: next((it for it in session.shown.decisions.values() if about in (None, it.text)), None), "it is asked"
    )
    values = {} if mode is None else {"mode": mode}
    await session.answer(LOCAL, opened.decision, Answer(accept=False, text=text, values=values), via="test")


async def both_asked(session: Session, count: int = 2) -> None:
    await until(lambda: len(session.shown.decisions) == count, f"{count} decisions are open")


# Nothing more


async def test_a_hard_refusal_ends_the_turn_without_a_further_model_call(
    hub: NativeHub, model: Recording, tmp_path: Path
) -> None:
    session = await hub.session()
    await hub.submit(session, script(f"{bash('touch a')}\n{bash('touch b')}", "say never said"))
    await both_asked(session)
    await reject(session, HARD, about="touch a")
    await settled(session)
    facts = await hub.facts(session)
    assert [fact.status for fact in of(facts, ToolEnded)] == ["denied"] * 2
    assert ends(facts)["touch a"].problem.message == "User rejected this command. They said: use yarn"
    assert "another call" in ends(facts)["touch b"].problem.message
    assert [(fact.outcome, fact.reason) for fact in of(facts, DecisionResolved)] == [
        ("answered", None),
        ("cancelled", "rejected"),
    ]
    assert len(model.requests) == len(of(facts, StepStarted)) == 1
    (end,) = of(facts, TurnEnded)
    assert (end.outcome, end.result) == ("completed", WHAT_NEXT)
    assert not list(tmp_path.iterdir())


async def test_the_next_turn_knows_of_a_hard_refusal(hub: NativeHub, model: Recording) -> None:
    session = await hub.session()
    await hub.submit(session, script(bash("touch a"), "say never said"))
    await reject(session, HARD)
    await settled(session)
    facts = await hub.turn(session, "go on then")
    assert outcome(facts) == "completed"
    assert "use yarn" in results(model.last)[0]


async def test_a_hard_refusal_reaches_calls_that_wait_for_a_place_or_are_made_later(tmp_path: Path) -> None:
    """The model still speaks, and only one call may run at once."""
    one_by_one = msgspec.structs.replace(QUICK, turn=TurnLimits(parallel_calls=1))

    model = Held()
    read = 'call read {"filePath": "x"}'
    async with native_hub(tmp_path, provider=model, settings=one_by_one) as hub:
        session = await hub.session()
        await hub.submit(session, script(f"{bash('touch a')}\n{read}\n{bash('echo late')}", "say never said"))
        await reject(session, HARD, None)
        await until(lambda: len(session.shown.calls) == 0, "both have their result")
        model.go_on.set()
        await settled(session)
        facts = await hub.facts(session)
    assert [fact.status for fact in of(facts, ToolEnded)] == ["denied"] * 3
    assert len(of(facts, DecisionOpened)) == 1
    assert of(facts, TurnEnded)[0].result == WHAT_NEXT


async def test_what_had_begun_before_a_hard_refusal_runs_to_its_end(hub: NativeHub, tmp_path: Path) -> None:
    session = await hub.session()
    begun = bash("touch begun; while ! test -e rejected; do sleep 0.01; done; echo over")
    await hub.submit(session, script(f"{begun}\n{bash('touch b')}"))
    await both_asked(session)
    first = next(it for it in session.shown.decisions.values() if "begun" in it.text)
    await session.answer(LOCAL, first.decision, Answer(accept=True), via="test")
    await until((tmp_path / "begun").exists, "it runs")
    await reject(session, HARD)
    await until(lambda: len(session.shown.calls) == 1, "the other is refused")
    (tmp_path / "rejected").touch()
    await settled(session)
    facts = await hub.facts(session)
    assert sorted(fact.status for fact in of(facts, ToolEnded)) == ["denied", "ok"]
    assert of(facts, TurnEnded)[0].result == WHAT_NEXT


async def test_a_hard_refusal_closes_questions_and_keeps_calls_from_clients(tmp_path: Path) -> None:
    model = Held()
    lines = [bash("touch a"), 'call ask {"question": "Why?"}', 'call look {"at": "late"}']
    async with native_hub(tmp_path, provider=model) as hub:
        session = await hub.session()
        await session.declare_tools(LOCAL, "link", [ToolOffer(name="look")])
        await hub.submit(session, script("\n".join(lines), "say never said"))
        await both_asked(session)
        await reject(session, HARD, about="touch a")
        await until(lambda: not session.shown.calls, "both have their result")
        model.go_on.set()
        await settled(session)
        facts = await hub.facts(session)
    assert {fact.tool: fact.status for fact in of(facts, ToolEnded)} == dict.fromkeys(("bash", "ask", "look"), "denied")
    assert of(facts, TurnEnded)[0].result == WHAT_NEXT


async def test_a_hard_refusal_of_a_subagents_edit_ends_all_of_it(hub: NativeHub, model: Recording) -> None:
    inner = '#script\ncall write {"filePath": "x", "content": "y"}\n---\nsay went on'
    task = msgspec.json.encode({"task": inner, "agentType": "general"}).decode()
    session = await hub.session()
    await hub.submit(session, script(f"call spawnAgent {task}", "say never said"))
    await reject(session, HARD)
    await settled(session)
    facts = await hub.facts(session)
    assert len(model.requests) == 2
    assert [fact.status for fact in of(facts, ToolEnded)] == ["denied", "ok"]
    assert len(of(facts, SubagentEnded)) == 1
    assert of(facts, TurnEnded)[0].result == WHAT_NEXT


async def test_a_prompt_that_steers_gets_its_own_turn_after_a_hard_refusal(hub: NativeHub, model: Recording) -> None:
    session = await hub.session()
    await hub.submit(session, script(bash("touch a"), "say never said"))
    await asked(session)
    prompt = await hub.submit(session, "do b instead", when_busy="steer")
    await reject(session, HARD)
    await settled(session)
    facts = await hub.facts(session)
    assert not of(facts, PromptTaken)
    assert [fact.prompt for fact in of(facts, TurnStarted)][1:] == [prompt]
    assert [fact.outcome for fact in of(facts, TurnEnded)] == ["completed"] * 2


async def test_a_yes_that_comes_after_a_hard_refusal_is_too_late(hub: NativeHub, tmp_path: Path) -> None:
    """Both are accepted before either is on disk: the order in the log counts."""
    session = await hub.session()
    await hub.submit(session, script(f"{bash('touch a')}\n{bash('touch b')}"))
    await both_asked(session)
    first, second = (
        next(it.decision for it in session.shown.decisions.values() if it.text == text)
        for text in ("touch a", "touch b")
    )
    await asyncio.gather(
        session.answer(LOCAL, first, Answer(accept=False, values={"mode": HARD}), via="test"),
        session.answer(LOCAL, second, Answer(accept=True), via="test"),
    )
    await settled(session)
    assert [fact.status for fact in of(await hub.facts(session), ToolEnded)] == ["denied"] * 2
    assert not list(tmp_path.iterdir())


# This call only


@pytest.mark.parametrize(
    ("mode", "tells", "tells_not"),
    [
        (SOFT, "offer two to four other ways", "Explain"),
        (EXPLAIN, "Explain it in plain words", "two to four"),
        (None, "User rejected this command.", "two to four"),
        ("reject_else", "User rejected this command.", "Explain"),
    ],
)
async def test_any_other_refusal_is_of_one_call(
    hub: NativeHub, model: Recording, tmp_path: Path, mode: str | None, tells: str, tells_not: str
) -> None:
    session = await hub.session()
    await hub.submit(session, script(f"{bash('touch a')}\n{bash('touch b')}", "say I see"))
    await both_asked(session)
    await reject(session, mode, about="touch a")
    other = await asked(session)
    await session.answer(LOCAL, other.decision, Answer(accept=True), via="test")
    await settled(session)
    facts = await hub.facts(session)
    refused = ends(facts)["touch a"]
    assert (refused.status, ends(facts)["touch b"].status) == ("denied", "ok")
    assert refused.problem.message == "User rejected this command. They said: use yarn"
    assert refused.output == {"stdout": "", "stderr": refused.problem.message, "exitCode": 1}
    told = results(model.last)[0]
    assert "use yarn" in told
    assert tells in told
    assert tells_not not in told
    assert of(facts, TurnEnded)[0].result == "I see"
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


async def test_edits_are_refused_in_the_same_ways(hub: NativeHub, model: Recording, tmp_path: Path) -> None:
    for mode, tells in ((SOFT, "two to four"), (EXPLAIN, "plain words")):
        session = await hub.session()
        await hub.submit(session, script('call write {"filePath": "x", "content": "y"}', "say I see"))
        await reject(session, mode)
        await settled(session)
        assert tells in results(model.last)[0]
    session = await hub.session()
    await hub.submit(session, script('call write {"filePath": "x", "content": "y"}', "say never said"))
    await reject(session, HARD)
    await settled(session)
    assert of(await hub.facts(session), TurnEnded)[0].result == WHAT_NEXT
    assert not list(tmp_path.iterdir())


# What the person is shown beside it


async def test_the_calls_behind_it_are_shown_with_a_permission(hub: NativeHub) -> None:
    session = await hub.session()
    lines = [bash("touch a", description="make a"), bash("touch b"), 'call read {"filePath": "x"}']
    await hub.submit(session, script("\n".join(lines), "say ok"))
    await both_asked(session)
    first, second = sorted(session.shown.decisions.values(), key=lambda it: it.text)
    read = {"tool": "read", "arguments": '{"filePath": "x"}'}
    assert first.detail == {
        "grant": "bash(touch a)",
        "tool_grant": "bash:all",
        "description": "make a",
        "batch": [{"tool": "bash", "arguments": '{"command":"touch b"}'}, read],
    }
    assert second.detail == {"grant": "bash(touch b)", "tool_grant": "bash:all", "batch": [read]}
    for opened in (first, second):
        await session.answer(LOCAL, opened.decision, Answer(accept=True), via="test")
    await settled(session)
    assert outcome(await hub.facts(session)) == "completed"


async def test_a_single_edit_has_neither_batch_nor_description(hub: NativeHub) -> None:
    session = await hub.session()
    await hub.submit(session, script('call write {"filePath": "x", "content": "y", "description": "z"}', "say ok"))
    opened = await asked(session)
    assert opened.detail == {"grant": "edit"}, "only a command's description is one of what is done"
    await reject(session, None)
    await settled(session)


async def test_a_batch_is_not_waited_for_for_long() -> None:
    batch = Batch()
    batch.add(CallMade("one", "bash", "{}"))
    batch.add(CallMade("two", "read", "{}"))
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await batch.behind("one") == [{"tool": "read", "arguments": "{}"}]
    assert loop.time() - began >= COMPLETE_WITHIN * 0.9
    batch.complete()
    began = loop.time()
    assert await batch.behind("two") == []
    assert loop.time() - began < COMPLETE_WITHIN * 0.9


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("not JSON", "not JSON"),
        ("x" * 5000, "x" * SHOWN_CHARS + "…"),
        ('{"a": "b"}', '{"a": "b"}'),
        ('{"path": "x", "content": "' + "y" * 5000 + '"}', '{"path":"x","content":"' + "y" * 100 + '…"}'),
        ('{"path": "x", "list": [' + "1," * 5000 + "1]}", '{"path":"x","list":null}'),
        ("[" * 900 + "]" * 900, "null"),
        ('{"' + "k" * 5000 + '": 1}', "{}"),
        ('["' + "k" * 5000 + '"]', "null"),
    ],
    ids=["text", "long text", "short", "long value", "long list", "deep", "long key", "no object"],
)
async def test_arguments_are_shown_short(arguments: str, shown: str) -> None:
    batch = Batch()
    batch.add(CallMade("one", "bash", "{}"))
    for number in range(SHOWN_CALLS + 5):
        batch.add(CallMade(f"more {number}", "t", arguments))
    batch.complete()
    behind = await batch.behind("one")
    assert behind == [{"tool": "t", "arguments": shown}] * SHOWN_CALLS

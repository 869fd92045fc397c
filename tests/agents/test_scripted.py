"""The scripted agent: its little language, through the same calls as any other agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.agents.scripted.script import STEPS, Step, parse
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import (
    Answer,
    AnyFact,
    DecisionOpened,
    MessageAdded,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptTaken,
    TodosChanged,
    ToolCalled,
    ToolEnded,
    TurnEnded,
)
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from tests.hub.rig import Hub, InMemory, idle, open_decision, proven, until


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub in memory, whose logs are checked at the end."""
    async with proven(Hub(InMemory(), tmp_path)) as opened:
        yield opened


async def run(hub: Hub, script: str, **more: str) -> tuple[Session, list[AnyFact], TurnEnded]:
    """Run a script to its end; returns what the turn recorded, and how it ended."""
    session = await hub.create()
    await session.submit(LOCAL, script, via="test", **more)  # type: ignore[arg-type]
    await idle(session)
    facts = (await hub.facts(session))[3:]
    assert isinstance(facts[-1], TurnEnded)
    return session, facts[:-1], facts[-1]


def test_a_script_is_one_step_per_line() -> None:
    assert parse("say hello  there\n\n  wait \n") == [Step("say", "hello  there"), Step("wait", "")]


@pytest.mark.parametrize("prompt", ["hello", "say hi\nand more", "", "  ", "sayhello", "SAY hello", "_run x"])
def test_what_is_no_script_is_echoed(prompt: str) -> None:
    assert parse(prompt) == [Step("say", f"You said: {prompt}")]


def test_every_step_of_the_language_is_described() -> None:
    from dragoman.agents.scripted import script

    assert script.__doc__ is not None
    described = {line.split("``")[1].split()[0] for line in script.__doc__.splitlines() if line.startswith("``")}
    assert described == STEPS


async def test_say_streams_words_that_join_to_the_message(hub: Hub) -> None:
    _, facts, ended = await run(hub, "say hello big world")
    kinds = [type(fact) for fact in facts]
    assert kinds == [PartStarted, PartDelta, PartDelta, PartDelta, PartEnded, MessageAdded]
    deltas = [fact.text for fact in facts if isinstance(fact, PartDelta)]
    assert deltas == ["hello", " big", " world"]
    assert (ended.outcome, ended.result) == ("completed", "hello big world")
    assert isinstance(facts[-1], MessageAdded)
    assert (facts[-1].role, facts[-1].text) == ("assistant", "hello big world")


async def test_think_is_reasoning_and_no_result(hub: Hub) -> None:
    _, facts, ended = await run(hub, "think hm hm")
    assert {fact.kind for fact in facts if isinstance(fact, PartDelta)} == {"reasoning"}
    assert isinstance(facts[-1], MessageAdded)
    assert facts[-1].role == "reasoning"
    assert ended.result is None


async def test_every_part_of_a_turn_has_a_name_of_its_own(hub: Hub) -> None:
    _, facts, _ = await run(hub, "say a\nthink b\nburst 3\npace 2 1")
    assert [fact.part for fact in facts if isinstance(fact, PartStarted)] == ["part-1", "part-2", "part-3", "part-4"]
    assert len([fact for fact in facts if isinstance(fact, PartDelta)]) == 1 + 1 + 3 + 2


async def test_a_tool_echoes_and_an_open_one_is_left_behind(hub: Hub) -> None:
    _, facts, _ = await run(hub, 'tool read {"path": "a"}\nopen search\nsay done')
    called = [fact for fact in facts if isinstance(fact, ToolCalled)]
    ended = [fact for fact in facts if isinstance(fact, ToolEnded)]
    assert [(call.tool, call.input) for call in called] == [("read", {"path": "a"}), ("search", None)]
    assert [(end.tool, end.status, end.output) for end in ended] == [
        ("read", "ok", {"path": "a"}),
        ("search", "interrupted", None),
    ]


@pytest.mark.parametrize(
    "script", ["tool read {nonsense", "open x [1,", "fact {}", 'fact {"type":"no.such"}', "fact x"]
)
async def test_a_script_that_cannot_be_read_fails_its_turn(hub: Hub, script: str) -> None:
    _, _, ended = await run(hub, script)
    assert ended.outcome == "failed"
    assert ended.problem is not None
    assert ended.problem.code == "bad_script"


@pytest.mark.parametrize(
    "script", ["burst x", "burst", "burst -1", "burst nan", "sleep x", "sleep inf", "pace x y", "pace 1 y"]
)
async def test_a_number_that_is_none_fails_its_turn(hub: Hub, script: str) -> None:
    _, _, ended = await run(hub, script)
    assert ended.outcome == "failed"
    assert ended.problem is not None
    assert ended.problem.code == "bad_script"


@pytest.mark.parametrize(("accept", "word"), [(True, "permitted"), (False, "refused")])
async def test_permit_says_what_was_decided(hub: Hub, accept: bool, word: str) -> None:
    session = await hub.create()
    await session.submit(LOCAL, "permit rm -rf /", via="test")
    opened = await open_decision(session)
    assert (opened.kind, opened.text) == ("permission", "rm -rf /")
    await session.answer(LOCAL, opened.decision, Answer(accept=accept), via="test")
    await idle(session)
    assert session.shown.status.last_message == f"rm -rf /: {word}"


@pytest.mark.parametrize(
    ("script", "answer", "said"),
    [
        ("ask Which? | red | blue", Answer(option=2), "answer: blue"),
        ("ask Which? | red | blue", Answer(text="green"), "answer: green"),
        ("ask Why?", Answer(text="because"), "answer: because"),
        ("ask Why?", Answer(option=1), "answer: 1"),
        ("ask Which?", Answer(choices=("a", "b")), "answer: a, b"),
        ("ask Which? | red", Answer(answers=(Answer(text="x"),)), "answer: x"),
    ],
)
async def test_ask_says_what_was_answered(hub: Hub, script: str, answer: Answer, said: str) -> None:
    session = await hub.create()
    await session.submit(LOCAL, script, via="test")
    opened = await open_decision(session)
    assert (opened.kind, opened.text) == ("question", script[4:].partition(" |")[0])
    await session.answer(LOCAL, opened.decision, answer, via="test")
    await idle(session)
    assert session.shown.status.last_message == said


async def test_a_question_that_is_withdrawn_is_answered_by_nobody(hub: Hub) -> None:
    session = await hub.create()
    await session.submit(LOCAL, "ask Why?\npermit x", via="test")
    opened = await open_decision(session)
    session.cancel_decision(opened.decision, "the dialog went away")
    await until(lambda: any(decision.kind == "permission" for decision in session.shown.decisions.values()))
    assert session.shown.status.last_message == "nobody answered"
    session.cancel_decision(next(iter(session.shown.decisions)), "this one too")
    await idle(session)
    assert session.shown.status.last_message == "x: refused"


async def test_wait_waits_until_it_is_cancelled(hub: Hub) -> None:
    session = await hub.create()
    receipt = await session.submit(LOCAL, "say before\nwait\nsay after", via="test")
    await until(lambda: session.shown.status.last_message == "before")
    await session.cancel(LOCAL, receipt.turn, via="test")
    assert session.shown.status.last_message == "before"


async def test_steer_says_what_came_in_meanwhile(hub: Hub) -> None:
    session = await hub.create()
    await session.submit(LOCAL, "permit x\nsteer", via="test")
    opened = await open_decision(session)
    await session.submit(LOCAL, "left", via="test", when_busy="steer")
    await session.answer(LOCAL, opened.decision, Answer(accept=True), via="test")
    await idle(session)
    facts = await hub.facts(session)
    assert len([fact for fact in facts if isinstance(fact, PromptTaken)]) == 1
    assert session.shown.status.last_message == "steered: left"


async def test_any_fact_can_be_recorded(hub: Hub) -> None:
    todo = '{"content":"x","status":"pending","active_form":"xing"}'
    _, facts, _ = await run(hub, f'fact {{"type":"todos.changed","todos":[{todo}]}}')
    assert [type(fact) for fact in facts] == [TodosChanged]


@pytest.mark.parametrize(("script", "code"), [("fail too bad", "scripted"), ("crash", "internal")])
async def test_fail_and_crash_fail_the_turn(hub: Hub, script: str, code: str) -> None:
    _, _, ended = await run(hub, script)
    assert ended.problem is not None
    assert (ended.outcome, ended.problem.code) == ("failed", code)
    assert (ended.problem.message == "too bad") == (script != "crash")


async def test_what_the_model_should_see_is_the_script(hub: Hub) -> None:
    _, _, ended = await run(hub, "a nice title", content="say from the content")
    assert ended.result == "from the content"


async def test_a_scripted_session_takes_no_options(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="command"):
        await hub.create(options={"command": ["sh"]})


async def test_a_question_without_a_turn_is_none_of_its_business(hub: Hub) -> None:
    session = await hub.create()
    await session.start(LOCAL)
    session.ensure_agent()
    session.open_decision(DecisionOpened(decision="d", kind="setup", text="?"))
    await session.answer(LOCAL, "d", Answer(text="x"), via="test")
    assert session.terminal is None
    await session.end_executor()

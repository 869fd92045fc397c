"""Turns of a native session: steps, tools, steering, limits, ends; the model is scripted, everything else is real."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.agents.native.modes import loosens
from dragoman.agents.native.providers.conversation import (
    AssistantMessage,
    ModelRequest,
    ToolMessage,
    UserMessage,
)
from dragoman.agents.native.providers.port import (
    CallMade,
    Finished,
    PartClosed,
    PartGrew,
    PartOpened,
    RawReceived,
    StreamEvent,
)
from dragoman.agents.native.providers.scripted import Scripted
from dragoman.agents.native.settings import TurnLimits
from dragoman.hub.errors import InvalidRequest, NotPermitted
from dragoman.hub.events import (
    Answer,
    ContextReported,
    DecisionOpened,
    LogWritten,
    MessageAdded,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptTaken,
    RawPart,
    StepEnded,
    StepStarted,
    SubagentEnded,
    SubagentStarted,
    TodosChanged,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    UsageReported,
)
from dragoman.hub.permissions import LOCAL, Principal, Right
from dragoman.hub.session import Session
from dragoman.hub.tool_offers import ToolOffer
from tests.hub.rig import until

from .native_rig import QUICK, NativeHub, Recording, asked, native_hub, of, outcome, script, settled


@pytest.fixture
def model() -> Recording:
    return Recording()


@pytest.fixture
async def hub(tmp_path: Path, model: Recording) -> AsyncIterator[NativeHub]:
    async with native_hub(tmp_path, provider=model) as opened:
        yield opened


async def test_a_plain_answer_is_streamed_and_added(hub: NativeHub) -> None:
    session = await hub.session()
    facts = await hub.turn(session, "good morning")
    kinds = [type(fact) for fact in facts if not isinstance(fact, PartDelta | ContextReported)]
    assert kinds[1:] == [StepStarted, PartStarted, PartEnded, MessageAdded, UsageReported, StepEnded, TurnEnded]
    assert "".join(fact.text for fact in of(facts, PartDelta)) == "You said: good morning"
    assert of(facts, TurnEnded)[0].result == "You said: good morning"
    assert of(facts, UsageReported)[0].estimated


async def test_the_providers_numbers_are_kept_and_counted_once(hub: NativeHub) -> None:
    session = await hub.session()
    facts = await hub.turn(session, script('call todoWrite {"todos": []}\nusage 100 20', "say ok\nusage 130 5"))
    reports = of(facts, UsageReported)
    assert [(report.input_tokens, report.output_tokens, report.estimated) for report in reports] == [
        (100, 20, False),
        (130, 5, False),
    ]
    assert len({report.message for report in reports}) == 2


async def test_reports_say_how_much_the_model_takes(tmp_path: Path) -> None:
    """Also where nobody knows it, and the settings say; a sub-agent's is no part of the conversation."""
    task = msgspec.json.encode({"task": "look", "agentType": "explore"}).decode()
    for known, window in ((90_000, 90_000), (None, QUICK.context.window)):
        async with native_hub(tmp_path, window=known) as hub:
            facts = await hub.turn(await hub.session(), script(f"call spawnAgent {task}", "say ok"))
        told = [(it.step, it.context_window) for it in of(facts, UsageReported)]
        assert sorted(told, key=str) == [(1, window), (2, window), (None, None)]


async def test_what_an_answer_cost_is_told_before_its_tools_are_done(hub: NativeHub) -> None:
    session = await hub.session(mode="all")
    facts = await hub.turn(session, script('call bash {"command": "sleep 0.2"}\nusage 100 20', "say ok"))
    kinds = [type(fact) for fact in facts]
    assert kinds.index(UsageReported) < kinds.index(ToolEnded) < kinds.index(StepEnded)
    assert of(facts, UsageReported)[0].answered


async def test_parallel_calls_run_at_once_and_keep_their_order_for_the_model(
    hub: NativeHub, model: Recording, tmp_path: Path
) -> None:
    (tmp_path / "b").write_text("content of b\n")
    session = await hub.session(mode="all")
    # The first waits for what only the second brings about.
    first = 'call bash {"command": "while ! test -e made; do sleep 0.01; done; echo first"}'
    facts = await hub.turn(
        session, script(f'{first}\ncall bash {{"command": "touch made"}}\ncall read {{"filePath": "b"}}')
    )
    assert outcome(facts) == "completed"
    results = [message for message in model.last if isinstance(message, ToolMessage)]
    assert [result.tool for result in results] == ["bash", "bash", "read"]
    assert "first" in results[0].text
    assert "content of b" in results[2].text
    assert [fact.status for fact in of(facts, ToolEnded)] == ["ok"] * 3


async def test_the_results_come_before_the_end_of_their_step(hub: NativeHub) -> None:
    session = await hub.session()
    facts = await hub.turn(session, script('say looking\ncall glob {"pattern": "*"}', "say nothing there"))
    order = [
        type(fact).__name__ for fact in facts if isinstance(fact, StepStarted | ToolCalled | ToolEnded | StepEnded)
    ]
    assert order == ["StepStarted", "ToolCalled", "ToolEnded", "StepEnded", "StepStarted", "StepEnded"]


@pytest.mark.parametrize(
    ("line", "code", "tells"),
    [
        ("call fly {}", "no_such_tool", "There is no tool 'fly'"),
        ("call read {}", "invalid_input", "filePath"),
        ('call read {"filePath": 7}', "invalid_input", "filePath"),
        ('call read {"filePath": ', "invalid_input", "read"),
        ("call read []", "invalid_input", "read"),
        ('call read {"filePath": "absent"}', "tool_failed", "absent"),
        ('call read {"filePath": "/etc/passwd"}', "blocked", "outside"),
        ('call webFetch {"url": "http://127.0.0.1/"}', "blocked", "lock"),
    ],
)
async def test_what_cannot_be_done_is_told_to_the_model_and_the_turn_goes_on(
    hub: NativeHub, model: Recording, line: str, code: str, tells: str
) -> None:
    session = await hub.session()
    facts = await hub.turn(session, script(line, "say I see"))
    call, end = of(facts, ToolCalled)[0], of(facts, ToolEnded)[0]
    assert end.status == "error"
    assert end.problem.code == code
    assert call.invalid == (code in ("no_such_tool", "invalid_input"))
    told = next(message for message in model.last if isinstance(message, ToolMessage))
    assert tells in told.text
    assert told.failed
    assert of(facts, TurnEnded)[0].result == "I see"


async def test_a_call_that_nests_too_deep_for_a_log_is_kept_as_text(hub: NativeHub) -> None:
    deep = "[" * 200 + "]" * 200
    session = await hub.session()
    facts = await hub.turn(session, script(f'call ask {{"question": {deep}}}', "say ok"))
    assert outcome(facts) == "completed"
    assert of(facts, ToolEnded)[0].status == "error"


async def test_a_clients_call_that_nests_too_deep_for_a_log_goes_out_as_text(hub: NativeHub) -> None:
    deep = "[" * 200 + "]" * 200
    session = await hub.session()
    await session.declare_tools(LOCAL, "link", [ToolOffer(name="look")])
    await hub.submit(session, script(f'call look {{"at": {deep}}}', "say ok"))
    open_ = await until(lambda: next(iter(session.shown.calls.values()), None), "the call is out")
    assert isinstance(open_.input, str)
    await session.end_tool(LOCAL, open_.call, link="link", output="seen")
    await settled(session)
    assert outcome(await hub.facts(session)) == "completed"


async def test_ids_that_a_provider_gives_twice_are_told_apart(tmp_path: Path) -> None:
    """Ollama and others count their calls anew in each answer."""

    class Repeating(Scripted):
        async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
            async for event in super().stream(request, raw=raw):
                if isinstance(event, CallMade):
                    yield msgspec.structs.replace(event, call="call_0")
                elif isinstance(event, PartOpened | PartGrew | PartClosed):
                    yield msgspec.structs.replace(event, part="call_0")
                else:
                    yield event

    async with native_hub(tmp_path, provider=Repeating()) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script('call glob {"pattern": "a"}', 'call glob {"pattern": "b"}', "say done"))
        assert len({fact.call for fact in of(facts, ToolCalled)}) == 2
        assert outcome(facts) == "completed"


async def test_an_empty_answer_ends_the_turn_without_a_message(hub: NativeHub) -> None:
    session = await hub.session()
    facts = await hub.turn(session, script("usage 5 0"))
    assert outcome(facts) == "completed"
    assert not of(facts, MessageAdded)
    assert of(facts, TurnEnded)[0].result is None


# Failures


async def test_a_failure_that_may_pass_is_tried_again(hub: NativeHub) -> None:
    session = await hub.session()
    facts = await hub.turn(session, script("fail overloaded? too much to do"))
    assert [fact.level for fact in of(facts, LogWritten)] == ["warning", "warning"]
    assert len(of(facts, StepStarted)) == 1
    problem = of(facts, TurnEnded)[0].problem
    assert (problem.code, problem.message) == ("provider_overloaded", "too much to do")
    assert of(facts, StepEnded)[0].problem == problem


async def test_a_failure_that_will_not_pass_is_not_tried_again(hub: NativeHub, model: Recording) -> None:
    session = await hub.session()
    facts = await hub.turn(session, script("fail unauthorized wrong key"))
    assert len(model.requests) == 1
    assert outcome(facts) == "failed"


async def test_what_was_said_before_a_failure_stays_said(hub: NativeHub, model: Recording) -> None:
    session = await hub.session()
    facts = await hub.turn(session, script("say it begins\nfail network? cut off"))
    assert len(model.requests) == 1
    assert of(facts, MessageAdded)[0].text == "it begins"
    assert outcome(facts) == "failed"
    await hub.turn(session, "and then?")
    assert any("The turn failed here" in message.text for message in model.last if isinstance(message, UserMessage))


async def test_the_step_limit_ends_the_turn_and_says_so(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(QUICK, turn=TurnLimits(steps=3))
    async with native_hub(tmp_path, settings=limits) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script(*['call glob {"pattern": "*"}'] * 5))
        assert len(of(facts, StepStarted)) == 3
        assert outcome(facts) == "completed"
        assert "its limit" in of(facts, LogWritten)[0].line


# Steering, queueing, cancelling


async def test_what_is_said_meanwhile_reaches_the_next_step(hub: NativeHub, model: Recording, tmp_path: Path) -> None:
    session = await hub.session(mode="all")
    await hub.submit(session, script('call bash {"command": "while ! test -e go; do sleep 0.01; done"}'))
    await until(lambda: session.shown.calls, "the command runs")
    await hub.submit(session, "rather be quick", when_busy="steer")
    (tmp_path / "go").touch()
    await settled(session)
    assert UserMessage("rather be quick") in model.last
    facts = await hub.facts(session)
    assert len(of(facts, TurnEnded)) == 1
    taken = facts.index(of(facts, PromptTaken)[0])
    assert isinstance(facts[taken + 1], ContextReported | StepStarted)


async def test_what_is_said_during_the_last_step_starts_a_further_one(hub: NativeHub) -> None:
    session = await hub.session()
    await hub.submit(session, script("say first\npause 50"))
    await until(lambda: of([event.fact for event in session.recent(0) or ()], StepStarted), "the step runs")
    await hub.submit(session, "and this", when_busy="steer")
    await settled(session)
    facts = await hub.facts(session)
    assert len(of(facts, PromptTaken)) == 1
    assert len(of(facts, TurnEnded)) == 1
    assert len(of(facts, StepStarted)) == 2


async def test_steering_that_comes_too_late_gets_a_turn_of_its_own(hub: NativeHub) -> None:
    """At whatever moment it comes, it is answered exactly once."""
    session = await hub.session()
    for delay in range(0, 40, 4):
        await hub.submit(session, script('say a\ncall glob {"pattern": "*"}', "say b"))
        await asyncio.sleep(delay / 1000)
        await hub.submit(session, f"steer {delay}", when_busy="steer")
        await settled(session)
    facts = await hub.facts(session)
    assert len(of(facts, PromptTaken)) + len(of(facts, TurnEnded)) == 20


async def test_cancel_keeps_what_was_said_and_the_next_turn_works(hub: NativeHub, model: Recording) -> None:
    session = await hub.session()
    await hub.submit(session, script("say half an answer\nwait"))
    await until(lambda: session.shown.turn and session.shown.status.last_message, "something was said")
    await session.cancel(LOCAL, via="test")
    facts = await hub.facts(session)
    assert outcome(facts) == "cancelled"
    facts = await hub.turn(session, "go on")
    assert outcome(facts) == "completed"
    assert any("cancelled the turn here" in message.text for message in model.last if isinstance(message, UserMessage))


async def test_cancel_in_the_middle_of_a_part_closes_it(tmp_path: Path) -> None:
    class Slow(Scripted):
        async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
            async for event in super().stream(request, raw=raw):
                yield event
                await asyncio.sleep(0.02)

    async with native_hub(tmp_path, provider=Slow()) as hub:
        session = await hub.session()
        await hub.submit(session, script("say a b c d e f g h i j k l m n o p q r s t u v w x y z"))
        await until(lambda: session.head > 8, "some words")
        await session.cancel(LOCAL, via="test")
        facts = await hub.facts(session)
        said = of(facts, MessageAdded)[0]
        assert said.kind == "partial"
        assert said.text == "".join(delta.text for delta in of(facts, PartDelta))
        assert len(of(facts, PartEnded)) == 1


# Decisions


async def permission(hub: NativeHub, answer: Answer, command: str = "touch made", **settings: object) -> list:  # type: ignore[type-arg]
    session = await hub.session(**settings)
    await hub.submit(session, script(f"call bash {msgspec.json.encode({'command': command}).decode()}", "say ok"))
    decision = await asked(session)
    assert (decision.kind, decision.text, decision.tool) == ("permission", command, "bash")
    await session.answer(LOCAL, decision.decision, answer, via="test")
    await settled(session)
    return await hub.facts(session)


@pytest.mark.parametrize("answer", [Answer(accept=True), Answer(option=1), Answer(option=2), Answer(option=3)])
async def test_a_permitted_command_runs(hub: NativeHub, tmp_path: Path, answer: Answer) -> None:
    facts = await permission(hub, answer)
    assert (tmp_path / "made").exists()
    assert of(facts, ToolEnded)[0].status == "ok"


@pytest.mark.parametrize("answer", [Answer(accept=False), Answer(option=4), Answer(text="use mkdir")])
async def test_a_refused_command_does_not_run(hub: NativeHub, tmp_path: Path, answer: Answer) -> None:
    facts = await permission(hub, answer)
    assert not (tmp_path / "made").exists()
    end = of(facts, ToolEnded)[0]
    assert end.status == "denied"
    assert end.output["stderr"].startswith("User rejected this command.")
    assert end.output["exitCode"] == 1
    assert outcome(facts) == "completed"
    if answer.text:
        assert answer.text in end.output["stderr"]


async def test_a_grant_holds_for_the_session_and_after_a_restart(hub: NativeHub, tmp_path: Path) -> None:
    session = await hub.session()
    line = 'call bash {"command": "touch made"}'
    await hub.submit(session, script(line, line))
    decision = await asked(session)
    await session.answer(LOCAL, decision.decision, Answer(accept=True, scope="session"), via="test")
    await settled(session)
    assert len(of(await hub.facts(session), DecisionOpened)) == 1
    await hub.restart()
    session = await hub.get(session)
    facts = await hub.turn(session, script(line))
    assert not of(facts, DecisionOpened)


async def test_a_grant_for_all_commands_leaves_out_dangerous_ones(hub: NativeHub) -> None:
    session = await hub.session()
    await hub.submit(session, script('call bash {"command": "touch a"}', 'call bash {"command": "rm -rf a"}'))
    first = await asked(session)
    await session.answer(LOCAL, first.decision, Answer(option=3), via="test")
    second = await until(
        lambda: next((d for d in session.shown.decisions.values() if d.decision != first.decision), None), "asked again"
    )
    assert second.dangerous
    assert second.reason == "matches_dangerous_pattern"
    await session.answer(LOCAL, second.decision, Answer(accept=False), via="test")
    await settled(session)


async def test_a_yes_to_the_tool_permits_every_command_of_the_session(hub: NativeHub, tmp_path: Path) -> None:
    """Dangerous ones too, also after a restart; no edits, and nothing in another session."""
    session = await hub.session()
    await hub.submit(session, script('call bash {"command": "touch made"}'))
    await session.answer(LOCAL, (await asked(session)).decision, Answer(accept=True, scope="tool"), via="test")
    await settled(session)
    await hub.restart()
    session = await hub.get(session)
    facts = await hub.turn(session, script('call bash {"command": "rm -rf made"}', 'call bash {"command": "touch b"}'))
    assert not of(facts, DecisionOpened)
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    await hub.submit(session, script('call write {"filePath": "x", "content": "y"}'))
    await session.answer(LOCAL, (await asked(session)).decision, Answer(accept=False), via="test")
    await settled(session)
    other = await hub.session()
    await hub.submit(other, script('call bash {"command": "touch c"}'))
    await session.close("test")
    await other.answer(LOCAL, (await asked(other)).decision, Answer(accept=False), via="test")
    await settled(other)


async def test_a_yes_to_a_tool_for_edits_leaves_out_what_steers_git(hub: NativeHub, tmp_path: Path) -> None:
    session = await hub.session()
    await hub.submit(session, script('call write {"filePath": "x", "content": "y"}'))
    await session.answer(LOCAL, (await asked(session)).decision, Answer(accept=True, scope="tool"), via="test")
    await settled(session)
    facts = await hub.turn(session, script('call write {"filePath": "z", "content": "y"}'))
    assert not of(facts, DecisionOpened)
    await hub.submit(session, script('call write {"filePath": ".gitmodules", "content": "y"}'))
    await session.answer(LOCAL, (await asked(session)).decision, Answer(accept=False), via="test")
    await settled(session)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x", "z"]


@pytest.mark.parametrize(
    ("mode", "line", "asks", "status"),
    [
        ("ask", 'call bash {"command": "pwd"}', False, "ok"),
        ("plan", 'call bash {"command": "pwd"}', False, "ok"),
        ("plan", 'call bash {"command": "touch x"}', False, "denied"),
        ("plan", 'call write {"filePath": "x", "content": "y"}', False, "denied"),
        ("all", 'call bash {"command": "rm -rf nothing"}', False, "ok"),
        ("all", 'call write {"filePath": "x", "content": "y"}', False, "ok"),
        ("all", 'call write {"filePath": "../x", "content": "y"}', False, "error"),
        ("accept_edits", 'call write {"filePath": "x", "content": "y"}', False, "ok"),
        ("accept_edits", 'call bash {"command": "touch x"}', True, "ok"),
        ("ask", 'call write {"filePath": "x", "content": "y"}', True, "ok"),
    ],
)
async def test_what_each_mode_asks_about(hub: NativeHub, mode: str, line: str, asks: bool, status: str) -> None:
    session = await hub.session(mode=mode)
    await hub.submit(session, script(line, "say ok"))
    if asks:
        await session.answer(LOCAL, (await asked(session)).decision, Answer(accept=True), via="test")
    await settled(session)
    facts = await hub.facts(session)
    assert len(of(facts, DecisionOpened)) == asks
    assert of(facts, ToolEnded)[0].status == status


async def test_a_question_is_answered_by_option_or_text(hub: NativeHub, model: Recording) -> None:
    session = await hub.session()
    line = 'call ask {"question": "Which?", "options": ["red", "blue"]}'
    for answer, tells in ((Answer(option=2), "blue"), (Answer(text="green"), "green")):
        await hub.submit(session, script(line, "say thanks"))
        decision = await asked(session)
        assert [option.label for option in decision.options] == ["red", "blue"]
        await session.answer(LOCAL, decision.decision, answer, via="test")
        await settled(session)
        assert tells in [message.text for message in model.last if isinstance(message, ToolMessage)][-1]


async def test_a_question_and_a_permission_may_both_be_open(hub: NativeHub) -> None:
    session = await hub.session()
    await hub.submit(session, script('call ask {"question": "Why?"}\ncall bash {"command": "touch x"}', "say ok"))
    decisions = await until(
        lambda: len(session.shown.decisions) == 2 and list(session.shown.decisions.values()), "both"
    )
    for decision in decisions:
        answer = Answer(text="so") if decision.kind == "question" else Answer(accept=True)
        await session.answer(LOCAL, decision.decision, answer, via="test")
    await settled(session)
    assert outcome(await hub.facts(session)) == "completed"


async def test_a_plan_that_is_accepted_ends_plan_mode(hub: NativeHub, model: Recording, tmp_path: Path) -> None:
    session = await hub.session(mode="plan")
    write = 'call write {"filePath": "x", "content": "y"}'
    await hub.submit(session, script('call presentPlan {"plan": "# Do it"}', write, "say done"))
    decision = await asked(session)
    assert (decision.kind, decision.text) == ("plan", "# Do it")
    await session.answer(LOCAL, decision.decision, Answer(option=2), via="test")
    await settled(session)
    assert (tmp_path / "x").read_text() == "y"
    assert session.shown.settings["mode"] == "accept_edits"
    assert "presentPlan" in [tool.name for tool in model.requests[0].tools]
    assert "presentPlan" not in [tool.name for tool in model.requests[-1].tools]


async def test_a_cancelled_question_is_closed_with_its_turn(hub: NativeHub) -> None:
    session = await hub.session()
    await hub.submit(session, script('call ask {"question": "Why?"}'))
    await asked(session)
    await session.cancel(LOCAL, via="test")
    assert not session.shown.decisions
    assert of(await hub.facts(session), ToolEnded)[0].status == "interrupted"


# Sub-agents


async def test_each_kind_of_subagent_does_its_task(hub: NativeHub, model: Recording, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("found me\n")
    session = await hub.session()
    for kind in ("explore", "research", "general"):
        task = script('call read {"filePath": "f"}', f"say {kind} is done")
        line = msgspec.json.encode({"task": task, "agentType": kind}).decode()
        facts = await hub.turn(session, script(f"call spawnAgent {line}", "say thanks"))
        assert of(facts, SubagentStarted)[0].name == kind
        assert of(facts, SubagentEnded)[0].status == "completed"
        outer, inner = of(facts, ToolCalled)
        assert (inner.tool, inner.parent) == ("read", outer.call)
        ends = {fact.call: fact for fact in of(facts, ToolEnded)}
        assert "found me" in ends[inner.call].output
        assert ends[outer.call].output == f"{kind} is done"
        assert len(of(facts, UsageReported)) == 4


async def test_a_subagent_s_own_calls_are_shown_to_it_as_it_made_them(hub: NativeHub, model: Recording) -> None:
    session = await hub.session()
    for written, shown in (('{"filePath": "f"}', {"filePath": "f"}), ('{"filePath": NaN}', '{"filePath": NaN}')):
        task = msgspec.json.encode({"task": script(f"call read {written}", "say done")}).decode()
        await hub.turn(session, script(f"call spawnAgent {task}", "say thanks"))
        inner = model.requests[-2].messages
        assert [call.input for it in inner if isinstance(it, AssistantMessage) for call in it.calls] == [shown]


async def test_a_subagent_may_not_run_what_must_be_asked(hub: NativeHub) -> None:
    session = await hub.session()
    task = msgspec.json.encode({"task": script('call bash {"command": "touch x"}'), "agentType": "explore"}).decode()
    facts = await hub.turn(session, script(f"call spawnAgent {task}", "say ok"))
    assert [fact.status for fact in of(facts, ToolEnded)] == ["denied", "ok"]
    assert not of(facts, DecisionOpened)


async def test_a_subagent_has_only_its_own_tools(hub: NativeHub) -> None:
    session = await hub.session()
    task = msgspec.json.encode({"task": script('call write {"filePath": "x", "content": ""}'), "agentType": "explore"})
    facts = await hub.turn(session, script(f"call spawnAgent {task.decode()}", "say ok"))
    assert of(facts, ToolEnded)[0].problem.code == "no_such_tool"


async def test_a_subagent_that_fails_is_a_failed_call(hub: NativeHub) -> None:
    session = await hub.session()
    task = msgspec.json.encode({"task": script("fail failed no luck")}).decode()
    facts = await hub.turn(session, script(f"call spawnAgent {task}", "say ok"))
    assert of(facts, ToolEnded)[0].status == "error"
    assert "no luck" in of(facts, ToolEnded)[0].problem.message
    assert of(facts, SubagentEnded)[0].status == "failed"
    assert outcome(facts) == "completed"


async def test_cancel_ends_subagents(hub: NativeHub) -> None:
    session = await hub.session()
    task = msgspec.json.encode({"task": script("wait")}).decode()
    await hub.submit(session, script(f"call spawnAgent {task}"))
    await until(lambda: session.shown.calls, "it runs")
    await session.cancel(LOCAL, via="test")
    assert of(await hub.facts(session), SubagentEnded)[0].status == "cancelled"


# What is told


async def test_raw_parts_are_recorded_where_the_session_wants_them(hub: NativeHub) -> None:
    line = 'raw {"native": 1}\nsay hi'
    assert not of(await hub.turn(await hub.session(), script(line)), RawPart)
    facts = await hub.turn(await hub.session(raw_parts=True), script(line))
    assert [fact.raw for fact in of(facts, RawPart)] == [{"native": 1}]


async def test_what_the_model_is_given_is_reported_once(hub: NativeHub) -> None:
    session = await hub.session()
    first, second = await hub.turn(session, "one"), await hub.turn(session, "two")
    assert [fact.part for fact in of(first, ContextReported)] == ["system_prompt", "user_message", "tool_schemas"]
    assert [fact.part for fact in of(second, ContextReported)] == ["user_message"]


async def test_todos_are_facts(hub: NativeHub) -> None:
    session = await hub.session()
    todos = '{"todos": [{"content": "Test", "status": "pending", "activeForm": "Testing"}]}'
    facts = await hub.turn(session, script(f"call todoWrite {todos}", "say ok"))
    assert of(facts, TodosChanged)[0].todos[0].content == "Test"


async def test_a_projects_memory_is_in_the_prompt_unless_it_leads_out(
    hub: NativeHub, model: Recording, tmp_path: Path
) -> None:
    (tmp_path / ".agent").mkdir()
    (tmp_path / ".agent" / "AGENT.md").write_text("Always whisper.")
    session = await hub.session()
    await hub.turn(session, "hi")
    assert "Always whisper." in model.requests[-1].system
    (tmp_path / ".agent" / "AGENT.md").unlink()
    (tmp_path / ".agent" / "AGENT.md").symlink_to("/etc/passwd")
    await hub.turn(session, "hi")
    assert "root:" not in model.requests[-1].system


async def test_a_tool_that_was_not_offered_cannot_be_called(hub: NativeHub, model: Recording) -> None:
    session = await hub.session(disabled_tools=["glob"])
    task = msgspec.json.encode({"task": script('call glob {"pattern": "*"}')}).decode()
    lines = ('call glob {"pattern": "*"}', 'call presentPlan {"plan": "x"}', f"call spawnAgent {task}")
    facts = await hub.turn(session, script("\n".join(lines), "say ok"))
    assert [fact.problem.code for fact in of(facts, ToolEnded) if fact.problem] == ["no_such_tool"] * 3
    assert "glob" not in [tool.name for request in model.requests for tool in request.tools]


async def test_a_failed_model_call_does_not_wait_for_its_tools(hub: NativeHub) -> None:
    session = await hub.session(mode="all")
    facts = await hub.turn(
        session, script('call bash {"command": "sleep 100"}\ncall ask {"question": "?"}\nfail failed no')
    )
    assert outcome(facts) == "failed"
    assert [fact.status for fact in of(facts, ToolEnded)] == ["interrupted"] * 2


async def test_the_same_words_twice_are_reported_twice(hub: NativeHub) -> None:
    session = await hub.session()
    for _ in range(2):
        facts = await hub.turn(session, "again")
        assert [fact.content for fact in of(facts, ContextReported) if fact.part == "user_message"] == ["again"]


async def test_more_room_for_tools_needs_the_right_to_approve(hub: NativeHub) -> None:
    session = await hub.session()
    writer = Principal("writer", frozenset({Right.READ, Right.WRITE}))
    for change in ({"mode": "all"}, {"output_directory": "/"}, {"output_directory": None}):
        with pytest.raises(NotPermitted):
            await session.change_settings(writer, change)
        with pytest.raises(NotPermitted):
            await hub.create("native", writer, settings=change)


TIGHT_TO_LOOSE = ("plan", "ask", "accept_edits", "all")


@pytest.mark.parametrize("default", TIGHT_TO_LOOSE)
async def test_only_a_looser_mode_needs_the_right_to_approve(tmp_path: Path, default: str) -> None:
    """From each mode to each, and from and to the default, which stands for no setting."""
    writer = Principal("writer", frozenset({Right.READ, Right.WRITE}))
    async with native_hub(tmp_path, settings=msgspec.structs.replace(QUICK, mode=default)) as hub:
        for before, after in itertools.product((*TIGHT_TO_LOOSE, None), repeat=2):
            loosens = TIGHT_TO_LOOSE.index(after or default) > TIGHT_TO_LOOSE.index(before or default)
            session = await hub.session(mode=before)
            with pytest.raises(NotPermitted, match="approve") if loosens else nullcontext():
                await session.change_settings(writer, {"mode": after})
            assert session.shown.settings.get("mode") == (before if loosens else after)
        for wanted in (*TIGHT_TO_LOOSE, None):
            loosens = TIGHT_TO_LOOSE.index(wanted or default) > TIGHT_TO_LOOSE.index(default)
            with pytest.raises(NotPermitted, match="approve") if loosens else nullcontext():
                await hub.create("native", writer, settings={"mode": wanted})


def test_a_word_that_is_no_mode_counts_as_loosening() -> None:
    """Old logs may hold any; what is in them permits as little as ``ask``."""
    assert loosens("plan", "root", "ask")
    assert loosens("all", 7, "ask")
    assert loosens("root", "accept_edits", "ask")
    assert not loosens("root", "ask", "all")


async def test_subagents_leave_room_for_their_own_calls(tmp_path: Path) -> None:
    """Each holds the place of the call that started it; their calls must not wait for such a place."""
    settings = msgspec.structs.replace(QUICK, turn=TurnLimits(parallel_calls=2))
    task = msgspec.json.encode({"task": '#script\ncall glob {"pattern":"*"}\n---\nsay found', "agentType": "explore"})
    async with native_hub(tmp_path, settings=settings) as hub:
        facts = await hub.turn(await hub.session(), script("\n".join([f"call spawnAgent {task.decode()}"] * 5)))
    ended = of(facts, ToolEnded)
    assert [end.status for end in ended] == ["ok"] * 10
    assert [end.output for end in ended if end.tool == "spawnAgent"] == ["found"] * 5


async def test_a_search_that_is_disabled_is_not_the_providers_either(tmp_path: Path) -> None:
    model = Recording()
    model.searches = True
    task = 'call spawnAgent {"task":"look it up","agentType":"research"}'
    async with native_hub(tmp_path, provider=model) as hub:
        await hub.turn(await hub.session(), script(task))
        assert [request.web_search for request in model.requests] == [True] * 3
        model.requests.clear()
        await hub.turn(await hub.session(disabled_tools=["webSearch"]), script(task))
        assert [request.web_search for request in model.requests] == [False] * 3
    assert not any(tool.name == "webSearch" for request in model.requests for tool in request.tools)


class TwoWords(Scripted):
    """Says two words that come together, and looks at what of it is shown in between."""

    def __init__(self) -> None:
        super().__init__()
        self.session: Session | None = None
        self.shown: list[list[str]] = []

    def _look(self) -> None:
        assert self.session is not None
        facts = [event.fact for event in self.session.recent(0) or ()]
        self.shown.append([fact.text for fact in of(facts, PartDelta)])

    async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        yield PartOpened("a", "text")
        for word in ("first", "second"):
            yield PartGrew("a", word)
            self._look()
        yield PartClosed("a")
        yield Finished("stop", "")


async def test_the_first_word_is_shown_before_what_came_with_it_is_taken(tmp_path: Path) -> None:
    model = TwoWords()
    async with native_hub(tmp_path, provider=model) as hub:
        model.session = await hub.session()
        facts = await hub.turn(model.session, "go")
    assert model.shown == [["first"], ["first"]]
    assert [fact.text for fact in of(facts, MessageAdded)] == ["firstsecond"]


class Halves(Scripted):
    """Gives half characters wherever a model can put one, and then says that it is done."""

    async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        if len(request.messages) == 1:
            for event in (
                *(
                    PartOpened("a\ud800", "text"),
                    PartGrew("a\ud800", "say \ud83d"),
                    PartClosed("a\ud800", {"\udc00": [1]}),
                ),
                *(RawReceived({"\ud800": "\udfff"}), PartOpened("c\udfff", "text"), PartGrew("c\udfff", "ascii")),
                PartClosed("c\udfff"),
                *(PartOpened("b", "tool_input", "r\ud800"), PartGrew("b", "{}"), PartClosed("b")),
                CallMade("b", "r\ud800", '{"x":"\ud83d\ude00"}'),
                Finished("tool_calls", "\ud800", {"id": "\ud800"}),
            ):
                yield event
        else:
            yield Finished("stop", "")


async def test_half_characters_of_a_model_are_no_failure(tmp_path: Path) -> None:
    async with native_hub(tmp_path, provider=Halves()) as hub:
        facts = await hub.turn(await hub.session(raw_parts=True), "go")
    assert outcome(facts) == "completed"
    said = ["say \N{REPLACEMENT CHARACTER}", "ascii"]
    assert [fact.text for fact in of(facts, MessageAdded)] == said
    assert [fact.raw for fact in of(facts, RawPart)] == [{"\N{REPLACEMENT CHARACTER}": "\N{REPLACEMENT CHARACTER}"}]
    assert of(facts, ToolCalled)[0].input == {"x": "\N{GRINNING FACE}"}
    assert of(facts, ToolEnded)[0].problem.code == "no_such_tool"


@pytest.mark.parametrize(
    "settings",
    [
        *({"mode": "root"}, {"mode": 1}, {"mode": ["all"]}, {"provider": 1}, {"model": {}}, {"instructions": []}),
        *({"disabled_tools": "bash"}, {"disabled_tools": [1]}, {"output_directory": True}),
    ],
)
async def test_settings_that_mean_nothing_are_refused(hub: NativeHub, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(settings))):
        await hub.session(**settings)
    session = await hub.session(mode="plan")
    with pytest.raises(InvalidRequest, match=next(iter(settings))):
        await session.change_settings(LOCAL, settings)
    assert session.shown.settings == {"mode": "plan"}
    await session.change_settings(LOCAL, {"mode": None})
    assert session.shown.settings == {}


async def test_a_script_ends_with_its_turn(hub: NativeHub) -> None:
    session = await hub.session()
    await hub.turn(session, script("say one", "fail failed no", "say never"))
    await hub.turn(session, script('call glob {"pattern": "*"}', "fail failed no", "say never"))
    facts = await hub.turn(session, "hello")
    assert "hello" in of(facts, TurnEnded)[0].result
    assert "never" not in of(facts, TurnEnded)[0].result


@pytest.mark.parametrize("key", ["model", "provider"])
async def test_the_name_of_a_model_is_a_name(hub: NativeHub, key: str) -> None:
    """Every piece of an answer carries it."""
    session = await hub.session()
    await session.change_settings(LOCAL, {key: "x" * 1000})
    with pytest.raises(InvalidRequest, match="at most 1000 characters"):
        await session.change_settings(LOCAL, {key: "x" * 1001})

"""Turns that Claude Code runs, as its stand-in plays it: what the log says of them, and who is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.rejections import EXPLAIN, HARD, SOFT, WHAT_NEXT
from dragoman.agents.native.settings import NativeSettings, TurnLimits
from dragoman.hub.events import (
    Answer,
    AnyFact,
    DecisionOpened,
    DecisionResolved,
    LogWritten,
    MessageAdded,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptTaken,
    SettingsChanged,
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
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from tests.agents.native.native_rig import answered, asked, of, outcome, settled
from tests.hub.rig import until

from .claude_rig import KEY, OTHER_SECRET, ClaudeHub, claude_hub

CLAUDE: dict[str, Any] = {"provider": "claude-code"}


def kinds(facts: list[AnyFact]) -> list[str]:
    return [type(fact).__name__ for fact in facts]


def problem(facts: list[AnyFact]) -> str:
    ended = of(facts, TurnEnded)[-1]
    assert ended.outcome == "failed"
    return str(ended.problem.message)


async def facts_of(hub: ClaudeHub, session: Session) -> list[AnyFact]:
    return await hub.facts(session)


# What it says


async def test_a_text_turn_is_told_in_the_order_of_a_native_one(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE, model="opus"), "think hm\ntext Hello there")
    assert kinds(facts) == [
        "TurnStarted",
        "ContextReported",
        "StepStarted",
        *("PartStarted", "PartDelta", "PartEnded", "MessageAdded"),
        *("PartStarted", "PartDelta", "PartDelta", "PartEnded", "MessageAdded"),
        "UsageReported",
        "StepEnded",
        "TurnEnded",
    ]
    assert [(fact.role, fact.text) for fact in of(facts, MessageAdded)] == [
        ("reasoning", "hm"),
        ("assistant", "Hello there"),
    ]
    assert "".join(fact.text for fact in of(facts, PartDelta)) == "hmHello there"
    started, ended = of(facts, StepStarted)[0], of(facts, StepEnded)[0]
    assert (started.step, started.provider, started.model) == (1, "claude-code", "claude-opus-fake")
    assert (ended.finish_reason, ended.raw_finish_reason) == ("stop", "end_turn")
    assert of(facts, TurnEnded)[0].result == "Hello there"


async def test_it_runs_no_session_that_says_which_tools_it_may_have(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE, enabled_tools=[]), "text Hello there")
    ended = of(facts, TurnEnded)[0]
    assert ended.outcome == "failed"
    assert ended.problem is not None
    assert "enabled_tools" in ended.problem.message
    assert not of(facts, StepStarted)


async def test_a_tool_turn_has_a_step_for_each_message_and_each_call_once(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE), "text I look.\nread a.txt\nbreaks Grep\ntext Done")
    calls, ends = of(facts, ToolCalled), of(facts, ToolEnded)
    assert [(call.tool, call.executor, call.input) for call in calls] == [
        ("Read", "agent", {"file_path": "a.txt"}),
        ("Grep", "agent", {}),
    ]
    assert [(end.tool, end.status, end.output) for end in ends] == [
        ("Read", "ok", "content of a.txt"),
        ("Grep", "error", "it broke"),
    ]
    assert ends[1].problem.message == "it broke"
    assert all(end.duration_ms is not None for end in ends)
    parts = [part for part in of(facts, PartStarted) if part.kind == "tool_input"]
    assert [part.part for part in parts] == [call.call for call in calls]
    assert [step.step for step in of(facts, StepStarted)] == [1, 2, 3]
    assert [step.finish_reason for step in of(facts, StepEnded)] == ["tool_calls", "tool_calls", "stop"]
    assert kinds(facts).index("ToolEnded") < kinds(facts).index("StepEnded")


async def test_tokens_are_counted_once_per_message_and_the_cost_once(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        first = await hub.turn(session, "text I look.\nread a.txt\ntext Done")
        second = await hub.turn(session, "text Again")
    usage = of(first, UsageReported)
    assert len({report.message for report in usage}) == len(usage) == 2
    # 100 in and 25 out for each message, as its result says in all
    assert (sum(report.input_tokens for report in usage), sum(report.output_tokens for report in usage)) == (200, 50)
    assert [(report.cached_tokens, report.step) for report in usage] == [(10, 1), (10, 2)]
    assert [report.cost_usd for report in usage] == [None, 0.002]
    # the program counts from the beginning of its conversation; we do not
    assert [report.cost_usd for report in of(second, UsageReported)] == [0.001]


async def test_its_task_list_is_the_sessions(tmp_path: Path) -> None:
    todos = [
        {"content": "Look", "status": "completed", "activeForm": "Looking"},
        {"content": "Think", "status": "in_progress"},
    ]
    async with claude_hub(tmp_path) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE), f"todos {json.dumps(todos)}\ntodos [1]\ntext ok")
    listed = of(facts, TodosChanged)
    assert [(todo.content, todo.status, todo.active_form) for todo in listed[0].todos] == [
        ("Look", "completed", "Looking"),
        ("Think", "in_progress", "Think"),
    ]
    assert listed[1].todos == ()


async def test_a_sub_agent_and_its_calls_are_told_of_but_not_its_words(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE), "task the docs\ntext Done")
    outer, inner = of(facts, ToolCalled)
    assert (outer.tool, inner.tool, inner.parent) == ("Task", "Read", outer.call)
    started, ended = of(facts, SubagentStarted)[0], of(facts, SubagentEnded)[0]
    assert (started.name, started.task, started.call) == ("explore", "the docs", outer.call)
    assert (ended.subagent, ended.status, ended.result) == (started.subagent, "completed", "found the docs")
    assert [message.text for message in of(facts, MessageAdded)] == ["Done"]
    aside = [report for report in of(facts, UsageReported) if report.estimated]
    assert [(report.input_tokens, report.conversation_tokens) for report in aside] == [(100, None)]


async def test_a_call_that_has_the_id_of_an_earlier_one_gets_another(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        facts = await hub.turn(session, "again call_0\nagain call_0\ntext ok")
        facts += await hub.turn(session, "again call_0\ntext ok")
    calls = [call.call for call in of(facts, ToolCalled)]
    assert len(set(calls)) == 3 == len(of(facts, ToolEnded))
    assert all(call.startswith("call_0") for call in calls)


async def test_a_retry_is_a_line_for_the_person_watching(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE), "retry\ntext ok")
    assert [line.line for line in of(facts, LogWritten)] == [
        "model call failed (overloaded, 529); the program tries again in 0.5 s"
    ]


# How it is started


async def test_it_runs_in_the_sessions_folder_with_its_own_set_up_and_none_of_our_keys(tmp_path: Path) -> None:
    ours = {"CLAUDE_CONFIG_DIR": "/x", "CLAUDECODE": "1", "ANTHROPIC_API_KEY": OTHER_SECRET, "AWS_PROFILE": "p"}
    async with claude_hub(tmp_path, key=KEY, environment=ours, pass_environment=("AWS_PROFILE",)) as hub:
        await hub.turn(await hub.session(**CLAUDE, instructions="Be brief."), "text ok")
        start = hub.starts()[0]
    assert start["cwd"] == str(tmp_path / "work")
    assert {"--append-system-prompt=Be brief.", "--setting-sources=user"} <= set(start["argv"])
    env = start["env"]
    assert (env["ANTHROPIC_API_KEY"], env["CLAUDE_CONFIG_DIR"], env["AWS_PROFILE"]) == (KEY, "/x", "p")
    assert "CLAUDECODE" not in env
    assert OTHER_SECRET not in str(env)


async def test_without_a_key_of_ours_it_signs_in_by_itself(tmp_path: Path) -> None:
    async with claude_hub(tmp_path, environment={"ANTHROPIC_API_KEY": OTHER_SECRET}) as hub:
        await hub.turn(await hub.session(**CLAUDE), "text ok")
        assert "ANTHROPIC_API_KEY" not in hub.starts()[0]["env"]


@pytest.mark.parametrize(
    ("mode", "word"), [("ask", "default"), ("accept_edits", "default"), ("plan", "plan"), ("all", "default")]
)
async def test_it_asks_in_every_mode_and_plans_in_one(tmp_path: Path, mode: str, word: str) -> None:
    async with claude_hub(tmp_path) as hub:
        await hub.turn(await hub.session(**CLAUDE, mode=mode), "text ok")
        assert f"--permission-mode={word}" in hub.starts()[0]["argv"]


async def test_a_program_that_is_not_there_fails_the_turn_with_its_path(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        (tmp_path / "claude").unlink()
        assert "there is no program" in problem(await hub.turn(session, "text ok"))


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_folders_own_settings_count_where_a_person_trusted_it(tmp_path: Path, trusted: bool) -> None:
    async with claude_hub(tmp_path) as hub:
        (tmp_path / "work" / "CLAUDE.md").write_text("Run this")
        state = {"projects": {str(tmp_path): {"hasTrustDialogAccepted": trusted}}}
        (hub.home / ".claude.json").write_text(json.dumps(state))
        session = await hub.session(**CLAUDE)
        facts = await hub.turn(session, "text ok")
        again = await hub.turn(session, "text ok")
        left_out = ["--setting-sources=user" in start["argv"] for start in hub.starts()]
    assert left_out == [not trusted] * 2
    assert [line.line[:26] for line in of(facts, LogWritten)] == ["this folder's own settings"] * (not trusted)
    assert not of(again, LogWritten)


@pytest.mark.parametrize("state", ["", "[]", '{"projects": 7}', '{"projects": {"/": {"hasTrustDialogAccepted": 1}}}'])
async def test_a_state_that_says_nothing_trusts_nobody(tmp_path: Path, state: str) -> None:
    async with claude_hub(tmp_path) as hub:
        (hub.home / ".claude.json").write_text(state)
        await hub.turn(await hub.session(**CLAUDE), "text ok")
        assert "--setting-sources=user" in hub.starts()[0]["argv"]


async def test_folders_may_be_trusted_by_a_setting(tmp_path: Path) -> None:
    async with claude_hub(tmp_path, trust_folders=True) as hub:
        await hub.turn(await hub.session(**CLAUDE), "text ok")
        assert "--setting-sources=user" not in hub.starts()[0]["argv"]


async def test_no_name_of_a_model_is_an_option(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        await hub.turn(await hub.session(**CLAUDE, model="--dangerously-skip-permissions"), "text ok")
        assert "--dangerously-skip-permissions" not in hub.starts()[0]["argv"]


# What it asks


async def test_a_command_is_asked_about_and_runs_when_permitted(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "bash ls\ntext Done")
        opened = await answered(session, 1)
        facts = await facts_of(hub, session)
    call = of(facts, ToolCalled)[0]
    assert (opened.kind, opened.text, opened.call, opened.dangerous) == ("permission", "ls", call.call, False)
    assert of(facts, ToolEnded)[0].status == "ok"
    assert outcome(facts) == "completed"


async def test_a_refused_command_is_denied_with_what_was_said(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "dangerous rm -rf x\ntext Done")
        opened = await asked(session)
        await session.answer(LOCAL, opened.decision, Answer(accept=False, text="keep it"), via="test")
        await settled(session)
        ended = of(await facts_of(hub, session), ToolEnded)[0]
    assert opened.dangerous
    assert ended.status == ended.problem.code == "denied"
    assert ended.problem.message == "User rejected this command. They said: keep it"


@pytest.mark.parametrize(("mode", "tells"), [(SOFT, "two to four other ways"), (EXPLAIN, "plain words")])
async def test_the_program_is_told_how_a_refusal_is_meant(tmp_path: Path, mode: str, tells: str) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "bash make\ntext Done")
        opened = await asked(session)
        said = Answer(accept=False, text="use yarn", values={"mode": mode})
        await session.answer(LOCAL, opened.decision, said, via="test")
        await settled(session)
        facts = await facts_of(hub, session)
    told = of(facts, ToolEnded)[0].problem.message
    assert "use yarn" in told
    assert tells in told
    assert of(facts, TurnEnded)[0].result == "Done"


async def test_a_hard_refusal_breaks_the_program_off_and_the_next_turn_works(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "bash make\nbash touch never\ntext Never said")
        opened = await asked(session)
        said = Answer(accept=False, text="use yarn", values={"mode": HARD})
        await session.answer(LOCAL, opened.decision, said, via="test")
        await settled(session)
        facts = await facts_of(hub, session)
        again = await hub.turn(session, "text Done")
    assert of(facts, ToolEnded)[0].status == "denied"
    assert "use yarn" in of(facts, ToolEnded)[0].problem.message
    assert "ok" not in [end.status for end in of(facts, ToolEnded)]
    assert len(of(facts, DecisionOpened)) == 1
    (end,) = of(facts, TurnEnded)
    assert (end.outcome, end.result) == ("completed", WHAT_NEXT)
    assert of(again, TurnEnded)[0].result == "Done"


async def test_a_permission_for_the_session_holds_for_the_next_turn(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "bash make\nfetch http://a.example/\ntext Done")
        await session.answer(LOCAL, (await asked(session)).decision, Answer(option=2), via="test")
        await until(lambda: of(list(session.shown.decisions.values()), DecisionOpened), "the next question")
        await answered(session, 2)
        again = await hub.turn(session, "bash make\nfetch http://b.example/\ntext Done")
    assert not of(again, DecisionOpened)
    assert [end.status for end in of(again, ToolEnded)] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("mode", "asked_about"),
    [
        ("all", []),
        ("accept_edits", ["ls", "Write .git/config", "Write /elsewhere"]),
        ("ask", ["Write a", "ls", "Write .git/config", "Write /elsewhere"]),
        ("plan", []),
    ],
)
async def test_who_is_asked_in_which_mode(tmp_path: Path, mode: str, asked_about: list[str]) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE, mode=mode)
        await hub.submit(session, "write a\nbash ls\nwrite .git/config\nwrite /elsewhere\ntext Done")
        for text in asked_about:
            opened = await until(
                lambda text=text: next((o for o in session.shown.decisions.values() if o.text == text), None), text
            )
            await session.answer(LOCAL, opened.decision, Answer(option=1), via="test")
        await settled(session)
        facts = await facts_of(hub, session)
    assert [opened.text for opened in of(facts, DecisionOpened)] == asked_about
    status = "denied" if mode == "plan" else "ok"
    assert [end.status for end in of(facts, ToolEnded)] == [status] * 4


async def test_a_mode_that_changes_while_it_works_counts_at_once(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "bash one\nbash two\ntext Done")
        opened = await asked(session)
        await session.change_settings(LOCAL, {"mode": "all"})
        await session.answer(LOCAL, opened.decision, Answer(option=1), via="test")
        await settled(session)
        assert len(of(await facts_of(hub, session), DecisionOpened)) == 1


async def test_plan_mode_that_begins_while_it_works_is_told_to_it(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "text First\nhear")
        await until(lambda: session.shown.status.last_message == "First", "its first words")
        await session.change_settings(LOCAL, {"mode": "plan"})
        await hub.submit(session, "write a\nmode", when_busy="steer")
        await settled(session)
        facts = await facts_of(hub, session)
    assert [end.status for end in of(facts, ToolEnded)] == ["denied"]
    assert of(facts, TurnEnded)[0].result == "plan"


async def test_its_questions_are_one_decision_and_answered_by_their_text(tmp_path: Path) -> None:
    options = [{"label": "Redis"}, {"label": "None"}]
    questions = [
        {"question": "Which cache?", "options": options},
        {"question": "Which days?", "options": [{"label": "Mon"}, {"label": "Tue"}], "multiSelect": True},
    ]
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, f"ask {json.dumps(questions)}\ntext Done")
        opened = await asked(session)
        assert (opened.kind, opened.text, len(opened.questions)) == ("question", "Which cache?", 2)
        said = (Answer(option=2), Answer(choices=("Mon", "Tue")))
        await session.answer(LOCAL, opened.decision, Answer(answers=said), via="test")
        await settled(session)
        ended = of(await facts_of(hub, session), ToolEnded)[0]
    assert json.loads(ended.output) == {"Which cache?": "None", "Which days?": "Mon, Tue"}


async def test_one_question_is_answered_like_one_of_ours(tmp_path: Path) -> None:
    question = [{"question": "Go on?", "options": [{"label": "Yes"}, {"label": "No"}]}]
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, f"ask {json.dumps(question)}\ntext Done")
        opened = await asked(session)
        assert opened.questions == ()
        await session.answer(LOCAL, opened.decision, Answer(text="later"), via="test")
        await settled(session)
        assert json.loads(of(await facts_of(hub, session), ToolEnded)[0].output) == {"Go on?": "later"}


async def test_an_accepted_plan_takes_the_session_out_of_plan_mode(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE, mode="plan")
        await hub.submit(session, "plan First this\nwrite a\ntext Done")
        opened = await answered(session, 2)
        facts = await facts_of(hub, session)
    assert (opened.kind, opened.text) == ("plan", "First this")
    assert [fact.changes for fact in of(facts, SettingsChanged)] == [{"mode": "accept_edits"}]
    assert [end.status for end in of(facts, ToolEnded)] == ["ok", "ok"]


async def test_what_it_no_longer_wants_to_know_is_withdrawn(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "withdraw ls")
        await asked(session)
        await hub.submit(session, "text Done", when_busy="steer")
        await settled(session)
        facts = await facts_of(hub, session)
    resolved = of(facts, DecisionResolved)[0]
    assert (resolved.outcome, resolved.reason) == ("cancelled", "withdrawn")
    assert outcome(facts) == "completed"


# What is said to it


@pytest.mark.parametrize("old", [False, True])
async def test_what_is_said_meanwhile_reaches_it_and_is_answered_in_the_same_turn(tmp_path: Path, old: bool) -> None:
    environment = {"CLAUDE_FAKE_OLD": "1"} if old else {}
    async with claude_hub(tmp_path, environment=environment) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "text First\nhear")
        await until(lambda: session.shown.status.last_message == "First", "its first words")
        await hub.submit(session, "text Second", when_busy="steer")
        await settled(session)
        facts = await facts_of(hub, session)
    assert [message.text for message in of(facts, MessageAdded)] == ["First", "Second"]
    assert len(of(facts, PromptTaken)) == len(of(facts, TurnEnded)) == 1
    assert len(hub.starts()) == 1
    names = kinds(facts)
    assert names.index("PromptTaken") < len(names) - 1 - names[::-1].index("StepStarted")


async def test_it_goes_on_with_its_own_conversation(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.turn(session, "text One")
        facts = await hub.turn(session, "recall")
        first, second = hub.starts()
    session_id = of(facts, StepEnded)[0].provider_metadata["agent_session"]
    assert not any(word.startswith("--resume") for word in first["argv"])
    assert f"--resume={session_id}" in second["argv"]
    assert json.loads(of(facts, MessageAdded)[0].text) == ["text One", "recall"]


async def test_lines_that_are_none_are_left_out_and_counted(tmp_path: Path) -> None:
    async with claude_hub(tmp_path, line_bytes=10_000) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE), "rubbish\nlong 300000\nlong 9000\ntext ok")
    assert outcome(facts) == "completed"
    assert [line.line for line in of(facts, LogWritten)] == [
        "lines of the program that were no JSON, and are left out: 5",
        "lines of the program that were too long, and are left out: 1",
    ]


async def test_records_of_another_shape_do_no_harm(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        assert outcome(await hub.turn(session, "odd\ntext ok")) == "completed"
        assert outcome(await hub.turn(session, "text Before\nodd\ntext ok")) == "completed"


async def test_a_message_that_did_not_stream_is_told_like_one_that_did(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE), "unstreamed All at once")
    assert [message.text for message in of(facts, MessageAdded)] == ["All at once"]
    assert [delta.text for delta in of(facts, PartDelta)] == ["All at once"]
    assert len(of(facts, PartStarted)) == len(of(facts, PartEnded)) == len(of(facts, StepEnded)) == 1


async def test_a_tool_that_its_provider_runs_is_told_as_such(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE), "search cats\ntext Found")
    called, ended = of(facts, ToolCalled)[0], of(facts, ToolEnded)[0]
    assert (called.tool, called.executor, called.input) == ("web_search", "provider", {"query": "cats"})
    assert (ended.call, ended.status, ended.output[0]["title"]) == (called.call, "ok", "cats")


async def test_what_a_tool_gave_is_bounded(tmp_path: Path) -> None:
    async with claude_hub(tmp_path, result_chars=100) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE), f"read {'a' * 500}\ntext ok")
    assert of(facts, ToolEnded)[0].output.endswith("[411 more characters are left out]")


@pytest.mark.parametrize(
    ("limits", "told"),
    [(TurnLimits(answer_chars=100), "100 characters"), (TurnLimits(answer_parts=2), "2 parts")],
)
async def test_an_answer_without_end_fails_the_turn(tmp_path: Path, limits: TurnLimits, told: str) -> None:
    async with claude_hub(tmp_path, settings=NativeSettings(turn=limits)) as hub:
        session = await hub.session(**CLAUDE)
        facts = await hub.turn(session, "\n".join(f"text {'a' * 40}" for _ in range(3)))
        assert problem(facts) == f"the model's answer is over its limit of {told}"
        assert await hub.living(session.id) == []
    assert len(of(facts, PartStarted)) == len(of(facts, PartEnded))


async def test_every_part_that_was_opened_is_closed(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE), "begin half a\nfail It is over")
    assert len(of(facts, PartStarted)) == len(of(facts, PartEnded)) == 1
    said = of(facts, MessageAdded)[0]
    assert (said.text, said.kind) == ("half a", "partial")

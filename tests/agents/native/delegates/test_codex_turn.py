"""Turns that Codex runs: what it says and does becomes facts in a native turn's order, its tokens are counted once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.events import (
    LogWritten,
    MessageAdded,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptTaken,
    StepEnded,
    StepStarted,
    SubagentEnded,
    SubagentStarted,
    TodosChanged,
    ToolCalled,
    ToolEnded,
    ToolProgressed,
    TurnEnded,
    UsageReported,
)
from tests.agents.native.native_rig import asked, of, outcome, settled
from tests.hub.rig import until

from .codex_rig import Script, codex_hub


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path / "codex")


def names(facts: list[Any]) -> list[str]:
    return [type(fact).__name__ for fact in facts]


async def test_a_text_is_a_step_of_one_part_and_one_message(tmp_path: Path, script: Script) -> None:
    script.does([{"say": "Hello from Codex."}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        facts = await hub.turn(session, "hi")
    assert names(facts) == [
        "TurnStarted",
        "StepStarted",
        "PartStarted",
        *["PartDelta"] * 3,
        "PartEnded",
        "MessageAdded",
        "UsageReported",
        "StepEnded",
        "TurnEnded",
    ]
    assert "".join(delta.text for delta in of(facts, PartDelta)) == "Hello from Codex."
    [message] = of(facts, MessageAdded)
    assert (message.role, message.text) == ("assistant", "Hello from Codex.")
    [step] = of(facts, StepStarted)
    assert (step.step, step.provider, step.model) == (1, "codex-cli", "gpt-test")
    assert of(facts, TurnEnded)[0].result == "Hello from Codex."
    assert hub.reports[0].step == 1


async def test_what_was_said_is_handed_over_with_model_folder_and_instructions(tmp_path: Path, script: Script) -> None:
    async with codex_hub(tmp_path, script, instructions="Be brief.") as hub:
        await hub.turn(await hub.session(), "do it")
    [thread] = script.heard("thread/start")
    assert thread["cwd"] == str(tmp_path)
    assert (thread["model"], thread["developerInstructions"]) == ("gpt-test", "Be brief.")
    [turn] = script.heard("turn/start")
    assert turn["input"] == [{"type": "text", "text": "do it"}]


async def test_its_own_conversation_is_told_and_gone_on_with(tmp_path: Path, script: Script) -> None:
    async with codex_hub(tmp_path, script) as hub:
        facts = await hub.turn(await hub.session(), "one")
    assert of(facts, StepEnded)[-1].provider_metadata == {"agent_session": "thread-1"}
    script.does([{"say": "Again."}])
    async with codex_hub(tmp_path, script, agent_session="thread-1") as hub:
        facts = await hub.turn(await hub.session(), "two")
    assert script.heard("thread/resume")[0]["threadId"] == "thread-1"
    # What the earlier turns used comes again with it, and was counted then.
    [usage] = of(facts, UsageReported)
    assert usage.input_tokens == 100


async def test_a_conversation_that_it_lost_is_reported_before_anything_is_recorded(
    tmp_path: Path, script: Script
) -> None:
    script.does(at={"thread/resume": "no rollout found"})
    async with codex_hub(tmp_path, script, agent_session="gone") as hub:
        facts = await hub.turn(await hub.session(), "two")
    assert names(facts) == ["TurnStarted", "TurnEnded"]
    problem = of(facts, TurnEnded)[0].problem
    assert (problem.code, problem.message) == ("lost", "no rollout found")


async def test_a_command_is_a_call_of_the_agents_own(tmp_path: Path, script: Script) -> None:
    script.does([{"run": {"command": "echo hi", "output": "hi\n"}}, {"say": "Done."}])
    async with codex_hub(tmp_path, script) as hub:
        facts = await hub.turn(await hub.session(), "run it")
    [called], [ended] = of(facts, ToolCalled), of(facts, ToolEnded)
    assert (called.tool, called.executor, called.input["command"]) == ("exec_command", "agent", "echo hi")
    assert (ended.call, ended.status) == (called.call, "ok")
    assert ended.output == {"stdout": "hi\n", "stderr": "", "exitCode": 0}
    assert [step.finish_reason for step in of(facts, StepEnded)] == ["tool_calls", "stop"]
    order = [name for name in names(facts) if not name.startswith("Part")]
    assert order == [
        "TurnStarted",
        *("StepStarted", "ToolCalled", "ToolEnded", "UsageReported", "StepEnded"),
        *("StepStarted", "MessageAdded", "UsageReported", "StepEnded"),
        "TurnEnded",
    ]


async def test_a_command_that_fails_says_its_exit_code(tmp_path: Path, script: Script) -> None:
    script.does([{"run": {"command": "false", "exit": 7, "output": "no"}}])
    async with codex_hub(tmp_path, script) as hub:
        [ended] = of(await hub.turn(await hub.session(), "run it"), ToolEnded)
    assert (ended.status, ended.problem.message, ended.output["exitCode"]) == ("error", "exit code 7", 7)


async def test_a_call_that_was_not_announced_is_one_all_the_same(tmp_path: Path, script: Script) -> None:
    script.does([{"run": {"command": "true", "unannounced": True}}])
    async with codex_hub(tmp_path, script) as hub:
        facts = await hub.turn(await hub.session(), "run it")
    assert len(of(facts, ToolCalled)) == len(of(facts, ToolEnded)) == 1


async def test_long_output_is_bounded_and_shown_while_it_grows(tmp_path: Path, script: Script) -> None:
    pieces = ["x" * 20_000] * 5
    script.does([{"run": {"command": "yes", "pieces": pieces, "output": "".join(pieces)}}])
    async with codex_hub(tmp_path, script) as hub:
        facts = await hub.turn(await hub.session(), "run it")
    [ended] = of(facts, ToolEnded)
    assert len(ended.output["stdout"]) <= 30_000
    assert "characters left out" in ended.output["stdout"]
    assert all(len(shown.output["stdout"]) < 5_000 for shown in of(facts, ToolProgressed))


async def test_thoughts_are_parts_and_messages_of_their_own(tmp_path: Path, script: Script) -> None:
    script.does([{"think": ["First.", "Then."]}, {"say": "So."}])
    async with codex_hub(tmp_path, script) as hub:
        facts = await hub.turn(await hub.session(), "think")
    thought, said = of(facts, MessageAdded)
    assert (thought.role, thought.text) == ("reasoning", "First.\n\nThen.")
    assert said.text == "So."
    reasoning = [delta.text for delta in of(facts, PartDelta) if delta.kind == "reasoning"]
    assert "".join(reasoning) == "First.\n\nThen."  # and not the raw thought, which comes beside it
    assert [part.kind for part in of(facts, PartStarted)] == ["reasoning", "text"]
    assert len(of(facts, PartEnded)) == 2


async def test_a_blank_text_is_no_message(tmp_path: Path, script: Script) -> None:
    script.does([{"say": "  "}])
    async with codex_hub(tmp_path, script) as hub:
        assert of(await hub.turn(await hub.session(), "hm"), MessageAdded) == []


async def test_its_plan_becomes_the_task_list(tmp_path: Path, script: Script) -> None:
    plan = [{"step": "Look", "status": "completed"}, {"step": "Write", "status": "inProgress"}, {"step": "Test"}]
    script.does([{"todo": plan}])
    async with codex_hub(tmp_path, script) as hub:
        [changed] = of(await hub.turn(await hub.session(), "plan"), TodosChanged)
    assert [(todo.content, todo.status) for todo in changed.todos] == [
        ("Look", "completed"),
        ("Write", "in_progress"),
        ("Test", "pending"),
    ]


async def test_tokens_are_counted_once(tmp_path: Path, script: Script) -> None:
    script.does([{"run": {"command": "a"}}, {"run": {"command": "b"}}, {"say": "Done."}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        facts = await hub.turn(session, "count")
    reports = of(facts, UsageReported)
    assert [report.step for report in reports] == [1, 2, 3]
    assert len({report.message for report in reports}) == 3
    assert sum(report.input_tokens for report in reports) == 300
    assert {(report.cached_tokens, report.output_tokens, report.reasoning_tokens) for report in reports} == {
        (40, 25, 5)
    }


async def test_what_its_sub_agents_do_is_counted_and_not_shown(tmp_path: Path, script: Script) -> None:
    spawn = {"type": "collabAgentToolCall", "id": "c1", "tool": "spawnAgent", "prompt": "look", "status": "completed"}
    spawn["receiverThreadIds"] = ["other"]
    usage = {"last": {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}, "total": {"totalTokens": 10}}
    script.does(
        [
            {"tell": {"method": "item/completed", "params": {"item": spawn}}},
            {
                "tell": {
                    "method": "item/agentMessage/delta",
                    "params": {"threadId": "other", "itemId": "x", "delta": "y"},
                }
            },
            {"tell": {"method": "thread/tokenUsage/updated", "params": {"threadId": "other", "tokenUsage": usage}}},
            {"tell": {"method": "turn/completed", "params": {"threadId": "other", "turn": {"status": "completed"}}}},
            {"say": "Done."},
        ]
    )
    async with codex_hub(tmp_path, script) as hub:
        facts = await hub.turn(await hub.session(), "delegate")
    [started], [ended] = of(facts, SubagentStarted), of(facts, SubagentEnded)
    assert (started.task, ended.subagent, ended.status) == ("look", started.subagent, "completed")
    assert sorted(report.input_tokens for report in of(facts, UsageReported)) == [7, 100]
    assert [message.text for message in of(facts, MessageAdded)] == ["Done."]


async def test_other_tools_have_their_names_and_results(tmp_path: Path, script: Script) -> None:
    mcp = {"type": "mcpToolCall", "id": "m1", "server": "docs", "tool": "find", "arguments": {"q": "x"}}
    mcp |= {"status": "failed", "error": {"message": "no such page"}}
    web = {"type": "webSearch", "id": "w1", "query": "python", "results": [{"url": "https://python.org"}]}
    script.does([{"tell": {"method": "item/completed", "params": {"item": item}}} for item in (mcp, web)])
    async with codex_hub(tmp_path, script) as hub:
        facts = await hub.turn(await hub.session(), "search")
    found, searched = of(facts, ToolCalled)
    assert (found.tool, found.dynamic, found.input) == ("mcp__docs__find", True, {"q": "x"})
    assert (searched.tool, searched.input) == ("web_search", {"query": "python"})
    failed, gave = of(facts, ToolEnded)
    assert (failed.status, failed.problem.message) == ("error", "no such page")
    assert (gave.status, gave.output) == ("ok", [{"url": "https://python.org"}])


async def test_warnings_and_retries_are_lines_for_the_person(tmp_path: Path, script: Script) -> None:
    warning = {"tell": {"method": "warning", "params": {"message": "no such model"}}}
    retry = {"tell": {"method": "error", "params": {"error": {"message": "Reconnecting 1/5"}, "willRetry": True}}}
    script.does([warning, retry, {"say": "Done."}])
    async with codex_hub(tmp_path, script) as hub:
        facts = await hub.turn(await hub.session(), "hi")
    assert [line.line for line in of(facts, LogWritten)] == ["no such model", "Reconnecting 1/5"]
    assert outcome(facts) == "completed"


# Steering


async def test_a_prompt_that_comes_in_is_handed_to_the_running_turn(tmp_path: Path, script: Script) -> None:
    script.does([{"begin": "I"}, {"wait": "turn/steer"}, {"say": "As you wish."}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        await until(lambda: script.heard("turn/start"))
        await hub.submit(session, "rather left", when_busy="steer")
        await settled(session)
        facts = await hub.facts(session)
    [steered] = script.heard("turn/steer")
    assert (steered["input"][0]["text"], steered["expectedTurnId"]) == ("rather left", "turn-1")
    assert len(of(facts, PromptTaken)) == 1
    assert len(script.heard("turn/start")) == 1


async def test_a_prompt_that_the_turn_does_not_take_gets_a_turn_of_codex_own(tmp_path: Path, script: Script) -> None:
    script.does([{"wait": "turn/steer"}, {"say": "One."}], [{"say": "Two."}], steer_refused=True)
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        await until(lambda: script.heard("turn/start"))
        await hub.submit(session, "rather left", when_busy="steer")
        await settled(session)
        facts = await hub.facts(session)
    first, second = script.heard("turn/start")
    assert (first["input"][0]["text"], second["input"][0]["text"]) == ("go", "rather left")
    assert len(of(facts, TurnEnded)) == 1
    assert of(facts, TurnEnded)[0].result == "Two."
    assert [step.step for step in of(facts, StepStarted)] == [1, 2]


# Its plan mode


async def test_an_accepted_plan_is_carried_out_in_the_mode_that_was_chosen(tmp_path: Path, script: Script) -> None:
    script.does([{"plan": "# Plan\n1. x"}], [{"say": "Done."}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session(mode="plan")
        await hub.submit(session, "plan it")
        opened = await asked(session)
        assert (opened.kind, opened.text) == ("plan", "# Plan\n1. x")
        await hub.answer(session, opened, option=2)
        await settled(session)
        assert session.state.settings["mode"] == "accept_edits"
    planning, doing = script.heard("turn/start")
    assert planning["collaborationMode"]["mode"] == "plan"
    assert doing["collaborationMode"]["mode"] == "default"
    assert doing["input"][0]["text"] == "The plan is accepted. Implement it."


async def test_a_plan_that_is_not_accepted_ends_the_turn_or_is_gone_on_with(tmp_path: Path, script: Script) -> None:
    script.does([{"plan": "# One"}], [{"plan": "# Two"}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session(mode="plan")
        await hub.submit(session, "plan it")
        await hub.answer(session, await asked(session), accept=False, text="shorter")
        opened = await until(lambda: next((d for d in session.shown.decisions.values() if d.text == "# Two"), None))
        await hub.answer(session, opened, option=3)
        await settled(session)
        assert session.state.settings["mode"] == "plan"
    assert [turn["input"][0]["text"] for turn in script.heard("turn/start")] == ["plan it", "shorter"]

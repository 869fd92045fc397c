"""What the recorded session logs of the real programs say."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents.common.ledger import Ledger
from dragoman.agents.common.logs import read_claude_line, read_codex_line, read_gemini_line
from dragoman.hub.events import (
    Compacted,
    HookAnswered,
    LogWritten,
    MessageAdded,
    ToolCalled,
    ToolEnded,
    UsageReported,
)

from .recorded import DATA, LOGS, READERS, causes, lines, log
from .test_hooks import json_values

FINAL = {
    ("claude", "deny"): "log:idle",
    ("claude", "error"): "log:error",
    ("claude", "plan-rejected"): "log:idle",
    ("codex", "error"): "log:error",
    ("gemini", "error"): "log:error",
    ("gemini", "permission"): "log:idle",
    ("gemini", "plan"): None,
    ("qwen", "text"): "log:error",
}


@pytest.mark.parametrize(("agent", "name"), LOGS)
def test_no_log_ends_in_work(agent: str, name: str) -> None:
    """Records after the end of a turn must not look like work."""
    found = causes(log(agent, name))
    assert (found[-1] if found else None) == FINAL.get((agent, name), "log:idle")


@pytest.mark.parametrize(("agent", "name"), LOGS)
def test_every_call_has_one_begin_and_one_end(agent: str, name: str) -> None:
    ledger = Ledger()
    facts = [fact for observation in log(agent, name) for fact in ledger.admit(observation.facts)]
    begun = [fact.call for fact in facts if isinstance(fact, ToolCalled)]
    ended = [fact.call for fact in facts if isinstance(fact, ToolEnded)]
    assert begun == list(dict.fromkeys(begun))
    assert sorted(begun) == sorted(ended)
    assert all(fact.tool not in ("", "unknown") for fact in facts if isinstance(fact, ToolEnded))


def test_claude_permitted_then_denied() -> None:
    observations = log("claude", "permission")
    assert causes(observations)[:9] == [
        "log:working",
        "log:tool(Bash)",
        "log:working",
        "log:idle",
        "log:working",
        "log:tool(Bash)",
        "log:idle",
        "log:working",
        "log:tool(Write)",
    ]
    ended = [fact for seen in observations for fact in seen.facts if isinstance(fact, ToolEnded)]
    assert [fact.status for fact in ended] == ["ok", "denied", "ok"]
    assert ended[0].output["stdout"] == ""
    assert sum(seen.interrupted for seen in observations) == 2  # the rejection, and the words about it


def test_claude_goes_on_with_the_words_that_came_with_a_rejection() -> None:
    observations = log("claude", "plan-rejected")
    ends = [seen for seen in observations if any(isinstance(fact, ToolEnded) for fact in seen.facts)]
    plans = [seen for seen in ends if seen.facts[0].status == "denied"]
    assert [(seen.interrupted, seen.sighting.state) for seen in plans] == [(False, "working"), (True, "idle")]


def test_claude_broken_off_while_it_spoke() -> None:
    observations = log("claude", "text")
    at = next(index for index, seen in enumerate(observations) if seen.interrupted)
    assert observations[at].sighting.cause == "log:idle"
    assert observations[at].prompt is None


def test_claude_asks() -> None:
    asked = [seen.sighting for seen in log("claude", "question") if seen.sighting and seen.sighting.state == "prompt"]
    assert [len(sighting.dialog.questions) for sighting in asked] == [1, 2]
    assert asked[0].cause == "log:tool(AskUserQuestion)"
    plan = next(seen.sighting.dialog for seen in log("claude", "plan") if seen.sighting and seen.sighting.dialog)
    assert (plan.kind, plan.text[:6], plan.tool) == ("plan", "# Plan", "ExitPlanMode")
    assert plan.call is not None


def test_claude_error() -> None:
    sighting = log("claude", "error")[-1].sighting or causes(log("claude", "error"))
    errors = [seen.sighting.error for seen in log("claude", "error") if seen.sighting and seen.sighting.error]
    assert errors == ["API Error: 400 scripted failure"], sighting


def claude(kind: str, content: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "uuid": "u1", "message": {"id": "m1", "content": content}} | more


@pytest.mark.parametrize(
    "record",
    [
        claude("user", "Caveat: the messages below…", isMeta=True),
        claude("user", "<command-name>/model</command-name>\n<command-message>model</command-message>"),
        claude("user", "<local-command-stdout>Set model</local-command-stdout>"),
        claude("user", "<bash-input>ls</bash-input>"),
        claude("user", [{"type": "text", "text": "<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>"}]),
        claude("user", "This session is being continued…", isCompactSummary=True),
        claude("system", subtype="stop_hook_summary"),
        claude("system", subtype="turn_duration"),
        claude("progress", data={"type": "hook_progress"}),
        claude("attachment", attachment={}),
        claude("file-history-snapshot", snapshot={}),
        claude("mode", mode="normal"),
        claude("last-prompt", lastPrompt="x"),
        claude("cost-state", totalCostUSD=1),
        claude("user", "run it", isSidechain=True),
        claude("assistant", [{"type": "text", "text": "done"}], isSidechain=True),
        claude("user", [{"type": "tool_result", "tool_use_id": "t", "content": "x"}], isSidechain=True),
    ],
)
def test_claude_records_that_say_nothing_of_the_main_turn(record: dict[str, Any]) -> None:
    observation = read_claude_line(record)
    assert observation.sighting is None
    assert observation.prompt is None
    assert not observation.interrupted
    assert not any(isinstance(fact, MessageAdded) for fact in observation.facts)


def test_claude_tools_of_a_subagent_are_marked() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
    called = read_claude_line(claude("assistant", [block], isSidechain=True, agentId="a1")).facts[0]
    assert called.origin.subagent == "a1"


def test_claude_thinks() -> None:
    seen = read_claude_line(claude("assistant", [{"type": "thinking", "thinking": "Hm."}]))
    assert seen.sighting.cause == "log:thinking"
    assert seen.facts[0].role == "reasoning"


def test_claude_text_whose_message_is_not_over_yet_says_nothing() -> None:
    assert read_claude_line(claude("assistant", [{"type": "text", "text": "I will"}])).sighting is None


def test_claude_usage_counts_what_was_read_from_the_cache() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 10, "output_tokens": 7}
    record = claude("assistant", [])
    record["message"]["usage"] = usage
    reported = read_claude_line(record).facts[0]
    assert isinstance(reported, UsageReported)
    assert (reported.message, reported.input_tokens, reported.cached_tokens) == ("m1", 105, 90)
    assert (reported.output_tokens, reported.conversation_tokens, reported.cache_write_tokens) == (7, 112, 10)


def test_claude_compacted() -> None:
    record = claude("system", subtype="compact_boundary", compactMetadata={"trigger": "manual", "preTokens": 900})
    observation = read_claude_line(record)
    assert observation.compacted
    done = observation.facts[0]
    assert isinstance(done, Compacted)
    assert (done.phase, done.reason, done.tokens_before) == ("done", "manual", 900)


# Codex


def test_codex_stands_in_for_its_hooks() -> None:
    observations = log("codex", "text")
    answered = [fact for seen in observations for fact in seen.facts if isinstance(fact, HookAnswered)]
    assert [fact.hook for fact in answered] == ["start", "stop", "stop"]  # the turn that was broken off has no stop
    assert observations[0].agent_session == answered[0].agent_session is not None
    assert [seen.prompt for seen in observations if seen.prompt] == [
        "[[say:The quick answer.]]",
        "[[slow]]",
        "[[say:After the interruption.]]",
    ]
    assert [seen.interrupted for seen in observations if seen.interrupted] == [True]


def test_codex_error() -> None:
    sighting = log("codex", "error")[-1].sighting
    assert sighting.error.startswith("internal_server_error: We")


def test_codex_asks() -> None:
    asked = [seen.sighting for seen in log("codex", "question") if seen.sighting and seen.sighting.state == "prompt"]
    assert [[q.question for q in sighting.dialog.questions] for sighting in asked] == [
        ["Proceed how?"],
        ["Which database should we use?", "Which cache?"],
    ]


def codex(kind: str, type_: str = "event_msg", **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-11-28T04:48:16.573Z", "type": type_, "payload": {"type": kind} | payload}


def test_codex_older_versions() -> None:
    approval = read_codex_line(codex("exec_approval_request", call_id="c1", command=["rm", "x"], reason="why")).sighting
    assert (approval.cause, approval.dialog.text, approval.dialog.call) == ("log:prompt(permission)", "rm x", "c1")
    patch = read_codex_line(codex("apply_patch_approval_request", call_id="c2", changes={})).sighting
    assert patch.dialog.tool == "apply_patch"
    ended = read_codex_line(codex("exec_command_end", call_id="c1", exit_code=2, aggregated_output="no")).facts[0]
    assert (ended.status, ended.problem.message) == ("error", "exit code 2")
    said = read_codex_line(codex("user_message", message="hello"))
    assert said.prompt == "hello"
    assert read_codex_line(codex("user_message", message="<environment_context>…")).prompt is None
    retry = read_codex_line(codex("stream_error", message="again")).facts[0]
    assert isinstance(retry, LogWritten)
    assert read_codex_line(codex("turn_aborted", reason="replaced")).interrupted is False


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("Exit code: 3\nboom", "exit code 3"),
        ("Chunk ID: fd510b\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\nhi", "exit code 1"),
        ('{"output":"boom","metadata":{"exit_code":2,"duration_seconds":0.1}}', "exit code 2"),
        ("Exit code: 0\nWall time: 0 seconds\nOutput:\nExit code: 3", None),
        ("Wall time: 0.1 seconds\nOutput:\nExit code: 3\n", None),
        ('{"output":"Exit code: 3","metadata":{"exit_code":0}}', None),
        ('{"output":', None),
        ("[1]", None),
        ("hello", None),
    ],
)
def test_codex_commands_whose_end_only_the_model_was_told(output: str, problem: str | None) -> None:
    ended = read_codex_line(codex("function_call_output", "response_item", call_id="c", output=output)).facts[0]
    assert isinstance(ended, ToolEnded)
    assert (ended.status, ended.problem and ended.problem.message) == ("error" if problem else "ok", problem)


def test_codex_usage_of_older_versions_is_told_again_without_being_more() -> None:
    last = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    record = codex("token_count", info={"total_token_usage": {"total_tokens": 40}, "last_token_usage": last})
    ledger = Ledger()
    assert len(ledger.admit(read_codex_line(record).facts)) == 1
    assert ledger.admit(read_codex_line(record).facts) == []
    assert read_codex_line(record | {"ordinal": 3}).facts == ()


def test_codex_patch_is_given_as_it_is() -> None:
    call = codex("custom_tool_call", "response_item", call_id="c", name="apply_patch", input="*** Begin Patch")
    assert read_codex_line(call).facts[0].input == "*** Begin Patch"
    assert read_codex_line({"type": "compacted", "payload": {"message": ""}}).compacted


# Gemini and Qwen


def test_gemini_writes_its_conversation_again_after_a_cancel() -> None:
    ledger = Ledger()
    observations = log("gemini", "question")
    facts = [fact for seen in observations for fact in ledger.admit(seen.facts)]
    assert [fact.text for fact in facts if isinstance(fact, MessageAdded)] == ["The tool finished. All done."] * 2
    assert [seen.prompt for seen in observations if seen.prompt] == []
    assert [fact.status for fact in facts if isinstance(fact, ToolEnded)] == ["ok", "ok", "denied"]


def test_gemini_cancelled() -> None:
    assert read_gemini_line({"type": "info", "content": "Request cancelled."}).interrupted
    assert not read_gemini_line({"type": "info", "content": "This request failed."}).interrupted


def test_qwen_denied_and_failed() -> None:
    observations = log("qwen", "permission")
    assert observations[-1].interrupted
    assert [seen.sighting.error for seen in log("qwen", "text") if seen.sighting and seen.sighting.error] == [
        "400 scripted failure"
    ]


RECORDS = [
    (agent, record) for agent, name in LOGS for record in lines(DATA / agent / f"log-{name}.jsonl") if len(record) > 2
]


@settings(deadline=None)
@given(st.sampled_from(RECORDS), st.data())
def test_a_damaged_record_gives_what_can_be_read(which: tuple[str, dict[str, Any]], data: st.DataObject) -> None:
    agent, record = which
    damaged = copy.deepcopy(record)
    place: Any = damaged
    while True:
        inner = [key for key, value in place.items() if isinstance(value, dict) and value]
        if not inner or data.draw(st.booleans()):
            break
        place = place[data.draw(st.sampled_from(sorted(inner)))]
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(json_values)
    Ledger().admit(READERS[agent](damaged).facts)

"""What each fact of a turn becomes (docs/mapping.md, coworker; seed: partType contract)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from dragoman.dialects.coworker import parts
from dragoman.dialects.coworker.chunks import TurnChunks
from dragoman.dialects.coworker.messages import ModelStreamChunk, encode
from dragoman.hub.events import (
    AnyFact,
    CancelRequested,
    LogWritten,
    MessageAdded,
    Outcome,
    PartDelta,
    PartEnded,
    PartStarted,
    Problem,
    RawPart,
    SourceCited,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolEnded,
    UsageReported,
)

Shown = tuple[str, Any, Any]

STEP = StepStarted(turn="t", step=1, provider="openai", model="gpt-5.2")
GOOD = StepEnded(turn="t", step=1, finish_reason="stop", raw_finish_reason="completed")
START: Shown = ("start", {}, {"type": "start"})
DENIED = Problem(code="denied", message="Not this one.", source="permissions")


def chunks(provider: str = "openai") -> TurnChunks:
    return TurnChunks("s", "t", provider=provider, model="m")


def shown(made: Sequence[ModelStreamChunk]) -> list[Shown]:
    frames = [json.loads(encode(chunk)) for chunk in made]
    return [(frame["partType"], frame["part"], frame["rawPart"]) for frame in frames]


def said(*facts: AnyFact, provider: str = "openai") -> list[Shown]:
    """What comes of these facts within an open step that was answered."""
    turn = chunks(provider)
    turn.project(StepStarted(turn="t", step=1, provider=provider, model="m"))
    turn.project(RawPart(turn="t", raw=1))
    return shown([chunk for fact in facts for chunk in turn.project(fact)])


def types(made: Sequence[ModelStreamChunk]) -> list[str]:
    return [chunk.part_type for chunk in made]


def whole(*facts: AnyFact, outcome: Outcome = "completed", problem: Problem | None = None) -> list[str]:
    turn = chunks()
    made = [chunk for fact in facts for chunk in turn.project(fact)]
    return types([*made, *turn.end(outcome, problem)])


# The frame


def test_a_chunk_names_its_session_turn_place_provider_and_model() -> None:
    turn = chunks("google")
    (first,) = turn.project(STEP)
    assert json.loads(encode(first)) == {
        "type": "model_stream_chunk",
        "sessionId": "s",
        "turnId": "t",
        "index": 0,
        "provider": "openai",
        "model": "gpt-5.2",
        "partType": "start",
        "part": {},
        "rawPart": {"type": "start"},
    }


def test_places_count_from_0_without_a_gap() -> None:
    turn = chunks()
    facts: list[AnyFact] = [STEP, *(RawPart(turn="t", raw=n) for n in range(3)), GOOD]
    made = [chunk for fact in facts for chunk in turn.project(fact)] + turn.end("completed", None)
    assert [chunk.index for chunk in made] == list(range(7))


def test_facts_of_other_kinds_and_turns_are_nothing() -> None:
    others: list[AnyFact] = [STEP, GOOD, RawPart(turn="t", raw=1), ToolCalled(call="c", tool="x", turn="t")]
    turn = TurnChunks("s", "u", provider="p", model="m")
    assert [chunk for fact in others for chunk in turn.project(fact)] == []
    assert said(LogWritten(line="x", turn="t"), MessageAdded(message="m", role="assistant", text="x", turn="t")) == []


def test_nothing_comes_after_the_end() -> None:
    turn = chunks()
    turn.project(STEP)
    assert types(turn.end("cancelled", None)) == ["abort"]
    assert turn.end("cancelled", None) == []
    assert turn.project(RawPart(turn="t", raw=1)) == []


# Steps and ends


def test_a_step_is_shown_once_its_provider_answered() -> None:
    turn = chunks()
    assert shown(turn.project(STEP)) == [START]
    assert types(turn.project(RawPart(turn="t", raw={}))) == ["start_step", "raw"]
    assert types(turn.project(RawPart(turn="t", raw={}))) == ["raw"]


def test_a_step_that_said_nothing_and_ended_well_is_shown() -> None:
    assert whole(STEP, GOOD) == ["start", "start_step", "finish_step", "finish"]


def test_a_step_that_was_refused_is_only_an_error() -> None:
    problem = Problem(code="provider_unauthorized", message="No.", source="provider", detail={"status": 401})
    failed = StepEnded(turn="t", step=1, finish_reason="error", problem=problem)
    turn = chunks()
    facts: list[AnyFact] = [STEP, failed]
    made = [chunk for fact in facts for chunk in turn.project(fact)] + turn.end("failed", problem)
    wrong = {"error": {"name": "AI_APICallError", "message": "No.", "code": "provider_unauthorized"}}
    assert shown(made) == [START, ("error", wrong, {"type": "error", **wrong})]


def test_a_turn_that_failed_without_a_step_says_why() -> None:
    turn = chunks()
    made = turn.end("failed", Problem(code="internal", message="Broken."))
    assert types(made) == ["start", "error"]
    assert made[1].part == {"error": {"name": "Error", "message": "Broken.", "code": "internal"}}


def test_a_conversation_that_was_too_long_and_was_shortened_is_no_error() -> None:
    long = StepEnded(
        turn="t", step=1, finish_reason="error", problem=Problem(code="provider_too_long", message="Long.")
    )
    assert whole(STEP, long, STEP, GOOD) == ["start", "start_step", "finish_step", "finish"]
    assert whole(STEP, long, outcome="failed") == ["start", "error"]


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("cancelled", "The operation was aborted."),
        ("interrupted", "The turn was interrupted: the server stopped, or the session was closed."),
    ],
)
def test_a_turn_that_was_broken_off_says_so_and_no_step_that_nobody_answered(outcome: Outcome, reason: str) -> None:
    turn = chunks()
    turn.project(STEP)
    assert shown(turn.end(outcome, None)) == [("abort", {"reason": reason}, {"type": "abort", "reason": reason})]
    assert types(chunks().end(outcome, None)) == ["start", "abort"]


def test_a_turn_that_no_model_had_a_part_in_has_no_chunks() -> None:
    assert chunks().end("completed", None) == []


def test_what_another_kind_of_agent_does_has_a_start_and_a_finish_without_steps() -> None:
    called, ended = ToolCalled(call="c", tool="Bash", turn="t"), ToolEnded(call="c", tool="Bash", status="ok", turn="t")
    assert whole(called, ended) == ["start", "tool_call", "tool_result", "finish"]


def test_a_steps_end_has_its_tokens_its_answer_and_its_reason() -> None:
    used = UsageReported(
        message="t:1", turn="t", step=1, input_tokens=100, output_tokens=20, reasoning_tokens=5, cached_tokens=40
    )
    ended = StepEnded(
        turn="t",
        step=1,
        finish_reason="content_filter",
        raw_finish_reason="max_output_tokens",
        response={"id": "resp_1", "model": "gpt", "created_at": 1771000000, "headers": {"authorization": "Bearer x"}},
        provider_metadata={"response_id": "resp_1", "service_tier": "default"},
    )
    usage = {
        "inputTokens": 100,
        "inputTokenDetails": {"noCacheTokens": 60, "cacheReadTokens": 40},
        "outputTokens": 20,
        "outputTokenDetails": {"textTokens": 15, "reasoningTokens": 5},
        "totalTokens": 120,
        "reasoningTokens": 5,
        "cachedInputTokens": 40,
    }
    fields = {
        "response": {"id": "resp_1", "timestamp": "2026-02-13T16:26:40.000Z", "modelId": "gpt"},
        "usage": usage,
        "finishReason": "content-filter",
        "rawFinishReason": "max_output_tokens",
        "providerMetadata": {"openai": {"responseId": "resp_1", "serviceTier": "default"}},
    }
    assert said(used, ended) == [("finish_step", fields, {"type": "finish-step", **fields})]


REASONS = {"stop": "stop", "tool_calls": "tool-calls", "length": "length", "other": "other", "end_turn": "other"}


@pytest.mark.parametrize(("ours", "theirs"), REASONS.items(), ids=REASONS.keys())
def test_reasons_are_spelled_as_the_sdk_spells_them(ours: str, theirs: str) -> None:
    ((_, part, _),) = said(StepEnded(turn="t", step=1, finish_reason=ours, raw_finish_reason="completed"))
    assert part == {"response": {}, "finishReason": theirs}


def test_the_turns_tokens_are_those_of_its_steps_and_the_last_report_counts() -> None:
    turn = chunks()
    reports = [
        UsageReported(message="t:1", turn="t", step=1, input_tokens=1, output_tokens=1),
        UsageReported(message="t:1", turn="t", step=1, input_tokens=10, output_tokens=1),
        UsageReported(message="sub:1", turn="t", input_tokens=1000, output_tokens=1000),
        UsageReported(message="t:2", turn="t", step=2, input_tokens=5, output_tokens=2, cached_tokens=3),
    ]
    facts: list[AnyFact] = [STEP, *reports, GOOD]
    for fact in facts:
        turn.project(fact)
    (last,) = turn.end("completed", None)
    assert last.part == {
        "finishReason": "stop",
        "totalUsage": {
            "inputTokens": 15,
            "inputTokenDetails": {"noCacheTokens": 12, "cacheReadTokens": 3},
            "outputTokens": 3,
            "outputTokenDetails": {},
            "totalTokens": 18,
            "cachedInputTokens": 3,
        },
    }


def test_what_was_asked_of_a_model_is_not_shown() -> None:
    request = {"body": {"model": "m", "input": ["secret"], "instructions": "secret"}, "headers": {"x": "secret"}}
    turn = chunks()
    turn.project(StepStarted(turn="t", step=1, request=request, warnings=({"type": "other"},)))
    step, _ = turn.project(RawPart(turn="t", raw=1))
    assert step.part == {"request": {"body": {"model": "m"}}, "warnings": [{"type": "other"}]}
    assert "secret" not in encode(step).decode()


# Texts, thoughts, and the provider's own events


def test_texts() -> None:
    item = {"openai": {"itemId": "msg_1"}}
    assert said(
        PartStarted(turn="t", part="p", kind="text", provider_metadata={"item": "msg_1"}),
        PartDelta(turn="t", part="p", kind="text", text="Hi"),
        PartEnded(turn="t", part="p", kind="text", provider_metadata={"phase": "final"}),
    ) == [
        (
            "text_start",
            {"id": "p", "providerMetadata": item},
            {"type": "text-start", "id": "p", "providerMetadata": item},
        ),
        ("text_delta", {"id": "p", "text": "Hi"}, {"type": "text-delta", "id": "p", "text": "Hi"}),
        (
            "text_end",
            {"id": "p", "providerMetadata": {"openai": {"itemId": "msg_1", "phase": "final"}}},
            {"type": "text-end", "id": "p", "providerMetadata": {"openai": {"itemId": "msg_1", "phase": "final"}}},
        ),
    ]


def test_thoughts_are_summaries_with_their_item_at_openai() -> None:
    both = {"openai": {"itemId": "rs", "reasoningEncryptedContent": None}}
    item = {"openai": {"itemId": "rs"}}
    made = said(
        PartStarted(turn="t", part="rs:0", kind="reasoning", provider_metadata={"item": "rs"}),
        PartDelta(turn="t", part="rs:0", kind="reasoning", text="Hm"),
        PartEnded(turn="t", part="rs:0", kind="reasoning", provider_metadata={"item": "rs", "plain": True}),
    )
    mode = {"id": "rs:0", "mode": "summary"}
    assert [part for _, part, _ in made] == [
        {**mode, "providerMetadata": both},
        {**mode, "text": "Hm", "providerMetadata": item},
        {**mode, "providerMetadata": both},
    ]
    assert [raw for _, _, raw in made] == [
        {"type": "reasoning-start", "id": "rs:0", "providerMetadata": both},
        {"type": "reasoning-delta", "id": "rs:0", "text": "Hm", "providerMetadata": item},
        {"type": "reasoning-end", "id": "rs:0", "providerMetadata": both},
    ]


MODES = {"openai": "summary", "codex-cli": "summary", "anthropic": "reasoning", "google": "reasoning"}


@pytest.mark.parametrize(("provider", "mode"), MODES.items(), ids=MODES.keys())
def test_how_thoughts_are_shown_is_the_providers_way(provider: str, mode: str) -> None:
    made = said(PartDelta(turn="t", part="p", kind="reasoning", text="Hm"), provider=provider)
    assert made[0][1] == {"id": "p", "mode": mode, "text": "Hm"}


SIGNED = {
    "anthropic": {"anthropic": {"signature": "sig"}},
    "claude-code": {"anthropic": {"signature": "sig"}},
    "google": {"google": {"thoughtSignature": "sig"}},
}


@pytest.mark.parametrize(("provider", "metadata"), SIGNED.items(), ids=SIGNED.keys())
def test_metadata_is_spelled_as_the_providers_sdk_spells_it(provider: str, metadata: Any) -> None:
    kept = {"signature": "sig", "field": "reasoning_content", "agent_session": "x"}
    ((_, part, _),) = said(PartEnded(turn="t", part="p", kind="reasoning", provider_metadata=kept), provider=provider)
    assert part["providerMetadata"] == metadata


def test_a_text_stays_whole_and_only_its_raw_form_is_cut() -> None:
    ((_, part, raw),) = said(PartDelta(turn="t", part="p", kind="text", text="a" * 5000))
    assert part["text"] == "a" * 5000
    assert raw["text"] == "a" * 4000 + "...[truncated 1000 chars]"


def test_the_providers_own_events_are_shown_as_they_are() -> None:
    event = {"type": "response.created", "response": {"id": "r"}}
    assert said(RawPart(turn="t", raw=event, sdk_type="response.created")) == [
        ("raw", {"raw": event}, {"type": "raw", "rawValue": event})
    ]


def test_in_its_raw_form_everything_lies_one_level_deeper() -> None:
    deep: Any = "x"
    for _ in range(8):
        deep = [deep]
    ((_, part, raw),) = said(RawPart(turn="t", raw=deep))
    assert part["raw"] == deep
    assert json.dumps(raw["rawValue"]).count("[max_depth]") == 1


def test_a_part_of_a_stream_that_no_fact_says_is_unknown() -> None:
    whole_part = {"type": "tool-progress", "id": "c"}
    assert said(RawPart(turn="t", raw={"id": "c"}, sdk_type="part:tool-progress")) == [
        ("unknown", {"sdkType": "tool-progress", "raw": whole_part}, whole_part)
    ]


def test_sources_and_files() -> None:
    named = {"sourceType": "url", "url": "https://x.example", "title": "X"}
    made = {"mediaType": "image/png"}
    assert said(
        SourceCited(turn="t", source={"url": "https://x.example", "title": "X"}), SourceCited(turn="t", file=made)
    ) == [
        ("source", {"source": named}, {"type": "source", **named}),
        ("file", {"file": made}, {"type": "file", "file": made}),
    ]


# Calls


GIVEN = {"command": "ls", "timeout": 5}
CALL = ToolCalled(call="c", tool="bash", input=GIVEN, turn="t")
INPUT = PartStarted(turn="t", part="c", kind="tool_input", tool="bash", provider_metadata={"item": "fc"})
ITEM = {"openai": {"itemId": "fc"}}


def test_a_call_and_its_result() -> None:
    output = {"stdout": "x", "stderr": "", "exitCode": 0}
    made = said(
        INPUT,
        PartDelta(turn="t", part="c", kind="tool_input", text="{}"),
        PartEnded(turn="t", part="c", kind="tool_input"),
        CALL,
        ToolEnded(call="c", tool="bash", status="ok", output=output, turn="t"),
    )
    call = {"toolCallId": "c", "toolName": "bash", "input": GIVEN, "providerMetadata": ITEM}
    result = {"toolCallId": "c", "toolName": "bash", "output": output, "dynamic": False, "providerMetadata": ITEM}
    start = {"id": "c", "toolName": "bash", "dynamic": False}
    assert made == [
        ("tool_input_start", start, {"type": "tool-input-start", **start}),
        ("tool_input_delta", {"id": "c", "delta": "{}"}, {"type": "tool-input-delta", "id": "c", "delta": "{}"}),
        ("tool_input_end", {"id": "c"}, {"type": "tool-input-end", "id": "c"}),
        ("tool_call", call, {"type": "tool-call", **call}),
        ("tool_result", result, {"type": "tool-result", "input": GIVEN, **result}),
    ]


def ends(called: ToolCalled, ended: ToolEnded) -> list[Shown]:
    return said(called, ended)[1:]


@pytest.mark.parametrize("output", [None, "Not this one.", [{"type": "text", "text": "Not this one."}]])
def test_a_denied_command_has_a_result_and_any_other_denied_call_was_denied(output: Any) -> None:
    refused = {"stdout": "", "stderr": "User rejected this command.", "exitCode": 1}
    with_output = ToolEnded(call="c", tool="bash", status="denied", output=refused, problem=DENIED, turn="t")
    without = ToolEnded(call="c", tool="bash", status="denied", output=output, problem=DENIED, turn="t")
    ((kind, part, _),) = ends(CALL, with_output)
    assert (kind, part["output"]) == ("tool_result", refused)
    denied = {"toolCallId": "c", "toolName": "bash", "reason": "Not this one."}
    assert ends(CALL, without) == [("tool_output_denied", denied, {"type": "tool-output-denied", **denied})]


@pytest.mark.parametrize("status", ["error", "interrupted"])
def test_a_call_that_failed_or_was_cut_off_has_an_error(status: Any) -> None:
    problem = Problem(code="tool_failed", message="No such file: x", detail={"secret": 1})
    ((kind, part, raw),) = ends(CALL, ToolEnded(call="c", tool="bash", status=status, problem=problem, turn="t"))
    wrong = {"name": "Error", "message": "No such file: x"}
    assert (kind, part) == ("tool_error", {"toolCallId": "c", "toolName": "bash", "error": wrong, "dynamic": False})
    assert raw == {"type": "tool-error", "input": GIVEN, **part}


def test_what_a_cancel_broke_off_has_no_result_and_what_had_ended_before_has_one() -> None:
    turn = chunks()
    for fact in (STEP, RawPart(turn="t", raw=1), CALL):
        turn.project(fact)
    assert turn.project(CancelRequested(turn="t", by="local", via="coworker")) == []
    assert turn.project(ToolEnded(call="c", tool="bash", status="interrupted", turn="t")) == []
    late = turn.project(ToolEnded(call="c", tool="bash", status="ok", output="done", turn="t"))
    assert types([*late, *turn.end("cancelled", None)]) == ["tool_result", "abort"]


INVALID = {"no_such_tool": "AI_NoSuchToolError", "invalid_input": "AI_InvalidToolInputError"}


@pytest.mark.parametrize(("code", "name"), INVALID.items(), ids=INVALID.keys())
def test_a_call_that_cannot_be_run_says_why_and_its_error_is_words(code: str, name: str) -> None:
    problem = Problem(code=code, message="It cannot be.")
    called = ToolCalled(call="c", tool="x", input={"a": 1}, turn="t", dynamic=True, invalid=True, problem=problem)
    call, error = said(INPUT, called, ToolEnded(call="c", tool="x", status="error", problem=problem, turn="t"))[1:]
    assert call[1] == {
        "toolCallId": "c",
        "toolName": "x",
        "input": {"a": 1},
        "dynamic": True,
        "invalid": True,
        "error": {"name": name, "message": "It cannot be."},
        "providerMetadata": ITEM,
    }
    assert error[1] == {"toolCallId": "c", "toolName": "x", "error": "It cannot be.", "dynamic": True}


def test_a_tool_that_was_found_is_dynamic_from_its_input_to_its_result() -> None:
    made = said(
        PartStarted(turn="t", part="c", kind="tool_input", tool="mcp__demo__add", dynamic=True, title="Add"),
        ToolCalled(call="c", tool="mcp__demo__add", turn="t", dynamic=True),
        ToolEnded(call="c", tool="mcp__demo__add", status="ok", output="5", turn="t"),
    )
    assert [part.get("dynamic") for _, part, _ in made] == [True, True, True]
    assert made[0][1]["title"] == "Add"
    assert made[1][1]["input"] == {}


def test_what_the_provider_runs_itself_says_so() -> None:
    made = said(
        PartStarted(turn="t", part="c", kind="tool_input", tool="webSearch", executor="provider"),
        ToolCalled(call="c", tool="webSearch", input={"query": "x"}, turn="t", executor="provider"),
        ToolEnded(call="c", tool="webSearch", status="ok", output={"status": "completed"}, turn="t"),
    )
    assert made[0][1] == {"id": "c", "toolName": "webSearch", "providerExecuted": True}
    assert [raw.get("providerExecuted") for _, _, raw in made] == [True, True, True]
    assert "dynamic" not in made[2][1]


def test_calls_of_sub_agents_are_no_chunks() -> None:
    inner = ToolCalled(call="i", tool="read", turn="t", parent="c")
    assert said(CALL, inner, ToolEnded(call="i", tool="read", status="ok", output="x", turn="t"))[1:] == []


def test_a_call_is_shown_with_what_its_tool_really_got() -> None:
    turn = chunks()
    given = {"command": "ls", "timeout": 120000}
    call = turn.project(ToolCalled(call="c", tool="bash", input={"command": "ls"}, turn="t"))[-1]
    (result,) = turn.project(ToolEnded(call="c", tool="bash", status="ok", output="", turn="t"))
    assert (call.part["input"], call.raw_part["input"], result.raw_part["input"]) == (given, given, given)


def test_inputs_and_outputs_are_cut() -> None:
    called = ToolCalled(call="c", tool="write", input={"content": "a" * 5000}, turn="t")
    made = said(called, ToolEnded(call="c", tool="write", status="ok", output=["x"] * 200, turn="t"))
    assert len(made[0][1]["input"]["content"]) == 4000 + len("...[truncated 1000 chars]")
    assert made[1][1]["output"][-1] == "[truncated 72 items]"


def test_a_call_that_waits_for_permission_can_be_spelled() -> None:
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "bash", "input": {"command": "ls"}}
    assert parts.tool_approval_request("a", "c", "bash", {"command": "ls"}) == (
        "tool_approval_request",
        {"approvalId": "a", "toolCall": call},
        {"type": "tool-approval-request", "approvalId": "a", "toolCall": call},
    )

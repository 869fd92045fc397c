"""Each fact as the stream events of the protocol, field by field (seed: Stream Events; spec §6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects.onion.projection import RESTARTED, WHAT_NEXT, Ended
from dragoman.hub import events as hub
from dragoman.hub.events import AnyFact

from .log import BEGAN, said_by

PROMPT = hub.PromptSubmitted(prompt="p1", text="hello", by="me", via="onion")
STARTED = hub.TurnStarted(turn="t1", prompt="p1")
TURN: list[AnyFact] = [PROMPT, STARTED]


def _bodies(*facts: AnyFact) -> list[dict[str, Any]]:
    return [json.loads(said.body) for said in said_by([*TURN, *facts]) if said.body][1:]


def _ts(seq: int) -> float:
    return (BEGAN + 10 * seq) / 1000


def test_a_turn_begins_with_its_prompt() -> None:
    (said,) = said_by(TURN)
    assert json.loads(said.body) == {"type": "user_input", "id": "p1", "ts": _ts(2), "content": "hello", "turn": 1}
    assert said.traced


def test_a_prompt_that_came_while_the_agent_ran_says_so() -> None:
    later = hub.PromptSubmitted(prompt="p2", text="and this", by="me", via="onion", steer=True)
    step = hub.StepStarted(turn="t1", step=1, model="m")
    _, taken = _bodies(step, later, hub.PromptTaken(prompt="p2", turn="t1"))
    assert taken == {
        "type": "user_input", "id": "p2", "ts": _ts(5), "content": "and this", "turn": 1, "iteration": 2,
        "runtime_input": True,
    }  # fmt: skip


def test_files_follow_their_prompt_by_relative_paths() -> None:
    files = hub.Attachment(kind="file", name="17_a.txt", artifact="upload:.co/uploads/17_a.txt", size=3)
    picture = hub.Attachment(kind="image", name="p.png", artifact="sha256:0", size=3)
    prompt = hub.PromptSubmitted(prompt="p1", text="see", by="me", via="onion", attachments=(files, picture))
    said = [json.loads(each.body) for each in said_by([prompt, STARTED])]
    assert [each["type"] for each in said] == ["user_input", "files_received"]
    assert said[1]["files"] == [{"name": "17_a.txt", "path": ".co/uploads/17_a.txt"}]
    assert said[1]["turn"] == 1


def test_a_model_call_and_its_result_share_an_id() -> None:
    call, _, result = _bodies(
        hub.StepStarted(turn="t1", step=1, model="gpt"),
        hub.ToolCalled(call="c1", tool="search", input={"q": "cats"}, turn="t1"),
        hub.UsageReported(
            message="m", turn="t1", step=1, model="gpt", input_tokens=100, output_tokens=10, cached_tokens=5,
            cache_write_tokens=2, cost_usd=0.5, context_window=1000,
        ),
        hub.StepEnded(turn="t1", step=1, finish_reason="stop"),
    )  # fmt: skip
    assert call == {
        "type": "llm_call", "id": "ev-3", "ts": _ts(3), "model": "gpt", "iteration": 1, "status": "running",
    }  # fmt: skip
    assert result == {
        "type": "llm_result", "id": "ev-3", "ts": _ts(6), "model": "gpt", "iteration": 1, "duration_ms": 30.0,
        "tool_calls_count": 1, "context_percent": 10.0, "status": "success",
        "usage": {
            "input_tokens": 100, "output_tokens": 10, "cached_tokens": 5, "cache_write_tokens": 2, "cost": 0.5,
        },
    }  # fmt: skip


def test_a_call_without_usage_says_null() -> None:
    _, result = _bodies(
        hub.StepStarted(turn="t1", step=1, model="gpt"), hub.StepEnded(turn="t1", step=1, finish_reason="stop")
    )
    assert (result["usage"], result["context_percent"]) == (None, 0.0)


def test_a_tool() -> None:
    call, ended = _bodies(
        hub.ToolCalled(call="c1", tool="search", input={"q": "cats"}, turn="t1"),
        hub.ToolEnded(call="c1", tool="search", status="ok", output="results", turn="t1", duration_ms=7),
    )
    assert call == {
        "type": "tool_call", "id": "ev-3", "ts": _ts(3), "tool_id": "c1", "name": "search", "args": {"q": "cats"},
    }  # fmt: skip
    assert ended == {
        "type": "tool_result", "id": "ev-4", "ts": _ts(4), "tool_id": "c1", "name": "search", "args": {"q": "cats"},
        "status": "success", "result": "results", "timing_ms": 7.0,
    }  # fmt: skip


RESULTS = [
    ({"status": "ok", "output": {"a": 1}}, "success", '{"a":1}', None, None),
    ({"status": "ok", "output": {"a": 1}, "detail": {"model_text": "one"}}, "success", "one", None, None),
    ({"status": "ok", "output": None}, "success", "", None, None),
    (
        {"status": "error", "problem": hub.Problem(code="tool_failed", message="no")},
        "error", "Error: no", "no", "tool_failed",
    ),
    (
        {"status": "denied", "problem": hub.Problem(code="denied", message="not now")},
        "error", "Error: not now", "not now", "denied",
    ),
    (
        {"status": "denied", "output": {"exitCode": 1}, "problem": hub.Problem(code="denied", message="not now")},
        "error", "Error: not now", "not now", "denied",
    ),
    (
        {"status": "interrupted", "problem": hub.Problem(code="interrupted", message="cut off")},
        "error", "Error: cut off", "cut off", "interrupted",
    ),
    (
        {"status": "error", "problem": hub.Problem(code="no_such_tool", message="There is no tool 'x'.")},
        "not_found", "Tool 'x' not found", "Tool 'x' not found", None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "status", "result", "error", "kind"), RESULTS, ids=range(len(RESULTS)))
def test_results(fields: dict[str, Any], status: str, result: str, error: str | None, kind: str | None) -> None:
    (ended,) = _bodies(hub.ToolEnded(call="c1", tool="x", turn="t1", input={"y": 2}, **fields))
    assert (ended["status"], ended["result"]) == (status, result)
    assert (ended.get("error"), ended.get("error_type")) == (error, kind)
    assert ended["args"] == {"y": 2}


def test_a_tool_that_there_is_not_shows_as_its_result_alone() -> None:
    missing = hub.Problem(code="no_such_tool", message="There is no tool 'x'.")
    said = _bodies(
        hub.ToolCalled(call="c1", tool="x", input={"a": 1}, turn="t1", invalid=True, problem=missing),
        hub.ToolEnded(call="c1", tool="x", status="error", turn="t1", problem=missing),
    )
    assert [(each["type"], each["args"]) for each in said] == [("tool_result", {"a": 1})]


@pytest.mark.parametrize(("given", "shown"), [(None, {}), ("{bad", {"input": "{bad"}), ([1], {"input": [1]})])
def test_arguments_are_an_object_for_clients(given: object, shown: object) -> None:
    (call,) = _bodies(hub.ToolCalled(call="c1", tool="x", input=given, turn="t1"))
    assert call["args"] == shown


def test_an_approval() -> None:
    opened = hub.DecisionOpened(
        decision="d", kind="permission", text="rm -f zzz", turn="t1", tool="bash", input={"command": "rm -f zzz"},
        detail={"description": "remove zzz", "batch": [{"tool": "bash", "arguments": '{"command":"ls"}'}]},
    )  # fmt: skip
    (needed,) = _bodies(opened)
    assert needed == {
        "type": "approval_needed", "id": "ev-3", "ts": _ts(3), "tool": "bash", "arguments": {"command": "rm -f zzz"},
        "description": "remove zzz", "batch_remaining": [{"tool": "bash", "arguments": '{"command":"ls"}'}],
    }  # fmt: skip


def test_an_approval_without_a_tool_says_what_it_is_about() -> None:
    (needed,) = _bodies(hub.DecisionOpened(decision="d", kind="permission", text="Run make?", turn="t1"))
    assert (needed["tool"], needed["arguments"], needed["description"]) == ("", {}, "Run make?")
    assert "batch_remaining" not in needed


def test_a_question() -> None:
    options = (hub.Option("Python 3"), hub.Option("Rust"))
    asked, open_ = _bodies(
        hub.DecisionOpened(decision="d", kind="question", text="Which?", turn="t1", options=options),
        hub.DecisionOpened(decision="e", kind="question", text="Why?", turn="t1"),
        hub.DecisionResolved(decision="d", outcome="answered"),
    )
    assert asked == {
        "type": "ask_user", "id": "ev-3", "ts": _ts(3), "question": "Which?", "options": ["Python 3", "Rust"],
        "multi_select": False,
    }  # fmt: skip
    # The second waits for the first, and stands where that is resolved.
    assert (open_["question"], open_["options"], open_["id"]) == ("Why?", None, "ev-5")


def test_a_plan() -> None:
    (plan,) = _bodies(hub.DecisionOpened(decision="d", kind="plan", text="# Plan", turn="t1"))
    assert (plan["type"], plan["plan_content"]) == ("plan_review", "# Plan")


@pytest.mark.parametrize(
    ("mode", "word"), [("ask", "safe"), ("plan", "plan"), ("accept_edits", "accept_edits"), ("all", "ulw"), (7, "safe")]
)
@pytest.mark.parametrize(("by", "triggered"), [("me", "user"), (None, "agent")])
def test_modes(mode: object, word: str, by: str | None, triggered: str) -> None:
    (changed,) = _bodies(hub.SettingsChanged(changes={"mode": mode}, by=by))
    assert (changed["type"], changed["mode"], changed["triggered_by"]) == ("mode_changed", word, triggered)


def test_other_settings_are_not_told() -> None:
    assert not _bodies(hub.SettingsChanged(changes={"model": "x"}, by="me"))


def test_shortening_the_context() -> None:
    started, done = _bodies(
        hub.Compacted(compaction="c", phase="started", tokens_before=900, context_window=1000),
        hub.Compacted(
            compaction="c", phase="done", tokens_before=900, tokens_after=100, messages_before=9, messages_after=6,
            context_window=1000,
        ),
    )  # fmt: skip
    assert started == {"type": "compact", "id": "ev-3", "ts": _ts(3), "status": "compacting", "context_percent": 90.0}
    assert done == {
        "type": "compact", "id": "ev-3", "ts": _ts(4), "status": "done", "context_before": 90.0, "context_after": 10.0,
        "message": "9 → 6 messages",
    }  # fmt: skip


def test_a_context_that_could_not_be_shortened() -> None:
    _, failed = _bodies(
        hub.Compacted(compaction="c", phase="started"), hub.Compacted(compaction="c", phase="failed", problem="no")
    )
    assert (failed["status"], failed["error"], failed["id"]) == ("error", "no", "ev-3")


def test_thoughts() -> None:
    (thought,) = _bodies(hub.MessageAdded(message="m", role="reasoning", text="hm", turn="t1", kind="reflect"))
    assert (thought["type"], thought["kind"], thought["content"]) == ("thinking", "reflect", "hm")


def test_text_as_it_comes_is_a_tolerance_and_no_part_of_the_trace() -> None:
    delta = hub.PartDelta(turn="t1", part="p", kind="text", text="He")
    thought = hub.PartDelta(turn="t1", part="q", kind="reasoning", text="hm")
    (said,) = said_by([*TURN, thought, delta])[1:]
    assert json.loads(said.body) == {"type": "assistant_delta", "id": "ev-4", "ts": _ts(4), "content": "He"}
    assert (said.tolerance, said.traced) == ("assistant_delta", False)


def test_what_is_said_at_an_agents_own_terminal() -> None:
    said = said_by([
        hub.MessageAdded(message="m", role="user", text="typed"),
        hub.MessageAdded(message="n", role="assistant", text="done"),
    ])  # fmt: skip
    assert [json.loads(each.body)["type"] for each in said] == ["user_input", "assistant"]
    assert said[1].tolerance == "assistant"


ENDS = [
    ({"outcome": "completed", "result": "Hi", "duration_ms": 5}, Ended("t1", "completed", "Hi", 5, None)),
    ({"outcome": "completed"}, Ended("t1", "completed", "", 0, None)),
    ({"outcome": "cancelled", "result": "x"}, Ended("t1", "cancelled", WHAT_NEXT, 0, None)),
    (
        {"outcome": "failed", "problem": hub.Problem(code="x", message="llm exploded")},
        Ended("t1", "failed", "", 0, "llm exploded"),
    ),
    ({"outcome": "failed"}, Ended("t1", "failed", "", 0, "the turn failed")),
    ({"outcome": "interrupted"}, Ended("t1", "interrupted", "", 0, RESTARTED)),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "meant"), ENDS, ids=range(len(ENDS)))
def test_ends(fields: dict[str, Any], meant: Ended) -> None:
    assert said_by([*TURN, hub.TurnEnded(turn="t1", **fields)])[-1].ended == meant


def test_turns_are_counted_from_the_last_reset() -> None:
    second = hub.PromptSubmitted(prompt="p2", text="again", by="me", via="onion")
    said = said_by([
        *TURN, hub.TurnEnded(turn="t1", outcome="completed"), second, hub.TurnStarted(turn="t2", prompt="p2"),
        hub.TurnEnded(turn="t2", outcome="completed"), hub.HistoryReset(),
        hub.PromptSubmitted(prompt="p3", text="new", by="me", via="onion"), hub.TurnStarted(turn="t3", prompt="p3"),
    ])  # fmt: skip
    assert [json.loads(each.body)["turn"] for each in said if each.body] == [1, 2, 1]


def test_a_prompt_that_will_not_run_is_told_of() -> None:
    waiting = hub.PromptSubmitted(prompt="p2", text="later", by="me", via="onion")
    said = said_by([*TURN, waiting, hub.PromptWithdrawn(prompt="p2", reason="closed")])
    assert said[-1].withdrawn

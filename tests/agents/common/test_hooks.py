"""What a hook's payload says of the state, and which facts it is."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents.common.hooks import read_hook
from dragoman.hub.events import (
    Compacted,
    HistoryReset,
    MessageAdded,
    Notified,
    Option,
    Origin,
    SubagentEnded,
    SubagentStarted,
    ToolCalled,
    ToolEnded,
    encode_fact,
)

from .recorded import SAMPLES, hooks, sample

TABLE = [
    # sample, cause, facts
    ("claude", "SessionStart", None, []),
    ("claude", "UserPromptSubmit", "hook:working", [MessageAdded]),
    ("claude", "MessageDisplay", None, [MessageAdded]),
    ("claude", "PreToolUse:Write", "hook:working", [ToolCalled]),
    ("claude", "PreToolUse:Bash", "hook:working", [ToolCalled]),
    ("claude", "PreToolUse:Agent", "hook:working", [ToolCalled]),
    ("claude", "PreToolUse:AskUserQuestion", "hook:prompt(question)", [ToolCalled]),
    ("claude", "PreToolUse:ExitPlanMode", "hook:prompt(plan)", [ToolCalled]),
    ("claude", "PermissionRequest:Write", "hook:prompt(permission)", []),
    ("claude", "PermissionRequest:AskUserQuestion", "hook:prompt(question)", []),
    ("claude", "PermissionRequest:ExitPlanMode", "hook:prompt(plan)", []),
    ("claude", "PostToolUse:Write", "hook:working", [ToolEnded]),
    ("claude", "PostToolBatch", "hook:working", [ToolEnded]),
    ("claude", "Notification:permission_prompt", "hook:prompt(permission)", [Notified]),
    ("claude", "Notification:idle_prompt", "hook:idle", [Notified]),
    ("claude", "Stop", "hook:idle", [MessageAdded]),
    ("claude", "SubagentStart", None, [SubagentStarted]),
    ("claude", "SubagentStop", None, [SubagentEnded]),
    ("claude", "SessionEnd", None, []),
    ("codex", "SessionStart", None, []),
    ("codex", "UserPromptSubmit", "hook:working", [MessageAdded]),
    ("codex", "PreToolUse:Bash", "hook:working", [ToolCalled]),
    ("codex", "PostToolUse:Bash", "hook:working", [ToolEnded]),
    ("codex", "Stop", "hook:idle", [MessageAdded]),
    ("codex", "SessionEnd", None, []),
    ("gemini", "SessionStart", None, []),
    ("gemini", "BeforeAgent", "hook:working", [MessageAdded]),
    ("gemini", "PreCompress", None, []),
    ("gemini", "BeforeModel", None, []),
    ("gemini", "AfterModel", None, []),
    ("gemini", "BeforeToolSelection", None, []),
    ("gemini", "AfterAgent", "hook:idle", []),
    ("gemini", "SessionEnd", None, []),
    ("qwen", "UserPromptSubmit", "hook:working", [MessageAdded]),
    ("qwen", "Stop", "hook:idle", [MessageAdded]),
    ("qwen", "Notification:idle_prompt", "hook:idle", [Notified]),
]


@pytest.mark.parametrize(("agent", "name", "cause", "facts"), TABLE)
def test_every_hook_that_was_seen(agent: str, name: str, cause: str | None, facts: list[type]) -> None:
    observation = read_hook(*sample(agent, name))
    assert (observation.sighting.cause if observation.sighting else None) == cause
    assert [type(fact) for fact in observation.facts] == facts
    assert observation.agent_session == SAMPLES[agent][name]["session_id"]
    assert observation.transcript == SAMPLES[agent][name]["transcript_path"]
    assert all(fact.origin.source == "hook" for fact in observation.facts)


@pytest.mark.parametrize("spelling", ["PreToolUse", "pre_tool_use", "pre-tool-use", "BeforeTool", "before_tool"])
def test_a_hook_has_many_spellings(spelling: str) -> None:
    observation = read_hook("claude", spelling, SAMPLES["claude"]["PreToolUse:Bash"])
    assert isinstance(observation.facts[0], ToolCalled)


def test_a_prompt_is_said_and_taken() -> None:
    observation = read_hook(*sample("claude", "UserPromptSubmit"))
    assert observation.prompt == SAMPLES["claude"]["UserPromptSubmit"]["prompt"]
    said = observation.facts[0]
    assert (said.role, said.text) == ("user", observation.prompt)


def test_a_prompt_that_the_agent_gave_itself_is_work_but_nobodys_words() -> None:
    payload = SAMPLES["claude"]["UserPromptSubmit"] | {"prompt": "<task-notification>\n<task-id>a1</task-id>"}
    observation = read_hook("claude", "UserPromptSubmit", payload)
    assert observation.prompt is None
    assert observation.facts[0].role == "system"
    assert observation.sighting.cause == "hook:working"


def test_a_call_carries_its_id_and_input_and_where_it_was_seen() -> None:
    payload = SAMPLES["claude"]["PreToolUse:Bash"] | {"id": "evt-7", "timestamp": 1700000000123}
    observation = read_hook("claude", "PreToolUse", payload)
    called = observation.facts[0]
    assert (called.call, called.tool, called.executor) == (payload["tool_use_id"], "Bash", "agent")
    assert called.input == payload["tool_input"]
    assert called.origin == Origin(
        source="hook", id="evt-7", at=1700000000123, agent_session=payload["session_id"], cwd=payload["cwd"]
    )
    assert observation.at == 1700000000123


def test_questions_come_with_their_options() -> None:
    dialog = read_hook(*sample("claude", "PreToolUse:AskUserQuestion")).sighting.dialog
    assert dialog.call == SAMPLES["claude"]["PreToolUse:AskUserQuestion"]["tool_use_id"]
    assert [question.question for question in dialog.questions] == ["Which database should we use?", "Which cache?"]
    assert dialog.questions[0].header == "Database"
    assert dialog.questions[0].options == (
        Option("PostgreSQL", description="Relational"),
        Option("SQLite", description="Embedded"),
    )
    assert not dialog.questions[0].multiple
    assert dialog.text == "Which database should we use?"


def test_a_permission_request_says_what_is_to_be_permitted_and_knows_no_call() -> None:
    dialog = read_hook(*sample("claude", "PermissionRequest:Bash")).sighting.dialog
    assert (dialog.kind, dialog.tool, dialog.call) == ("permission", "Bash", None)
    assert dialog.text == "touch made.txt && echo made"
    dialog = read_hook(*sample("claude", "PermissionRequest:Write")).sighting.dialog
    assert dialog.text == "/home/dev/demo/hello.txt"


def test_a_plan_is_the_text_of_its_dialog() -> None:
    payload = dict(hooks("plan"))["PermissionRequest"]
    assert read_hook("claude", "PermissionRequest", payload).sighting.dialog.text.startswith("# Plan")


def test_a_tool_that_failed() -> None:
    payload = {"session_id": "s", "tool_name": "Bash", "tool_input": {}, "tool_use_id": "x2", "error": "boom"}
    ended = read_hook("claude", "PostToolUseFailure", payload).facts[0]
    assert (ended.status, ended.problem.message) == ("error", "boom")
    assert read_hook("claude", "PostToolUseFailure", payload | {"is_interrupt": True}).facts[0].status == "interrupted"
    gemini = {"tool_name": "run_shell_command", "tool_response": {"llmContent": "", "error": {"message": "no"}}}
    assert read_hook("gemini", "AfterTool", gemini).facts[0].status == "error"


def test_a_rule_that_denied_a_tool() -> None:
    payload = {"tool_name": "Bash", "tool_input": {}, "tool_use_id": "x", "reason": "not allowed"}
    ended = read_hook("claude", "PermissionDenied", payload).facts[0]
    assert (ended.status, ended.problem.message) == ("denied", "not allowed")


def test_a_stop_with_background_tasks_is_still_idle() -> None:
    payload = SAMPLES["claude"]["Stop"] | {"background_tasks": [{"id": "a1", "status": "running"}]}
    assert read_hook("claude", "Stop", payload).sighting.cause == "hook:idle"


@pytest.mark.parametrize("name", ["Stop", "Notification:idle_prompt", "PostToolUse:Bash", "UserPromptSubmit"])
def test_nothing_inside_a_subagent_says_what_the_main_turn_does(name: str) -> None:
    agent, event, payload = sample("claude", name)
    observation = read_hook(agent, event, payload | {"agent_id": "a1"})
    assert observation.sighting is None
    assert not any(isinstance(fact, MessageAdded) for fact in observation.facts)


def test_a_dialog_inside_a_subagent_waits_for_a_human_all_the_same() -> None:
    agent, event, payload = sample("claude", "PermissionRequest:Bash")
    assert read_hook(agent, event, payload | {"agent_id": "a1"}).sighting.cause == "hook:prompt(permission)"


def test_a_turn_that_failed() -> None:
    (payload,) = [payload for event, payload in hooks("error") if event == "StopFailure"]
    sighting = read_hook("claude", "StopFailure", payload).sighting
    assert (sighting.cause, sighting.error) == ("hook:error", "API Error: 400 scripted failure")
    coded = read_hook("claude", "StopFailure", payload | {"error": "rate_limit"}).sighting
    assert coded.error == "rate_limit: API Error: 400 scripted failure"


def test_compaction_begins_and_ends() -> None:
    before = read_hook("claude", "PreCompact", {"session_id": "s", "trigger": "auto", "custom_instructions": None})
    after = read_hook("claude", "PostCompact", {"session_id": "s", "trigger": "auto", "compact_summary": "Short."})
    started, done = before.facts[0], after.facts[0]
    assert isinstance(started, Compacted)
    assert (started.phase, started.reason, before.compacted) == ("started", "auto", False)
    assert (done.phase, done.summary, after.compacted) == ("done", "Short.", True)


def test_clear_begins_the_conversation_anew() -> None:
    payload = SAMPLES["claude"]["SessionEnd"] | {"reason": "clear"}
    assert isinstance(read_hook("claude", "SessionEnd", payload).facts[0], HistoryReset)


@pytest.mark.parametrize(
    ("what", "kind"),
    [("exec", "permission"), ("edit", "permission"), ("ask_user", "question"), ("exit_plan_mode", "plan")],
)
def test_gemini_tells_of_its_dialogs_by_notification(what: str, kind: str) -> None:
    details = {"type": what, "title": "Confirm", "command": "touch made.txt"}
    payload = {"notification_type": "ToolPermission", "message": "Tool wants to run", "details": details}
    observation = read_hook("gemini", "Notification", payload)
    assert observation.sighting.cause == f"hook:prompt({kind})"
    assert observation.sighting.dialog.text == ("touch made.txt" if kind == "permission" else "Confirm")


def test_gemini_runs_a_question_after_it_was_answered() -> None:
    payload = {"tool_name": "ask_user", "tool_input": {"questions": []}}
    assert read_hook("gemini", "BeforeTool", payload).sighting.cause == "hook:working"


def test_codex_says_when_a_person_broke_it_off() -> None:
    assert read_hook("codex", "Interrupt", {"session_id": "s"}).interrupted


def test_an_unknown_hook_is_a_note_with_its_name() -> None:
    note = read_hook("claude", "CwdChanged", {"session_id": "s"}).facts[0]
    assert note == Notified(message="CwdChanged", kind="CwdChanged", origin=Origin(source="hook", agent_session="s"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ALL = [(agent, name) for agent, samples in SAMPLES.items() for name in samples]


@settings(deadline=None)
@given(st.sampled_from(ALL), st.data())
def test_a_malformed_payload_gives_what_can_be_read(which: tuple[str, str], data: st.DataObject) -> None:
    agent, event, payload = sample(*which)
    damaged: dict[str, Any] = copy.deepcopy(payload)
    for name in data.draw(st.sets(st.sampled_from(sorted(damaged)))):
        if data.draw(st.booleans()):
            damaged[name] = data.draw(json_values)
        else:
            del damaged[name]
    for fact in read_hook(agent, event, damaged).facts:
        if not isinstance(getattr(fact, "input", None), (int, float)):
            encode_fact(fact)


@pytest.mark.parametrize("event", ["", "nonsense", *sorted({name.partition(":")[0] for _, name in ALL})])
def test_an_empty_payload_is_no_error(event: str) -> None:
    read_hook("claude", event, {})

"""A session's log as the wire shows it: wherever a link begins to read, it is told the same (invariant 2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.dialects.coworker import messages as wire
from dragoman.dialects.coworker import projection as projection_module
from dragoman.dialects.coworker import workspace_messages as around
from dragoman.dialects.coworker.projection import Projection, Usual
from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    AnyFact,
    CheckpointDeleted,
    CheckpointRestored,
    CheckpointTaken,
    Compacted,
    DecisionOpened,
    DecisionResolved,
    DecisionRevised,
    Event,
    HistoryReset,
    LogWritten,
    MessageAdded,
    Notified,
    PartDelta,
    PartEnded,
    PartStarted,
    Problem,
    PromptSubmitted,
    Question,
    RawPart,
    SessionCreated,
    SettingsChanged,
    SourceCited,
    StateChanged,
    StepEnded,
    StepStarted,
    TodosChanged,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnSettled,
    TurnStarted,
    UsageReported,
)
from dragoman.hub.events.workspace import Todo
from dragoman.hub.state import SessionState, encode_state
from tests.hub.facts import any_of, logs

USUAL = Usual("google", "gemini", "/w/output", True)
CREATED = SessionCreated(kind="native", agent="unknown", cwd="/w", title="t", owner="local")
TERMINAL = SessionCreated(
    kind="terminal", agent="claude", cwd="/w", title="t", owner="local", options={"command": ["claude", "-c"]}
)
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""How long a log takes to make is no matter."""

IN_A_TURN = (
    *(StepStarted, StepEnded, PartStarted, PartDelta, PartEnded, RawPart, SourceCited, UsageReported),
    *(MessageAdded, ToolCalled, ToolEnded, LogWritten, TodosChanged),
)


def events(*facts: AnyFact) -> list[Event]:
    return [Event(seq, 1_700_000_000_000 + seq, "e", fact) for seq, fact in enumerate(facts, 1)]


def begin(log: list[Event], cursor: int) -> Projection:
    """As a link begins: the fold at the cursor, then the open turn up to there."""
    state = SessionState(session="s")
    for event in log[:cursor]:
        state.apply(event)
    projection = Projection(state, USUAL, backups=Path("/b"))
    if state.turn is not None:
        for event in log[state.turn.seq - 1 : cursor]:
            projection.catch_up(event)
    return projection


def told(log: list[Event], after: int = 1) -> list[wire.ServerMessage]:
    projection = begin(log, after)
    return [message for event in log[after:] for message in projection.project(event)]


def said(*facts: AnyFact, first: SessionCreated = CREATED) -> list[wire.ServerMessage]:
    return told(events(first, *facts))


def turn(*facts: AnyFact, outcome: Any = "completed", problem: Problem | None = None) -> list[AnyFact]:
    return [
        PromptSubmitted(prompt="p", text="hi", by="local", via="coworker"),
        TurnStarted(turn="t", prompt="p"),
        *facts,
        TurnSettled(turn="t", outcome=outcome, problem=problem),
        CheckpointTaken(checkpoint="cp-0001", trigger="auto"),
        TurnEnded(turn="t", outcome=outcome, problem=problem),
    ]


def names(messages: list[wire.ServerMessage]) -> list[str]:
    return [str(type(message).__struct_config__.tag) for message in messages]


def without_chunks(messages: list[wire.ServerMessage]) -> list[wire.ServerMessage]:
    return [message for message in messages if not isinstance(message, wire.ModelStreamChunk)]


def step(number: int, *facts: AnyFact, provider: str = "openai") -> list[AnyFact]:
    return [
        StepStarted(turn="t", step=number, provider=provider, model="m"),
        *facts,
        StepEnded(turn="t", step=number, finish_reason="stop"),
    ]


def message(role: Any, text: str, turn: str | None = "t") -> MessageAdded:
    return MessageAdded(message=f"{role}-{text}", role=role, text=text, turn=turn)


@st.composite
def busy_logs(draw: st.DrawFn) -> list[Event]:
    """Logs in whose turns everything happens that may."""
    facts: list[AnyFact] = []
    open_: str | None = None
    for event in draw(logs()):
        facts.append(event.fact)
        open_ = event.fact.turn if isinstance(event.fact, TurnStarted) else open_
        open_ = None if isinstance(event.fact, TurnEnded) else open_
        if open_ is not None:
            for _ in range(draw(st.integers(0, 3))):
                fact = draw(any_of(draw(st.sampled_from(IN_A_TURN))))
                facts.append(msgspec.structs.replace(fact, turn=open_))
    return events(*facts)


@PATIENT
@given(busy_logs(), st.data())
def test_a_link_that_begins_later_is_told_the_rest_as_it_is(log: list[Event], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(log)))
    projection = begin(log, 1)
    for event in log[1:cut]:
        projection.project(event)
    rest = [message for event in log[cut:] for message in projection.project(event)]
    assert [wire.encode(message) for message in told(log, cut)] == [wire.encode(message) for message in rest]


@PATIENT
@given(busy_logs())
def test_the_chunks_of_a_turn_are_numbered_without_a_gap(log: list[Event]) -> None:
    turns: dict[str, int] = {}
    for message in told(log):
        if isinstance(message, wire.ModelStreamChunk):
            assert message.index == turns.get(message.turn_id, 0)
            turns[message.turn_id] = message.index + 1


@PATIENT
@given(busy_logs())
def test_what_a_model_streams_takes_a_short_way_to_the_same_messages_and_state(log: list[Event]) -> None:
    short = begin(log, 1)
    said_shortly = [message for event in log[1:] for message in short.project(event)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection_module, "STREAMED", frozenset())
        plain = begin(log, 1)
        assert said_shortly == [message for event in log[1:] for message in plain.project(event)]
    assert encode_state(short.state) == encode_state(plain.state)


@PATIENT
@given(busy_logs())
def test_busy_is_said_when_it_changes(log: list[Event]) -> None:
    flips = [message.busy for message in told(log) if isinstance(message, wire.SessionBusy)]
    assert flips == [number % 2 == 0 for number in range(len(flips))]


def test_a_turn_from_its_echo_to_its_checkpoint() -> None:
    """Spec §4.1."""
    messages = said(*turn(*step(1, message("reasoning", " thinks "), message("assistant", " Hello. "))))
    assert names(without_chunks(messages)) == [
        *("user_message", "session_busy", "reasoning", "assistant_message", "session_backup_state", "session_busy")
    ]
    assert wire.Reasoning(session_id="s", kind="summary", text="thinks") in messages
    assert wire.AssistantMessage(session_id="s", text="Hello.") in messages
    chunks = [message for message in messages if isinstance(message, wire.ModelStreamChunk)]
    assert [chunk.part_type for chunk in chunks] == ["start", "start_step", "finish_step", "finish"]
    assert messages.index(chunks[-1]) < messages.index(wire.Reasoning(session_id="s", kind="summary", text="thinks"))


def test_only_what_the_last_step_says_is_the_answer() -> None:
    first = step(1, message("reasoning", "a"), message("assistant", "b"))
    messages = said(*turn(*first, *step(2, message("assistant", "c"))))
    whole = [message for message in messages if isinstance(message, wire.AssistantMessage | wire.Reasoning)]
    assert whole == [wire.AssistantMessage(session_id="s", text="c")]


@pytest.mark.parametrize("text", ["", " ", "\n\t"], ids=["empty", "blank", "lines"])
def test_nothing_is_said_of_a_blank_answer(text: str) -> None:
    messages = said(*turn(*step(1, message("assistant", text), message("reasoning", text))))
    assert not [message for message in messages if isinstance(message, wire.AssistantMessage | wire.Reasoning)]


@pytest.mark.parametrize("provider", ["openai", "codex-cli", "anthropic", "google", "claude-code", "ollama"])
def test_the_provider_says_how_thoughts_are_called(provider: str) -> None:
    messages = said(*turn(*step(1, message("reasoning", "x"), provider=provider)))
    (thought,) = (message for message in messages if isinstance(message, wire.Reasoning))
    assert thought.kind == ("summary" if provider in ("openai", "codex-cli") else "reasoning")


@pytest.mark.parametrize(
    ("problem", "code", "source"),
    [
        (Problem(code="provider_unauthorized", message="no"), "provider_error", "provider"),
        (Problem(code="invalid_request", message="no", source="provider"), "provider_error", "provider"),
        (Problem(code="blocked", message="no"), "permission_denied", "permissions"),
        (Problem(code="mcp_required", message="no", source="tool"), "internal_error", "tool"),
        (Problem(code="internal", message="cancel, abort, oauth, checkpoint"), "internal_error", "session"),
        (None, "internal_error", "session"),
    ],
    ids=[str(row) for row in range(6)],
)
def test_a_failed_turn_says_why_before_its_checkpoint(problem: Problem | None, code: str, source: str) -> None:
    messages = without_chunks(said(*turn(*step(1, message("assistant", "half")), outcome="failed", problem=problem)))
    assert names(messages) == ["user_message", "session_busy", "error", "session_backup_state", "session_busy"]
    (error,) = (message for message in messages if isinstance(message, wire.Error))
    assert (error.code, error.source) == (code, source)


@pytest.mark.parametrize("outcome", ["cancelled", "interrupted"])
def test_a_turn_that_was_ended_has_no_error_and_no_answer(outcome: str) -> None:
    messages = said(*turn(*step(1, message("assistant", "half")), outcome=outcome))
    assert names(without_chunks(messages)) == ["user_message", "session_busy", "session_backup_state", "session_busy"]
    chunks = [message for message in messages if isinstance(message, wire.ModelStreamChunk)]
    assert chunks[-1].part_type == "abort"


def test_an_automatic_checkpoint_that_failed_is_an_error() -> None:
    facts = turn()
    facts[3] = CheckpointTaken(checkpoint="cp-0001", trigger="auto", problem="no room")
    (error,) = (message for message in said(*facts) if isinstance(message, wire.Error))
    assert error.message == "automatic checkpoint failed: no room"
    assert (error.code, error.source) == ("backup_error", "backup")


def test_the_echo_has_the_clients_own_id() -> None:
    prompt = PromptSubmitted(prompt="p", text="hi", by="local", via="coworker", client_message_id="0:x")
    own = msgspec.structs.replace(prompt, detail={"client_message_id": "x"})
    assert said(prompt) == [wire.UserMessage(session_id="s", text="hi", client_message_id="0:x")]
    assert said(own) == [wire.UserMessage(session_id="s", text="hi", client_message_id="x")]


def test_a_dialog_is_asked_question_by_question_and_each_one_once() -> None:
    questions = (Question("1?"), Question("2?"))
    opened = DecisionOpened(decision="d", kind="question", text="x", questions=questions, ready=False)
    messages = said(
        opened,
        DecisionRevised(decision="d", ready=True),
        DecisionRevised(decision="d", text="more is known"),
        DecisionRevised(decision="d", question_current=1),
        DecisionResolved(decision="d", outcome="cancelled"),
    )
    assert messages == [
        wire.Ask(session_id="s", request_id="d#1", question="1?"),
        wire.PromptVoid(session_id="s", request_id="d#1", outcome="answered"),
        wire.Ask(session_id="s", request_id="d#2", question="2?"),
        wire.PromptVoid(session_id="s", request_id="d#2", outcome="cancelled"),
    ]


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (
            SettingsChanged(changes={"model": "x"}),
            [
                wire.ConfigUpdated(
                    session_id="s",
                    config=wire.Config(
                        provider="google", model="x", working_directory="/w", output_directory="/w/output"
                    ),
                )
            ],
        ),
        (
            SettingsChanged(changes={"provider": "openai"}),
            [
                wire.ConfigUpdated(
                    session_id="s",
                    config=wire.Config(
                        provider="openai", model="", working_directory="/w", output_directory="/w/output"
                    ),
                )
            ],
        ),
        (SettingsChanged(changes={"enable_mcp": False}), [wire.SessionSettings(session_id="s", enable_mcp=False)]),
        (SettingsChanged(changes={"title": "x"}), []),
        (HistoryReset(), [wire.Todos(session_id="s", todos=()), wire.ResetDone(session_id="s")]),
        (
            TodosChanged(todos=(Todo("c", "pending", "doing c"),)),
            [wire.Todos(session_id="s", todos=(wire.TodoItem(content="c", status="pending", active_form="doing c"),))],
        ),
        (LogWritten(line="x"), [wire.Log(session_id="s", line="x")]),
        (Notified(message="x"), [wire.Log(session_id="s", line="x")]),
        (Compacted(compaction="c", phase="started"), []),
        (Compacted(compaction="c", phase="done"), [wire.Log(session_id="s", line="the context was shortened")]),
        (CheckpointTaken(checkpoint="cp-0001", trigger="initial"), []),
        (CheckpointTaken(checkpoint="cp-0001", trigger="safety"), []),
        (CheckpointTaken(checkpoint="cp-0001", trigger="manual", problem="x"), []),
    ],
    ids=[str(row) for row in range(13)],
)
def test_what_a_fact_says_by_itself(fact: AnyFact, expected: list[wire.ServerMessage]) -> None:
    assert said(fact) == expected


def test_checkpoints_are_told_as_they_come_and_go() -> None:
    messages = said(
        CheckpointTaken(checkpoint="cp-0000", trigger="initial"),
        CheckpointTaken(checkpoint="cp-0001", trigger="manual", size=3),
        CheckpointTaken(checkpoint="cp-0002", trigger="safety"),
        CheckpointRestored(checkpoint="cp-0000"),
        CheckpointDeleted(checkpoint="cp-0002"),
        CheckpointDeleted(checkpoint="cp-0001"),
    )
    told_ = [message for message in messages if isinstance(message, around.SessionBackupState)]
    assert messages == told_
    assert [message.reason for message in told_] == ["manual_checkpoint", "restore", "delete"]
    assert [[each.id for each in message.backup.checkpoints] for message in told_] == [["cp-0001"], ["cp-0001"], []]


# A terminal session


def test_a_terminal_session_names_its_agent_and_what_that_reports() -> None:
    log = events(TERMINAL, UsageReported(message="m", model="opus"))
    assert begin(log, 1).config().provider == "claude"
    assert begin(log, 1).config().model == "claude -c"
    assert begin(log, 2).config().model == "opus"
    assert [type(message) for message in told(log)] == [wire.ConfigUpdated]


def test_a_terminal_that_works_of_its_own_is_busy_and_says_what_it_says_at_once() -> None:
    messages = said(
        AgentStarted(),
        StateChanged(prev="starting", next="idle", cause="screen"),
        StateChanged(prev="idle", next="working", cause="screen"),
        message("user", "typed", turn=None),
        message("assistant", "answered", turn=None),
        DecisionOpened(decision="d", kind="permission", text="Bash(rm x)"),
        StateChanged(prev="working", next="prompt", cause="screen", decision="d"),
        DecisionResolved(decision="d", outcome="answered"),
        StateChanged(prev="prompt", next="idle", cause="screen"),
        AgentExited(cause="exit", code=3),
        first=TERMINAL,
    )
    assert names(messages) == [
        *("session_busy", "user_message", "assistant_message", "approval", "prompt_void", "session_busy", "log")
    ]


def test_what_a_terminal_says_in_a_turn_is_told_as_it_comes() -> None:
    facts = turn(message("assistant", "one"), message("assistant", "two"))
    messages = said(*facts, first=TERMINAL)
    answers = [message.text for message in messages if isinstance(message, wire.AssistantMessage)]
    assert answers == ["one", "two"]


@pytest.mark.parametrize(
    ("first", "models"),
    [(TERMINAL, ["claude -c", "learnt", "set", "its own"]), (CREATED, ["gemini", "gemini", "set", "its own"])],
    ids=["terminal", "native"],
)
def test_a_model_that_is_learnt_in_a_turn_is_told_alike_wherever_a_link_begins(
    first: SessionCreated, models: list[str]
) -> None:
    log = events(
        first,
        TurnStarted(turn="t", prompt="p"),
        PartStarted(turn="t", part="a", kind="text"),
        PartDelta(turn="t", part="a", kind="text", text="one"),
        UsageReported(message="m", turn="t", model="learnt"),
        PartDelta(turn="t", part="a", kind="text", text="two"),
        SettingsChanged(changes={"model": "set"}),
        PartDelta(turn="t", part="a", kind="text", text="three"),
        StepStarted(turn="t", step=1, provider="openai", model="its own"),
        SettingsChanged(changes={"model": "set again"}),
        PartDelta(turn="t", part="a", kind="text", text="four"),
        TurnEnded(turn="t", outcome="completed"),
    )
    whole = begin(log, 1)
    in_order = [whole.project(event) for event in log[1:]]
    for cursor in range(2, len(log)):
        joined = begin(log, cursor)
        assert [joined.project(event) for event in log[cursor:]] == in_order[cursor - 1 :], cursor
    chunks = [it for it in told(log) if isinstance(it, wire.ModelStreamChunk) and it.part_type == "text_delta"]
    assert [chunk.model for chunk in chunks] == models

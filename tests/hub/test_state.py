"""The fold: a state is its log, and nothing else, wherever one begins to read it (invariant 2)."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    Answer,
    AnyFact,
    DecisionOpened,
    DecisionResolved,
    DecisionRevised,
    Event,
    HistoryReset,
    HookAnswered,
    HookSignalled,
    LogWritten,
    MessageAdded,
    Option,
    PromptSubmitted,
    SessionClosed,
    SettingsChanged,
    StateChanged,
    TerminalReserved,
    TerminalResized,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from dragoman.hub.standing import StopSignal
from dragoman.hub.state import SessionState, decode_state, encode_state

from .checker import check_log
from .facts import CREATED, any_fact, logs
from .rig import fold, same_state


def after(*facts: AnyFact) -> SessionState:
    """The state of a session in which this has happened."""
    return fold(Event(seq, 1000 + seq, "e", fact) for seq, fact in enumerate((CREATED, *facts), 1))


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(log=logs(), data=st.data())
def test_a_snapshot_anywhere_and_the_rest_give_the_fold_of_the_whole_log(log: list[Event], data: st.DataObject) -> None:
    """Invariant 2: any sequence of facts, a snapshot at any cursor, or at several."""
    check_log(log)
    whole = fold(log)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(log)), max_size=3)))
    state, done = SessionState(session="s"), 0
    for cut in cuts:
        fold(log[done:cut], state=state)
        state, done = decode_state(encode_state(state)), cut
    fold(log[done:], state=state)
    assert same_state(state, whole)
    assert state.row() == whole.row()


@settings(max_examples=200)
@given(facts=st.lists(any_fact, max_size=12), cut=st.integers(0, 13))
def test_that_holds_for_nonsense_too(facts: list[Any], cut: int) -> None:
    """A fold never fails on what is readable: the log is there, and must be shown."""
    log = [Event(seq, seq, "e", fact) for seq, fact in enumerate([CREATED, *facts], 1)]
    half = decode_state(encode_state(fold(log[:cut])))
    assert same_state(fold(log[cut:], state=half), fold(log))


def test_events_must_come_in_order_and_without_a_gap() -> None:
    """Invariant 1."""
    state = after()
    for seq in (1, 3):
        with pytest.raises(AssertionError):
            state.apply(Event(seq, 0, "e", LogWritten(line="x")))


PROMPT = PromptSubmitted(prompt="p", text="hi", by="local", via="x")
TURN = TurnStarted(turn="t", prompt="p")
ASKED = DecisionOpened(decision="d", kind="permission", text="rm", tool="Bash")
RUN = AgentStarted(pid=7, cols=80, rows=24, tape_offset=0, tape_reserved=100)

SUMMARIES: dict[str, tuple[str, bool, tuple[AnyFact, ...]]] = {
    "new": ("idle", False, ()),
    "a prompt waits": ("idle", True, (PROMPT,)),
    "a turn runs": ("working", True, (PROMPT, TURN)),
    "a turn is over": ("idle", False, (PROMPT, TURN, TurnEnded(turn="t", outcome="completed"))),
    "a decision is open": ("waiting", True, (PROMPT, TURN, ASKED)),
    "a program starts": ("working", True, (RUN,)),
    "a program is idle": ("idle", True, (RUN, StateChanged(prev="starting", next="idle", cause="x"))),
    "a program asks": ("waiting", True, (RUN, StateChanged(prev="starting", next="prompt", cause="x"))),
    "a program has ended": ("exited", False, (RUN, AgentExited(cause="exit", code=0))),
    "a program is started again": ("working", True, (RUN, AgentExited(cause="exit"), AgentStarted(run=2))),
    "a call is open": ("idle", True, (ToolCalled(call="c", tool="x"),)),
    "a call is over": ("idle", False, (ToolCalled(call="c", tool="x"), ToolEnded(call="c", tool="x", status="ok"))),
    "closed": ("closed", False, (SessionClosed(reason="x"),)),
}


@pytest.mark.parametrize(("summary", "unsettled", "facts"), SUMMARIES.values(), ids=SUMMARIES)
def test_one_word_for_lists(summary: str, unsettled: bool, facts: tuple[AnyFact, ...]) -> None:
    """Invariants 6 and 9: "idle" only when nothing runs, and unsettled exactly while something would be lost."""
    row = after(*facts).row()
    assert (row.status, row.unsettled) == (summary, unsettled)


def test_settings_change_key_by_key_and_null_removes() -> None:
    state = after(SettingsChanged(changes={"a": 1, "b": 2}), SettingsChanged(changes={"a": None, "title": "new"}))
    assert (state.settings, state.title) == ({"b": 2, "title": "new"}, "new")


def test_only_a_text_can_be_a_title() -> None:
    assert after(SettingsChanged(changes={"title": 5})).title == "t"
    assert after(SettingsChanged(changes={"title": None})).title == "t"


def test_a_revision_changes_only_what_it_says() -> None:
    state = after(ASKED, DecisionRevised(decision="d", options=(Option("a"),), question_current=1))
    opened = state.decisions["d"]
    assert (opened.options, opened.question_current) == ((Option("a"),), 1)
    assert (opened.text, opened.tool, opened.kind, opened.ready) == ("rm", "Bash", "permission", True)


def test_a_revision_of_nothing_changes_nothing() -> None:
    assert after(DecisionRevised(decision="d", text="x")).decisions == {}


def test_a_terminal_keeps_size_offsets_and_runs() -> None:
    state = after(RUN, TerminalResized(cols=100, rows=30, tape_offset=5), TerminalReserved(tape_reserved=200))
    assert state.executor is not None
    assert (state.executor.cols, state.executor.rows, state.tape_reserved, state.runs) == (100, 30, 200, 1)
    ended = after(RUN, AgentExited(cause="signal", signal=9, tape_offset=42))
    assert ended.exit is not None
    assert (ended.executor, ended.exit.signal, ended.tape_end) == (None, 9, 42)


def test_an_exit_that_knows_no_offset_keeps_the_last_one() -> None:
    moved = StateChanged(prev="starting", next="working", cause="x", tape_offset=17)
    assert after(RUN, moved, AgentExited(cause="exit")).tape_end == 17


def test_a_status_counts_its_changes_and_keeps_its_time() -> None:
    """The count lets a client tell one state from the next, over runs too."""
    state = after(
        RUN,
        StateChanged(prev="starting", next="working", cause="a"),
        StateChanged(prev="working", next="working", cause="b"),
        StateChanged(prev="working", next="idle", cause="c"),
    )
    assert (state.status.state, state.status.seq, state.status.cause, state.status.since) == ("idle", 3, "c", 1005)
    again = fold(
        [Event(6, 2000, "e", AgentExited(cause="exit")), Event(7, 2001, "e", AgentStarted(run=2))], state=state
    )
    assert (again.status.state, again.status.seq) == ("starting", 3)


def test_the_prompt_is_the_open_decision_that_the_state_names() -> None:
    opened = DecisionOpened(decision="d", kind="permission", text="may I?")
    other = DecisionOpened(decision="e", kind="question", text="which?")
    asked = after(RUN, opened, other, StateChanged(prev="working", next="prompt", cause="hook", decision="d"))
    assert (asked.status.decision, asked.prompt) == ("d", opened)
    revised = fold([Event(6, 0, "e", DecisionRevised(decision="d", text="may I really?"))], state=asked)
    assert revised.prompt is not None
    assert revised.prompt.text == "may I really?"
    assert fold([Event(7, 0, "e", DecisionResolved(decision="d", outcome="answered"))], state=revised).prompt is None
    assert after(RUN, opened, StateChanged(prev="starting", next="working", cause="hook")).prompt is None


def test_answers_to_a_part_of_a_dialog_are_kept_until_its_end() -> None:
    said = (Answer(option=1),)
    asked = after(
        DecisionOpened(decision="d", kind="question", text="?"),
        DecisionRevised(decision="d", answered=said, question_current=1),
        DecisionRevised(decision="d", ready=True),
    )
    assert (asked.answered, asked.decisions["d"].question_current) == ({"d": said}, 1)
    assert fold([Event(5, 0, "e", DecisionResolved(decision="d", outcome="cancelled"))], state=asked).answered == {}


def test_a_stop_signal_is_kept_until_a_stop_uses_it_up() -> None:
    """Also one that says null; the last one said counts; another verdict leaves it."""
    other = HookAnswered(hook="stop", verdict="error")
    waiting = after(HookSignalled(signal={"a": 1}), HookSignalled(signal=None), other)
    assert waiting.stop_signal == StopSignal(None)
    used = fold([Event(5, 0, "e", HookAnswered(hook="stop", verdict="signaled"))], state=waiting)
    assert (used.stop_signal, used.hooks) == (None, {"stop": 2})


def test_the_last_message_is_the_assistants_until_history_is_reset() -> None:
    said = MessageAdded(message="m", role="assistant", text="hello")
    others = (
        MessageAdded(message="n", role="user", text="hi"),
        MessageAdded(message="o", role="reasoning", text="hm"),
        MessageAdded(message="p", role="assistant", text="  "),
    )
    assert after(said, *others).status.last_message == "hello"
    assert after(said, HistoryReset()).status.last_message is None


def test_the_reported_model_is_that_of_the_newest_tokens_that_name_one() -> None:
    named = UsageReported(message="m", model="opus")
    assert after(UsageReported(message="l", model="haiku"), named, UsageReported(message="n")).reported_model == "opus"


def test_every_reset_of_the_conversation_counts() -> None:
    assert after(HistoryReset(), HistoryReset()).resets == 2


def test_every_fact_that_the_checker_counts_moves_the_fold() -> None:
    """A fact type nobody folds is fine; that one was forgotten is not. Whoever adds one decides here."""
    from dragoman.hub.state import _FOLDS

    not_folded = {kind.__name__ for kind in get_args(AnyFact) if kind not in _FOLDS}
    assert not_folded == {
        *("StepStarted", "StepEnded", "PartStarted", "PartDelta", "PartEnded", "RawPart"),
        *("SourceCited", "ContextReported", "LogWritten", "ToolProgressed"),
        *("SubagentStarted", "SubagentEnded", "ClientToolsDeclared", "TodosChanged", "Notified"),
        *("ArtifactStored", "CheckpointRestored"),
    }


def permitted(answer: Answer, **asked: Any) -> list[str]:
    """The grants after one permission was answered so, in a log that ends there and in one that is closed."""
    opened = DecisionOpened(decision="d", text="?", **{"kind": "permission", "detail": {"grant": "run npm"}, **asked})
    facts = (opened, DecisionResolved(decision="d", outcome="answered", answer=answer))
    assert after(*facts, SessionClosed(reason="x")).grants == []
    return after(*facts, HistoryReset()).grants


@pytest.mark.parametrize(
    ("answer", "asked", "grants"),
    [
        (Answer(accept=True, scope="session"), {}, ["run npm"]),
        (Answer(accept=True, scope="read *"), {}, ["read *"]),
        (Answer(accept=True, scope="once"), {}, []),
        (Answer(accept=True), {}, []),
        (Answer(accept=False, scope="session"), {}, []),
        (Answer(scope="session"), {}, []),
        (Answer(accept=True, scope="session"), {"detail": {}}, []),
        (Answer(accept=True, scope="session"), {"detail": {"grant": 7}}, []),
        (Answer(accept=True, scope="session"), {"detail": {"grant": "this", "tool_grant": "all"}}, ["this"]),
        (Answer(accept=True, scope="tool"), {"detail": {"grant": "this", "tool_grant": "all"}}, ["all"]),
        (Answer(accept=True, scope="tool"), {"detail": {"grant": "this"}}, ["this"]),
        (Answer(accept=True, scope="tool"), {"detail": {}}, []),
        (Answer(accept=False, scope="tool"), {"detail": {"tool_grant": "all"}}, []),
        (Answer(accept=True, scope="session"), {"kind": "plan"}, []),
    ],
)
def test_a_permission_for_more_than_once_is_kept_until_the_session_ends(
    answer: Answer, asked: dict[str, Any], grants: list[str]
) -> None:
    assert permitted(answer, **asked) == grants


def test_a_snapshot_from_before_there_were_grants_and_client_calls_can_be_read() -> None:
    state = after(ToolCalled(call="c", tool="t", input={"a": 1}))
    old = msgspec.json.decode(encode_state(state))
    del old["grants"]
    for name in ("input", "client", "bundle", "position", "bundle_size"):
        del old["calls"]["c"][name]
    read = decode_state(msgspec.json.encode(old))
    assert (read.grants, read.calls["c"].client) == ([], None)

"""The checker itself: it takes what a hub writes, and it complains about each thing that no log may say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    Answer,
    AnyFact,
    CancelRequested,
    CheckpointDeleted,
    CheckpointRestored,
    CheckpointTaken,
    DecisionOpened,
    DecisionResolved,
    DecisionRevised,
    Event,
    LogWritten,
    PartDelta,
    PartStarted,
    PromptSubmitted,
    PromptTaken,
    PromptWithdrawn,
    SessionClosed,
    SessionCreated,
    StateChanged,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)

from .checker import LogBroken, check_log

CREATED = SessionCreated(kind="scripted", agent="unknown", cwd="/", title="t", owner="local")


def log_of(*facts: AnyFact, epoch: str = "one") -> list[Event]:
    return [Event(seq, seq, epoch, fact) for seq, fact in enumerate((CREATED, *facts), 1)]


def prompt(name: str, **more: Any) -> PromptSubmitted:
    return PromptSubmitted(prompt=name, text="hello", by="local", via="test", **more)


def turn(name: str, number: str = "t") -> tuple[AnyFact, AnyFact]:
    return prompt(name), TurnStarted(turn=number, prompt=name)


ENDED = TurnEnded(turn="t", outcome="completed")
ASKED = DecisionOpened(decision="d", kind="permission", text="rm", turn="t")
FIRST = CheckpointTaken(checkpoint="a", trigger="initial")
SAFE = CheckpointTaken(checkpoint="z", trigger="safety")
RUN = AgentStarted(pid=1, tape_offset=0, tape_reserved=100)

SOUND = {
    "a dialog that turned out to be no secret": (
        DecisionOpened(decision="d", kind="permission", text="x", secret=True),
        DecisionRevised(decision="d", cause="enriched", secret=False),
        DecisionResolved(decision="d", outcome="answered", answer=Answer(text="no")),
    ),
    "a turn": (*turn("p"), ENDED),
    "a queue": (prompt("p"), TurnStarted(turn="t", prompt="p"), prompt("q"), ENDED, TurnStarted(turn="u", prompt="q")),
    "steering": (*turn("p"), prompt("q", steer=True), PromptTaken(prompt="q", turn="t"), ENDED),
    "a withdrawal": (prompt("p"), PromptWithdrawn(prompt="p", reason="withdrawn")),
    "a cancel": (*turn("p"), CancelRequested(turn="t", by="x", via="y"), TurnEnded(turn="t", outcome="cancelled")),
    "a call": (*turn("p"), ToolCalled(call="c", tool="x", turn="t"), ToolEnded(call="c", tool="x", status="ok"), ENDED),
    "a decision": (
        *turn("p"),
        ASKED,
        DecisionResolved(decision="d", outcome="answered", answer=Answer(accept=True)),
        ENDED,
    ),
    "a decision answered at the terminal": (
        DecisionOpened(decision="d", kind="plan", text="?"),
        DecisionResolved(decision="d", outcome="answered", via="terminal"),
    ),
    "two runs": (RUN, AgentExited(cause="exit", tape_offset=9), AgentStarted(run=2, tape_offset=9, tape_reserved=100)),
    "one prompt after the other": (
        RUN,
        StateChanged(prev="starting", next="prompt", cause="x", decision="d"),
        StateChanged(prev="prompt", next="prompt", cause="x", decision="e"),
    ),
    "checkpoints": (
        FIRST,
        *turn("p"),
        CheckpointTaken(checkpoint="b", trigger="auto"),
        ENDED,
        SAFE,
        CheckpointDeleted(checkpoint="b"),
        CheckpointRestored(checkpoint="a"),
    ),
    "an exit that came too late": (RUN, SessionClosed(reason="closed"), AgentExited(cause="closed")),
}

BROKEN = {
    "created twice": (CREATED,),
    "two turns at once": (*turn("p"), *turn("q", "u")),
    "a prompt that runs twice": (*turn("p"), ENDED, TurnStarted(turn="u", prompt="p")),
    "a prompt that nobody sent": (TurnStarted(turn="t", prompt="p"),),
    "a prompt out of turn": (prompt("p"), prompt("q"), TurnStarted(turn="t", prompt="q")),
    "a prompt that was withdrawn": (
        prompt("p"),
        PromptWithdrawn(prompt="p", reason="x"),
        TurnStarted(turn="t", prompt="p"),
    ),
    "a taken prompt that did not steer": (*turn("p"), prompt("q"), PromptTaken(prompt="q", turn="t")),
    "a message accepted twice": (prompt("p", client_message_id="m"), prompt("q", client_message_id="m")),
    "an end of another turn": (*turn("p"), TurnEnded(turn="u", outcome="completed")),
    "a turn that ends twice": (*turn("p"), ENDED, ENDED),
    "a cancelled turn that nobody cancelled": (*turn("p"), TurnEnded(turn="t", outcome="cancelled")),
    "a call without a result": (*turn("p"), ToolCalled(call="c", tool="x", turn="t"), ENDED),
    "a call with two results": (
        ToolCalled(call="c", tool="x"),
        ToolEnded(call="c", tool="x", status="ok"),
        ToolEnded(call="c", tool="x", status="ok"),
    ),
    "a result of nothing": (ToolEnded(call="c", tool="x", status="ok"),),
    "a decision left open by its turn": (*turn("p"), ASKED, ENDED),
    "a decision with two outcomes": (
        *turn("p"),
        ASKED,
        DecisionResolved(decision="d", outcome="cancelled"),
        DecisionResolved(decision="d", outcome="answered", answer=Answer(accept=True)),
    ),
    "a cancelled decision with an answer": (
        *turn("p"),
        ASKED,
        DecisionResolved(decision="d", outcome="cancelled", answer=Answer(accept=True)),
    ),
    "an answer that is none": (
        DecisionOpened(decision="d", kind="plan", text="?"),
        DecisionResolved(decision="d", outcome="answered", via="coop"),
    ),
    "a secret answer": (
        DecisionOpened(decision="d", kind="setup", text="code", secret=True),
        DecisionResolved(decision="d", outcome="answered", answer=Answer(text="s3cret")),
    ),
    "a checkpoint id that comes again": (FIRST, SAFE, CheckpointDeleted(checkpoint="z"), SAFE),
    "a session that begins twice": (FIRST, CheckpointTaken(checkpoint="b", trigger="initial")),
    "a checkpoint before the first one": (SAFE,),
    "an automatic checkpoint without a turn": (FIRST, CheckpointTaken(checkpoint="b", trigger="auto")),
    "a return without a way back": (FIRST, CheckpointRestored(checkpoint="a")),
    "a return to what is gone": (
        FIRST,
        CheckpointTaken(checkpoint="b", trigger="manual"),
        CheckpointDeleted(checkpoint="b"),
        SAFE,
        CheckpointRestored(checkpoint="b"),
    ),
    "a return to what failed": (
        CheckpointTaken(checkpoint="a", trigger="initial", problem="x"),
        SAFE,
        CheckpointRestored(checkpoint="a"),
    ),
    "a checkpoint deleted twice": (FIRST, SAFE, CheckpointDeleted(checkpoint="z"), CheckpointDeleted(checkpoint="z")),
    "the first checkpoint deleted": (FIRST, CheckpointDeleted(checkpoint="a")),
    "something after the close": (SessionClosed(reason="x"), LogWritten(line="still here")),
    "a prompt left behind by the close": (prompt("p"), SessionClosed(reason="x")),
    "a call left behind by the close": (ToolCalled(call="c", tool="x"), SessionClosed(reason="x")),
    "a turn left behind by the close": (*turn("p"), SessionClosed(reason="x")),
    "two executors": (RUN, AgentStarted(run=2)),
    "an exit of nothing": (AgentExited(cause="exit"),),
    "a run that was counted twice": (RUN, AgentExited(cause="exit"), AgentStarted(run=1)),
    "an offset that runs back": (RUN, AgentExited(cause="exit", tape_offset=9), AgentStarted(run=2, tape_offset=8)),
    "an offset that was not reserved": (RUN, AgentExited(cause="exit", tape_offset=101)),
    "a lost run that gives offsets back": (RUN, AgentExited(cause="server-lost", tape_offset=99)),
    "a state from nowhere": (RUN, StateChanged(prev="idle", next="working", cause="x")),
    "a state told twice": (RUN, StateChanged(prev="starting", next="starting", cause="x")),
    "a prompt told twice": (
        RUN,
        StateChanged(prev="starting", next="prompt", cause="x", decision="d"),
        StateChanged(prev="prompt", next="prompt", cause="x", decision="d"),
    ),
    "a working dead agent": (StateChanged(prev="starting", next="working", cause="x"),),
    "a delta of nothing": (*turn("p"), PartDelta(turn="t", part="a", kind="text", text="x")),
    "a part of no turn": (PartStarted(turn="t", part="a", kind="text"),),
}


def test_a_person_may_end_a_turn_at_the_agents_own_terminal() -> None:
    created = msgspec.structs.replace(CREATED, kind="terminal")
    facts = (created, *turn("p"), TurnEnded(turn="t", outcome="cancelled"))
    check_log([Event(seq, seq, "one", fact) for seq, fact in enumerate(facts, 1)])


@pytest.mark.parametrize("facts", SOUND.values(), ids=SOUND)
def test_a_sound_log_passes(facts: tuple[AnyFact, ...]) -> None:
    check_log(log_of(*facts))


@pytest.mark.parametrize("facts", BROKEN.values(), ids=BROKEN)
def test_a_broken_log_does_not(facts: tuple[AnyFact, ...]) -> None:
    with pytest.raises(LogBroken):
        check_log(log_of(*facts))


@pytest.mark.parametrize("facts", [turn("p"), (ASKED,), (RUN,), (ToolCalled(call="c", tool="x"),)])
def test_what_is_left_open_is_found_where_nothing_may_be(facts: tuple[AnyFact, ...]) -> None:
    events = log_of(*facts) if facts != (ASKED,) else log_of(DecisionOpened(decision="d", kind="plan", text="?"))
    check_log(events)
    with pytest.raises(LogBroken):
        check_log(events, settled=True)


def test_a_hole_a_repeat_and_a_lost_beginning_are_found() -> None:
    events = log_of(prompt("p"), prompt("q"))
    for broken in (events[1:], [events[0], events[2]], [*events, events[-1]]):
        with pytest.raises(LogBroken):
            check_log(broken)


def test_an_epoch_that_comes_back_is_found() -> None:
    one, two, three = log_of(prompt("p"), prompt("q"))
    check_log([one, Event(2, 2, "two", two.fact), Event(3, 3, "three", three.fact)])
    with pytest.raises(LogBroken):
        check_log([one, Event(2, 2, "two", two.fact), three])

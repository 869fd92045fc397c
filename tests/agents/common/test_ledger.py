"""What is news when several sources tell of the same thing."""

from __future__ import annotations

import itertools

import pytest

from dragoman.agents.common.calls import MAX_CALLS
from dragoman.agents.common.hooks import read_hook
from dragoman.agents.common.ledger import MAX_EXPECTED, MAX_IDS, MAX_MESSAGES, Ledger
from dragoman.hub.events import (
    AnyFact,
    Compacted,
    MessageAdded,
    Notified,
    Origin,
    SubagentEnded,
    SubagentStarted,
    ToolCalled,
    ToolEnded,
    UsageReported,
)

from .recorded import hooks, log


@pytest.fixture
def ledger() -> Ledger:
    counter = itertools.count(1)
    return Ledger(lambda: f"new-{next(counter)}")


def says(source: str, role: str, text: str, message: str = "") -> MessageAdded:
    return MessageAdded(message=message, role=role, text=text, origin=Origin(source=source))


def texts(facts: list[AnyFact]) -> list[str]:
    return [fact.text for fact in facts if isinstance(fact, MessageAdded)]


# Messages


def test_a_hooks_last_words_and_the_logs_are_one_message(ledger: Ledger) -> None:
    assert texts(ledger.admit([says("log", "assistant", "All\ndone.", "m1#0")])) == ["All\ndone."]
    assert ledger.admit([says("hook", "assistant", "All done.")]) == []


def test_whoever_comes_first_is_recorded(ledger: Ledger) -> None:
    (first,) = ledger.admit([says("hook", "assistant", "All done.")])
    assert first.message == "new-1"
    assert ledger.admit([says("log", "assistant", "All done.", "m1#0")]) == []


def test_the_same_words_in_two_turns_are_two_messages(ledger: Ledger) -> None:
    facts = []
    for turn in ("one", "two"):
        facts += ledger.admit([says("hook", "user", turn), says("hook", "assistant", "Done.")])
        facts += ledger.admit([says("log", "user", turn, f"u-{turn}"), says("log", "assistant", "Done.", f"m-{turn}")])
    assert texts(facts) == ["one", "Done.", "two", "Done."]


def test_a_log_that_lags_behind_by_turns_says_nothing_new(ledger: Ledger) -> None:
    told = [("user", "go"), ("assistant", "Done."), ("user", "go"), ("assistant", "Done.")]
    assert len(ledger.admit([says("hook", role, text) for role, text in told])) == 4
    assert ledger.admit([says("log", role, text, f"m{n}") for n, (role, text) in enumerate(told)]) == []


def test_words_of_an_earlier_turn_are_not_mistaken_for_those_of_this_one(ledger: Ledger) -> None:
    """The log had "Done." in the middle of the first turn, where no hook tells of it."""
    ledger.admit(
        [says("hook", "user", "one"), says("log", "user", "one", "u1"), says("log", "assistant", "Done.", "a")]
    )
    ledger.admit([says("hook", "user", "two")])
    assert texts(ledger.admit([says("hook", "assistant", "Done.")])) == ["Done."]
    assert ledger.admit([says("log", "user", "two", "u2"), says("log", "assistant", "Done.", "b")]) == []


def test_one_source_that_says_it_twice_means_two(ledger: Ledger) -> None:
    said = [says("log", "assistant", "I will use a tool.", f"m{n}#0") for n in range(2)]
    assert len(ledger.admit(said)) == 2
    assert ledger.admit(said) == []  # but an id is an id


def test_a_block_as_it_is_shown_and_the_last_words_are_one(ledger: Ledger) -> None:
    ledger.admit([says("hook", "assistant", "All done.", "shown#0")])
    assert ledger.admit([says("hook", "assistant", "All done.")]) == []
    assert ledger.admit([says("log", "assistant", "All done.", "m1#0")]) == []


def test_white_space_is_no_message(ledger: Ledger) -> None:
    assert ledger.admit([says("log", "assistant", " \n", "m1#0")]) == []


def test_thoughts_are_known_by_their_id_only(ledger: Ledger) -> None:
    thoughts = [says("log", "reasoning", "Hm.", "m1#0"), says("log", "reasoning", "Hm.", "m2#0")]
    assert len(ledger.admit([*thoughts, *thoughts])) == 2


# Prompts of ours


def test_a_prompt_of_ours_is_not_recorded_when_it_comes_back(ledger: Ledger) -> None:
    ledger.expect_prompt("fix\nit ")
    assert ledger.came_back("fix it")
    assert ledger.admit([says("hook", "user", "fix it")]) == []
    assert not ledger.came_back("fix it")  # the log's word for the same
    assert ledger.admit([says("log", "user", "fix\nit", "u1")]) == []


def test_the_same_words_typed_at_the_terminal_are_a_message(ledger: Ledger) -> None:
    ledger.expect_prompt("go")
    assert ledger.admit([says("hook", "user", "go"), says("log", "user", "go", "u1")]) == []
    assert texts(ledger.admit([says("hook", "user", "go"), says("log", "user", "go", "u2")])) == ["go"]


def test_a_prompt_that_nobody_expects_did_not_come_back(ledger: Ledger) -> None:
    ledger.expect_prompt("mine")
    assert not ledger.came_back("yours")
    assert not ledger.came_back("  ")
    assert texts(ledger.admit([says("hook", "user", "yours")])) == ["yours"]
    assert ledger.came_back("mine")


def test_a_prompt_that_was_overtaken_is_waited_for_no_more(ledger: Ledger) -> None:
    ledger.expect_prompt("lost")
    ledger.expect_prompt("second")
    assert ledger.came_back("second")
    assert not ledger.came_back("lost")


def test_the_answer_to_a_prompt_of_ours_is_one_message(ledger: Ledger) -> None:
    ledger.expect_prompt("go")
    ledger.came_back("go")
    ledger.admit([says("hook", "user", "go"), says("hook", "assistant", "Done.")])
    assert ledger.admit([says("log", "user", "go", "u1"), says("log", "assistant", "Done.", "m1")]) == []


# Tool calls


def called(source: str, call: str, tool: str = "Bash", **input_: str) -> ToolCalled:
    return ToolCalled(call=call, tool=tool, input=input_, executor="agent", origin=Origin(source=source))


def ended(source: str, call: str, tool: str = "Bash", status: str = "ok", **input_: str) -> ToolEnded:
    return ToolEnded(call=call, tool=tool, status=status, input=input_ or None, origin=Origin(source=source))


def test_a_call_has_one_begin_and_one_end(ledger: Ledger) -> None:
    facts = [called("hook", "c1"), called("log", "c1"), ended("hook", "c1"), ended("log", "c1"), called("log", "c1")]
    assert ledger.admit(facts) == [facts[0], facts[2]]


def test_an_end_without_a_begin_gets_one(ledger: Ledger) -> None:
    begin, end = ledger.admit([ended("log", "c1", "")])
    assert isinstance(begin, ToolCalled)
    assert (begin.call, begin.tool) == (end.call, end.tool) == ("c1", "unknown")


def test_an_end_takes_the_name_of_its_tool_from_the_begin(ledger: Ledger) -> None:
    _, end = ledger.admit([called("log", "c1", "Write"), ended("log", "c1", "")])
    assert end.tool == "Write"


def test_calls_without_ids_are_paired_in_order(ledger: Ledger) -> None:
    facts = ledger.admit(
        [
            called("hook", "", a="1"),
            called("hook", "", a="2"),
            called("hook", "", a="1"),
            ended("hook", "", a="2"),
            ended("hook", "", a="1"),
            ended("hook", "", a="1"),
        ]
    )
    assert [fact.call for fact in facts] == ["new-1", "new-2", "new-3", "new-2", "new-1", "new-3"]


def test_an_end_without_id_and_begin(ledger: Ledger) -> None:
    begin, end = ledger.admit([ended("hook", "", a="1")])
    assert begin.call == end.call == "new-1"


def test_a_log_that_knows_the_id_tells_of_the_call_that_the_hook_could_not_name(ledger: Ledger) -> None:
    ledger.admit([called("hook", "", a="1"), ended("hook", "", a="1")])
    assert ledger.admit([called("log", "fc_1", a="1"), ended("log", "fc_1", a="1")]) == []
    assert len(ledger.admit([called("log", "fc_2", a="1"), ended("log", "fc_2", a="1")])) == 2


def test_a_call_that_was_refused_is_not_the_one_that_is_tried_again(ledger: Ledger) -> None:
    """Gemini fires no hook for a call that is refused; its log tells."""
    ledger.admit([called("log", "fc_1", a="1"), ended("log", "fc_1", status="denied", a="1")])
    facts = ledger.admit([called("hook", "", a="1"), ended("hook", "", a="1")])
    assert [type(fact) for fact in facts] == [ToolCalled, ToolEnded]
    assert ledger.admit([called("log", "fc_2", a="1"), ended("log", "fc_2", a="1")]) == []


# The rest


def test_usage_is_told_again_only_when_it_changed(ledger: Ledger) -> None:
    def used(source: str, output: int) -> UsageReported:
        return UsageReported(message="m1", output_tokens=output, origin=Origin(source=source))

    facts = [used("log", 1), used("log", 1), used("stream", 1), used("log", 25), used("log", 25)]
    assert [fact.output_tokens for fact in ledger.admit(facts)] == [1, 25]


def test_a_subagent_begins_and_ends_once_and_may_begin_again(ledger: Ledger) -> None:
    begin, end = SubagentStarted(subagent="a1", name="Explore"), SubagentEnded(subagent="a1")
    assert ledger.admit([begin, begin, end, end, begin, end]) == [begin, end, begin, end]
    assert [type(fact) for fact in ledger.admit([SubagentEnded(subagent="a2")])] == [SubagentStarted, SubagentEnded]


def test_a_compaction_keeps_its_id_and_ends_once(ledger: Ledger) -> None:
    def compacted(source: str, phase: str) -> Compacted:
        return Compacted(compaction="", phase=phase, origin=Origin(source=source))

    started, done, boundary = compacted("hook", "started"), compacted("hook", "done"), compacted("log", "done")
    facts = ledger.admit([started, done, boundary, started, boundary, done, boundary])
    told = [(fact.compaction, fact.phase) for fact in facts]
    assert told == [("new-1", "started"), ("new-1", "done"), ("new-2", "started"), ("new-2", "done"), ("new-3", "done")]


def test_notes_are_always_news(ledger: Ledger) -> None:
    note = Notified(message="look")
    assert ledger.admit([note, note]) == [note, note]


def test_what_is_remembered_is_bounded(ledger: Ledger) -> None:
    for n in range(2 * MAX_IDS):
        ledger.admit([says("log", "assistant", f"word {n}", f"m{n}"), called("hook", f"c{n}")])
        ledger.admit([UsageReported(message=f"m{n}"), SubagentStarted(subagent=f"a{n}")])
        ledger.expect_prompt(f"p{n}")
    assert len(ledger._messages) == len(ledger._usage) == len(ledger._subagents) == MAX_IDS
    assert len(ledger._said) == MAX_MESSAGES
    assert len(ledger._expected) == MAX_EXPECTED
    assert len(ledger._calls._calls) == MAX_CALLS


# Recorded sessions


@pytest.mark.parametrize("name", ["text", "permission", "question", "plan"])
@pytest.mark.parametrize("hooks_first", [True, False])
def test_hooks_and_log_of_one_scenario_say_each_message_once(name: str, hooks_first: bool) -> None:
    """Both recorded with the real program, though not in one run: their words are the same, their ids are not."""
    by_hook = [fact for event, payload in hooks(name) for fact in read_hook("claude", event, payload).facts]
    by_log = [fact for observation in log("claude", name) for fact in observation.facts]
    ledger = Ledger()
    told = by_hook + by_log if hooks_first else by_log + by_hook
    recorded = [fact for fact in ledger.admit(told) if isinstance(fact, MessageAdded)]
    alone = [fact for fact in Ledger().admit(by_log) if isinstance(fact, MessageAdded)]
    assert sorted(texts(recorded)) == sorted(texts(alone))

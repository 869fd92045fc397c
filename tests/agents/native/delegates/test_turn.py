"""Turns that a program runs: what it is told of the conversation, round by round, and what is remembered of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.delegates.port import Assignment, ConversationLost, Report
from dragoman.agents.native.delegates.transcript import with_transcript
from dragoman.agents.native.factory import NativeFactory
from dragoman.agents.native.providers.conversation import AssistantMessage, Call, Text, ToolMessage, UserMessage
from dragoman.agents.native.providers.port import ProviderFailed
from dragoman.agents.native.settings import NativeSettings
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import (
    HistoryMessage,
    LogWritten,
    MessageAdded,
    PromptTaken,
    StepEnded,
    StepStarted,
    TurnEnded,
)
from dragoman.hub.permissions import LOCAL
from tests.agents.native.native_rig import NativeHub, of, outcome, script, settled
from tests.hub.rig import InMemory, proven, until

from .claude_rig import Chooser

PROGRAM: dict[str, Any] = {"provider": "program"}
SCRIPTED: dict[str, Any] = {"provider": "scripted"}


class Program:
    """A delegate that says ``heard`` and keeps what it was given. ``during`` is called in every round."""

    name = "program"

    def __init__(self) -> None:
        self.given: list[Assignment] = []
        self.during: Callable[[Assignment], Any] = lambda _given: None

    async def run(self, assignment: Assignment) -> Report:
        self.given.append(assignment)
        result = self.during(assignment)
        if result is not None:
            await result
        turn, step = assignment.turn, assignment.step
        session = assignment.agent_session or f"own-{len(self.given)}"
        turn.record(StepStarted(turn=turn.turn, step=step, provider=self.name))
        turn.record(MessageAdded(message=turn.session.ids(), role="assistant", text="heard", turn=turn.turn))
        metadata = {"agent_session": session, "paid": step}
        turn.record(StepEnded(turn=turn.turn, step=step, finish_reason="stop", provider_metadata=metadata))
        return Report("heard", step)


@asynccontextmanager
async def program_hub(folder: Path) -> AsyncIterator[tuple[NativeHub, Program]]:
    program = Program()
    factory = NativeFactory(Chooser(program), NativeSettings())
    async with proven(NativeHub(InMemory(), folder, factories=[factory])) as hub:
        assert isinstance(hub, NativeHub)
        yield hub, program


async def test_the_first_round_is_given_just_what_was_said(tmp_path: Path) -> None:
    async with program_hub(tmp_path) as (hub, program):
        session = await hub.session(**PROGRAM, model="big", mode="plan", instructions="Be brief.")
        facts = await hub.turn(session, "Hello", content="Hello, as the client wants it seen")
    given = program.given[0]
    assert (given.text, given.agent_session, given.remembered) == ("Hello, as the client wants it seen", None, {})
    assert (given.model, given.mode, given.instructions, given.step) == ("big", "plan", "Be brief.", 1)
    assert of(facts, TurnEnded)[0].result == "heard"


async def test_a_later_turn_goes_on_and_remembers_what_its_last_step_said(tmp_path: Path) -> None:
    async with program_hub(tmp_path) as (hub, program):
        session = await hub.session(**PROGRAM)
        await hub.turn(session, "One")
        await hub.turn(session, "Two")
    again = program.given[1]
    assert (again.text, again.agent_session) == ("Two", "own-1")
    assert again.remembered == {"agent_session": "own-1", "paid": 1}


async def test_it_goes_on_after_a_restart_of_the_server(tmp_path: Path) -> None:
    async with program_hub(tmp_path) as (hub, program):
        session = await hub.session(**PROGRAM)
        await hub.turn(session, "One")
        await hub.restart()
        await hub.turn(await hub.get(session), "Two")
    assert (program.given[1].text, program.given[1].agent_session) == ("Two", "own-1")


async def test_what_others_answered_meanwhile_is_told_once(tmp_path: Path) -> None:
    async with program_hub(tmp_path) as (hub, program):
        session = await hub.session(**SCRIPTED)
        await hub.turn(session, script("say Said by another"))
        await session.change_settings(LOCAL, PROGRAM)
        await hub.turn(session, "One")
        await session.change_settings(LOCAL, SCRIPTED)
        await hub.turn(session, script("say Said in between"))
        await session.change_settings(LOCAL, PROGRAM)
        await hub.turn(session, "Two")
        await hub.turn(session, "Three")
    first, second, third = (given.text for given in program.given)
    assert "Assistant: Said by another" in first
    assert first.endswith("\n\nOne")
    assert "Assistant: Said in between" in second
    assert "Said by another" not in second
    assert "heard" not in second
    assert second.endswith("\n\nTwo")
    assert third == "Three"
    assert [given.agent_session for given in program.given] == [None, "own-1", "own-1"]


async def test_the_next_model_is_told_what_the_program_said(tmp_path: Path) -> None:
    async with program_hub(tmp_path) as (hub, _):
        session = await hub.session(**PROGRAM)
        await hub.turn(session, "One")
        await session.change_settings(LOCAL, SCRIPTED)
        facts = await hub.turn(session, script("say fine"))
    assert outcome(facts) == "completed"


async def test_a_reset_history_begins_a_new_conversation_that_is_told_nothing(tmp_path: Path) -> None:
    async with program_hub(tmp_path) as (hub, program):
        session = await hub.session(**PROGRAM)
        await hub.turn(session, "One")
        await session.reset_history(LOCAL)
        await hub.turn(session, "Two")
    assert (program.given[1].text, program.given[1].agent_session) == ("Two", None)


async def test_a_merged_history_begins_a_new_conversation_that_is_told_of_it(tmp_path: Path) -> None:
    async with program_hub(tmp_path) as (hub, program):
        session = await hub.session(**PROGRAM)
        await hub.turn(session, "One")
        await session.merge_history(LOCAL, [HistoryMessage("user", "From elsewhere")], replace=True, via="test")
        await hub.turn(session, "Two")
    assert program.given[1].agent_session is None
    assert "User: From elsewhere" in program.given[1].text
    assert "User: One" not in program.given[1].text


async def test_what_was_said_while_a_round_ran_is_another_round(tmp_path: Path) -> None:
    async with program_hub(tmp_path) as (hub, program):
        session = await hub.session(**PROGRAM)

        async def once(given: Assignment) -> None:
            if given.step == 1:
                await hub.submit(session, "More", when_busy="steer")

        program.during = once
        await hub.submit(session, "One")
        await settled(session)
        facts = await hub.facts(session)
    assert [(given.text, given.step, given.agent_session) for given in program.given] == [
        ("One", 1, None),
        ("More", 2, "own-1"),
    ]
    assert len(of(facts, PromptTaken)) == len(of(facts, TurnEnded)) == 1


async def test_a_cancelled_turn_is_no_news_to_the_program_that_was_cancelled(tmp_path: Path) -> None:
    async with program_hub(tmp_path) as (hub, program):
        session = await hub.session(**PROGRAM)
        await hub.turn(session, "One")

        async def for_ever(given: Assignment) -> None:
            given.turn.record(LogWritten(line="waits"))
            await until(lambda: False, seconds=60)

        program.during = for_ever
        await hub.submit(session, "Two")
        await until(lambda: len(program.given) == 2, "the second round")
        await session.cancel(LOCAL, via="test")
        program.during = lambda _given: None
        await hub.turn(session, "Three")
    # what it did not come to say it may not have heard
    assert program.given[2].agent_session == "own-1"
    assert "User: Two" in program.given[2].text


async def test_a_conversation_that_is_lost_is_begun_anew_with_all_that_was_said(tmp_path: Path) -> None:
    async with program_hub(tmp_path) as (hub, program):
        session = await hub.session(**PROGRAM)
        await hub.turn(session, "One")

        async def forget(given: Assignment) -> None:
            if given.agent_session is not None:
                raise ConversationLost("gone")

        program.during = forget
        facts = await hub.turn(session, "Two")
    assert outcome(facts) == "completed"
    assert [given.agent_session for given in program.given] == [None, "own-1", None]
    assert "Assistant: heard" in program.given[2].text
    assert "no longer has its conversation" in of(facts, LogWritten)[0].line


@pytest.mark.parametrize("failure", [ProviderFailed("in its own words"), ConversationLost("in its own words")])
async def test_a_failure_fails_the_turn_with_its_words(tmp_path: Path, failure: Exception) -> None:
    async with program_hub(tmp_path) as (hub, program):

        async def fail(_: Assignment) -> None:
            raise failure

        program.during = fail
        facts = await hub.turn(await hub.session(**PROGRAM), "One")
    ended = of(facts, TurnEnded)[0]
    assert ended.problem.code == "provider_failed"
    assert "in its own words" in ended.problem.message


async def test_its_conversation_is_not_shortened_by_us(tmp_path: Path) -> None:
    async with program_hub(tmp_path) as (hub, _):
        session = await hub.session(**PROGRAM)
        await hub.turn(session, "One")
        with pytest.raises(InvalidRequest, match="program keeps a conversation of its own"):
            await session.compact(LOCAL)


def test_a_transcript_has_the_newest_that_fits_and_says_what_is_left_out() -> None:
    before = [
        UserMessage("a" * 200),
        AssistantMessage((Text("Looking."), Call("c", "read", {"path": "x"}))),
        ToolMessage("c", "read", "b" * 2000, failed=True),
        UserMessage("Newest"),
    ]
    text = with_transcript("Now this", before, 1200)
    assert text.endswith("\n\nNow this")
    assert "aaa" not in text
    assert "[What was said before that is left out.]\n\nAssistant: Looking.\nAssistant used read: " in text
    assert f"Result of read failed: {'b' * 1000} […]\n\nUser: Newest" in text
    assert with_transcript("Now this", [], 1200) == "Now this"

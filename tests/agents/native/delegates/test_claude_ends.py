"""How a turn of Claude Code ends that does not end well: cancelled, failed, killed; nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.agents.common.ending import KillSchedule
from dragoman.agents.common.processes import ProcessTable
from dragoman.agents.native.settings import NativeSettings
from dragoman.agents.native.tools.command import end_lost_commands
from dragoman.hub.events import (
    Answer,
    AnyFact,
    DecisionResolved,
    MessageAdded,
    PartDelta,
    PartEnded,
    PartStarted,
    StepEnded,
    StepStarted,
    ToolEnded,
    TurnEnded,
)
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from tests.agents.native.native_rig import asked, of, outcome, settled
from tests.hub.rig import PATIENCE, shows, until

from .claude_rig import KEY, ClaudeHub, claude_hub

CLAUDE: dict[str, Any] = {"provider": "claude-code"}
ROOT = Path(__file__).parents[4]
QUICK = KillSchedule(terminate=0.05, kill=0.1, give_up=5.0)


async def facts_of(hub: ClaudeHub, session: Session) -> list[AnyFact]:
    return await hub.facts(session)


def failed(facts: list[AnyFact]) -> tuple[str, str]:
    ended = of(facts, TurnEnded)[-1]
    assert ended.outcome == "failed"
    return ended.problem.code, ended.problem.message


def said(session: Session, text: str) -> bool:
    return session.shown.status.last_message == text


async def cancelled(hub: ClaudeHub, session: Session) -> list[AnyFact]:
    """Cancel the turn; its facts. Nothing of the program runs by then (invariant 9)."""
    await session.cancel(LOCAL, via="test")
    assert await hub.living(session.id) == []
    facts = await facts_of(hub, session)
    assert outcome(facts) == "cancelled"
    assert len(of(facts, PartStarted)) == len(of(facts, PartEnded))
    assert len(of(facts, StepStarted)) == len(of(facts, StepEnded))
    return facts


async def goes_on(hub: ClaudeHub, session: Session) -> None:
    """The next prompt is answered, in the same conversation of the program."""
    facts = await hub.turn(session, "text Next")
    assert outcome(facts) == "completed"


# Cancelled


async def test_cancelled_before_it_said_anything(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "wait")
        await until((hub.home / ".fake-claude" / "starts.jsonl").exists, "its start")
        await cancelled(hub, session)
        await goes_on(hub, session)


async def test_cancelled_while_it_speaks(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "begin half a\nwait")
        await shows(session, PartDelta)
        facts = await cancelled(hub, session)
        assert [(message.text, message.kind) for message in of(facts, MessageAdded)] == [("half a", "partial")]
        await goes_on(hub, session)
        assert any(word.startswith("--resume=") for word in hub.starts()[1]["argv"])


async def test_cancelled_while_somebody_is_asked(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "bash ls\ntext Done")
        await asked(session)
        facts = await cancelled(hub, session)
        assert [resolved.outcome for resolved in of(facts, DecisionResolved)] == ["cancelled"]
        assert [end.status for end in of(facts, ToolEnded)] == ["interrupted"]
        await goes_on(hub, session)


async def test_cancelled_though_it_is_deaf_and_has_children_that_are(tmp_path: Path) -> None:
    async with claude_hub(tmp_path, ending=QUICK) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "deaf")
        await until(lambda: said(session, "deaf"), "it is deaf")
        assert len(await hub.living(session.id)) >= 2
        await cancelled(hub, session)
        await goes_on(hub, session)


async def test_cancelled_between_what_it_did(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "read a\ntext Read\nwait")
        await until(lambda: said(session, "Read"), "its words")
        facts = await cancelled(hub, session)
        assert [end.status for end in of(facts, ToolEnded)] == ["ok"]


async def test_closing_the_session_ends_it(tmp_path: Path) -> None:
    async with claude_hub(tmp_path, ending=QUICK) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "deaf")
        await until(lambda: said(session, "deaf"), "it is deaf")
        await session.close("test")
        await until(lambda: session.shown.turn is None, "the end")
        assert await hub.living(session.id) == []


# Failed


async def test_it_fails_in_its_own_words(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        facts = await hub.turn(session, "text Some\nfail API Error: 500 the roof is on fire")
        assert failed(facts) == ("provider_overloaded", "API Error: 500 the roof is on fire")
        assert of(facts, StepEnded)[-1].problem.message == "API Error: 500 the roof is on fire"
        await goes_on(hub, session)


async def test_one_that_is_not_signed_in_is_told_how(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE), "fail Not logged in · Please run /login")
    code, message = failed(facts)
    assert code == "provider_unauthorized"
    assert message.startswith("Not logged in · Please run /login (run 'claude' once")
    assert len(of(facts, StepStarted)) == len(of(facts, StepEnded)) == 1


async def test_its_death_is_told_with_its_last_words_and_without_the_key(tmp_path: Path) -> None:
    async with claude_hub(tmp_path, key=KEY) as hub:
        session = await hub.session(**CLAUDE)
        facts = await hub.turn(session, f"text Some\nread a\ndie the key is {KEY}")
        assert failed(facts) == (
            "provider_failed",
            "claude-code ended without an answer (exit code 3: the key is [key])",
        )
        await goes_on(hub, session)


async def test_its_death_in_the_middle_of_an_answer_closes_what_was_open(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE), "begin half a\ndie")
    assert failed(facts)[1] == "claude-code ended without an answer (exit code 3)"
    assert len(of(facts, PartStarted)) == len(of(facts, PartEnded)) == 1


async def test_its_death_while_somebody_is_asked_ends_the_question(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "bash ls")
        await asked(session)
        for process in await hub.living(session.id):
            os.kill(process.pid, signal.SIGKILL)
        await settled(session)
        facts = await facts_of(hub, session)
    assert failed(facts)[1] == "claude-code ended without an answer (signal 9)"
    assert [resolved.outcome for resolved in of(facts, DecisionResolved)] == ["cancelled"]


async def test_one_that_never_says_a_word_has_failed(tmp_path: Path) -> None:
    async with claude_hub(tmp_path, start_seconds=0.05) as hub:
        (tmp_path / "claude").write_text("#!/bin/sh\nexec sleep 600\n")
        session = await hub.session(**CLAUDE)
        facts = await hub.turn(session, "text Never")
        assert failed(facts)[1] == "claude-code said nothing for 0.05 s (it still runs)"
        assert await hub.living(session.id) == []


@pytest.mark.slow
async def test_one_that_falls_silent_has_failed_but_not_while_somebody_is_asked(tmp_path: Path) -> None:
    async with claude_hub(tmp_path, silence_seconds=1.0) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "bash ls\nwait")
        opened = await asked(session)
        await asyncio.sleep(1.1)  # longer than it may be silent: nothing else would show that nothing happens
        assert list(session.shown.decisions) == [opened.decision]
        await session.answer(LOCAL, opened.decision, Answer(option=1), via="test")
        await settled(session)
        assert failed(await facts_of(hub, session))[1] == "claude-code said nothing for 1 s (it still runs)"


async def test_one_that_does_not_end_is_ended_and_its_turn_is_well(tmp_path: Path) -> None:
    async with claude_hub(tmp_path, end_seconds=0.05, ending=QUICK) as hub:
        session = await hub.session(**CLAUDE)
        facts = await hub.turn(session, "leave\ntext Done")
        assert outcome(facts) == "completed"
        assert await hub.living(session.id) == []


# Lost with the server


async def test_what_a_killed_server_left_running_is_ended_by_the_next_one(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.agents.native.delegates.lost_server", str(tmp_path), "leave\ndeaf"]
    server = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    assert server.stdout is not None
    lost = (await asyncio.wait_for(server.stdout.readline(), PATIENCE)).decode().strip()
    server.kill()
    await server.wait()
    async with claude_hub(tmp_path, ending=QUICK) as hub:
        assert len(await hub.living(lost)) >= 3, "the program, and what it started, outlive the server"
        factory = hub.factories[-1]
        assert set(await factory.sweep([lost])) == {lost}
        await end_lost_commands(lost, limits=NativeSettings().tools, processes=ProcessTable())
        assert await hub.living(lost) == []


async def test_what_a_lost_server_left_running_is_found_and_ended(tmp_path: Path) -> None:
    async with claude_hub(tmp_path, ending=QUICK) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "leave\ntext Left\nwait")
        await until(lambda: said(session, "Left"), "its words")
        # as if the server had been killed: what it knew is gone, its programs run
        left = await hub.living(session.id)
        assert len(left) >= 2
        factory = hub.factories[-1]
        assert set(await factory.sweep([session.id])) == {session.id}
        await factory.recover(session, None)
        assert await hub.living(session.id) == []
        await settled(session)


@pytest.mark.parametrize("old", [False, True])
async def test_a_lost_conversation_is_begun_anew_with_what_was_said(tmp_path: Path, old: bool) -> None:
    environment = {"CLAUDE_FAKE_OLD": "1"} if old else {}
    async with claude_hub(tmp_path, environment=environment) as hub:
        session = await hub.session(**CLAUDE)
        await hub.turn(session, "text One")
        for file in (hub.home / ".fake-claude").glob("*.json"):
            file.unlink()
        facts = await hub.turn(session, "recall")
        assert outcome(facts) == "completed"
        recalled = msgspec.json.decode(of(facts, MessageAdded)[-1].text)
    assert len(recalled) == 1
    assert "User: text One" in recalled[0]
    assert "Assistant: One" in recalled[0]
    assert recalled[0].endswith("\n\nrecall")

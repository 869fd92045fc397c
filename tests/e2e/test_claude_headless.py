"""The real Claude Code as the program that runs a turn: no terminal, no network, a scripted model behind its API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.delegates.claude import ClaudeCode
from dragoman.agents.native.factory import NativeFactory
from dragoman.agents.native.settings import DelegateSettings, NativeSettings
from dragoman.hub.events import (
    Answer,
    AnyFact,
    MessageAdded,
    PartEnded,
    PartStarted,
    PromptTaken,
    SettingsChanged,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    UsageReported,
)
from dragoman.hub.permissions import LOCAL
from tests.agents.native.delegates.claude_rig import Chooser, ClaudeHub
from tests.agents.native.native_rig import answered, asked, of, outcome, settled
from tests.hub.rig import InMemory, proven, shows, until

from . import clis
from .driven import ModelServer
from .homes import KEY, make_home

pytestmark = pytest.mark.e2e

CLAUDE: dict[str, Any] = {"provider": "claude-code"}


@asynccontextmanager
async def real_claude(model: ModelServer, folder: Path) -> AsyncIterator[ClaudeHub]:
    """A hub whose sessions are answered by the program in a fresh HOME, without a sign-in of its own."""
    try:
        home = make_home("claude", folder / "home", folder / "work", model.port, answered=False)
    except clis.Unavailable as missing:
        pytest.skip(str(missing))
    env = {name: value for name, value in home.env.items() if name != "ANTHROPIC_API_KEY"}
    settings = NativeSettings(delegates=DelegateSettings(claude=home.command[0]))
    factory = NativeFactory(Chooser(ClaudeCode(settings, environment=env), KEY), settings)
    async with proven(ClaudeHub(InMemory(), home.cwd, factories=[factory])) as hub:
        assert isinstance(hub, ClaudeHub)
        yield hub


def tokens(facts: list[AnyFact]) -> tuple[int, int]:
    """Tokens in and out, by the rule: the last report of each message counts."""
    last = {report.message: report for report in of(facts, UsageReported)}
    return sum(report.input_tokens for report in last.values()), sum(report.output_tokens for report in last.values())


def balanced(facts: list[AnyFact]) -> bool:
    return len(of(facts, PartStarted)) == len(of(facts, PartEnded)) and len(of(facts, StepStarted)) == len(
        of(facts, StepEnded)
    )


async def test_a_folder_that_nobody_trusted_has_nothing_run(model: ModelServer, tmp_path: Path) -> None:
    work, ran = tmp_path / "work", tmp_path / "ran"
    hooks = {"SessionStart": [{"hooks": [{"type": "command", "command": f"touch {ran}"}]}]}
    (work / ".claude").mkdir(parents=True)
    (work / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}))
    (work / ".mcp.json").write_text(json.dumps({"mcpServers": {"any": {"command": "touch", "args": [str(ran)]}}}))
    async with real_claude(model, tmp_path) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE), "[[say:Hello]]")
    assert outcome(facts) == "completed"
    assert not ran.exists()


async def test_a_text_turn_and_another_in_the_same_conversation(model: ModelServer, tmp_path: Path) -> None:
    async with real_claude(model, tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        first = await hub.turn(session, "[[say:Hello there]]")
        second = await hub.turn(session, "[[say:And again]]")
    for facts, text in ((first, "Hello there"), (second, "And again")):
        assert outcome(facts) == "completed"
        assert balanced(facts)
        assert [message.text for message in of(facts, MessageAdded)] == [text]
        assert of(facts, TurnEnded)[0].result == text
        # what the model server counts for one answer
        assert tokens(facts) == (100, 25)
        assert [report.cost_usd > 0 for report in of(facts, UsageReported)] == [True]
    costs = {report.cost_usd for report in (*of(first, UsageReported), *of(second, UsageReported))}
    assert len(costs) == 1, "a turn costs what it costs, not what the conversation has cost so far"
    names = {step.provider_metadata["agent_session"] for step in (*of(first, StepEnded), *of(second, StepEnded))}
    assert len(names) == 1
    assert of(first, StepStarted)[0].model.startswith("claude-")


async def test_a_command_is_asked_about_and_runs(model: ModelServer, tmp_path: Path) -> None:
    async with real_claude(model, tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "[[bash:echo hello > made.txt]]")
        opened = await answered(session, 1)
        facts = await hub.facts(session)
    assert (opened.kind, opened.text) == ("permission", "echo hello > made.txt")
    assert (tmp_path / "work" / "made.txt").read_text() == "hello\n"
    call, ended = of(facts, ToolCalled)[0], of(facts, ToolEnded)[0]
    assert (call.tool, call.executor, call.call) == ("Bash", "agent", opened.call)
    assert (ended.status, ended.call) == ("ok", call.call)
    assert [step.finish_reason for step in of(facts, StepEnded)] == ["tool_calls", "stop"]
    assert tokens(facts) == (200, 50)
    assert balanced(facts)


async def test_a_refused_edit_is_not_made(model: ModelServer, tmp_path: Path) -> None:
    async with real_claude(model, tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "[[write:hello.txt]]")
        opened = await answered(session, 3)
        facts = await hub.facts(session)
    assert opened.text == "Write hello.txt"
    assert [end.status for end in of(facts, ToolEnded)] == ["denied"]
    assert not (tmp_path / "work" / "hello.txt").exists()
    assert outcome(facts) == "completed"


@pytest.mark.parametrize("mode", ["accept_edits", "all"])
async def test_an_edit_is_made_unasked_where_the_mode_says_so(model: ModelServer, tmp_path: Path, mode: str) -> None:
    async with real_claude(model, tmp_path) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE, mode=mode), "[[write:hello.txt]]")
    assert [end.status for end in of(facts, ToolEnded)] == ["ok"]
    assert (tmp_path / "work" / "hello.txt").read_text() == "hello\n"


async def test_its_questions_are_answered(model: ModelServer, tmp_path: Path) -> None:
    async with real_claude(model, tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "[[ask2]]")
        opened = await asked(session)
        said = Answer(answers=(Answer(option=2), Answer(text="memcached")))
        await session.answer(LOCAL, opened.decision, said, via="test")
        await settled(session)
        facts = await hub.facts(session)
    assert [question.question for question in opened.questions] == ["Which database should we use?", "Which cache?"]
    ended = of(facts, ToolEnded)[0]
    assert ended.status == "ok"
    assert ended.output["answers"] == {"Which database should we use?": "SQLite", "Which cache?": "memcached"}


async def test_a_plan_is_accepted(model: ModelServer, tmp_path: Path) -> None:
    async with real_claude(model, tmp_path) as hub:
        session = await hub.session(**CLAUDE, mode="plan")
        await hub.submit(session, "[[plan]]")
        opened = await answered(session, 1)
        facts = await hub.facts(session)
    assert (opened.kind, opened.tool) == ("plan", "ExitPlanMode")
    assert "1. Write hello.txt" in opened.text
    assert [fact.changes for fact in of(facts, SettingsChanged)] == [{"mode": "ask"}]
    assert outcome(facts) == "completed"


async def test_cancelled_while_it_speaks_it_is_gone_and_goes_on_later(model: ModelServer, tmp_path: Path) -> None:
    async with real_claude(model, tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "[[slow]]")
        await shows(session, PartStarted)
        await session.cancel(LOCAL, via="test")
        assert await hub.living(session.id) == []
        facts = await hub.facts(session)
        assert outcome(facts) == "cancelled"
        assert balanced(facts)
        again = await hub.turn(session, "[[say:Back]]")
    assert outcome(again) == "completed"
    assert of(again, TurnEnded)[0].result == "Back"


async def test_cancelled_while_somebody_is_asked(model: ModelServer, tmp_path: Path) -> None:
    async with real_claude(model, tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "[[bash:echo hello > made.txt]]")
        await asked(session)
        await session.cancel(LOCAL, via="test")
        facts = await hub.facts(session)
    assert [end.status for end in of(facts, ToolEnded)] == ["interrupted"]
    assert not (tmp_path / "work" / "made.txt").exists()


async def test_cancelled_while_its_command_runs_nothing_is_left(model: ModelServer, tmp_path: Path) -> None:
    async with real_claude(model, tmp_path) as hub:
        session = await hub.session(**CLAUDE, mode="all")
        await hub.submit(session, "[[bash:touch begun && sleep 600]]")
        await until((tmp_path / "work" / "begun").exists, "the command runs", 30)
        assert len(await hub.living(session.id)) >= 2
        await session.cancel(LOCAL, via="test")
        assert await hub.living(session.id) == []
        facts = await hub.facts(session)
    assert [end.status for end in of(facts, ToolEnded)] == ["interrupted"]
    assert balanced(facts)


async def test_what_is_said_meanwhile_is_answered_in_the_same_turn(model: ModelServer, tmp_path: Path) -> None:
    async with real_claude(model, tmp_path) as hub:
        session = await hub.session(**CLAUDE)
        await hub.submit(session, "[[bash:echo hello > made.txt]]")
        opened = await asked(session)
        await hub.submit(session, "[[say:Steered]]", when_busy="steer")
        await until(lambda: not session.shown.queue, "it is handed over")
        await session.answer(LOCAL, opened.decision, Answer(option=1), via="test")
        await settled(session)
        facts = await hub.facts(session)
    assert len(of(facts, PromptTaken)) == len(of(facts, TurnEnded)) == 1
    assert of(facts, TurnEnded)[0].result == "Steered"


async def test_an_error_of_its_api_fails_the_turn_in_its_words(model: ModelServer, tmp_path: Path) -> None:
    async with real_claude(model, tmp_path) as hub:
        facts = await hub.turn(await hub.session(**CLAUDE), "[[error:400]]")
    assert outcome(facts) == "failed"
    assert of(facts, TurnEnded)[0].problem.message == "API Error: 400 scripted failure"
    assert balanced(facts)

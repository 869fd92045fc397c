"""The real Codex as a provider: its app server runs the turns, against the scripted model, without a network."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.settings import DelegateSettings, NativeSettings
from dragoman.hub.events import (
    DecisionOpened,
    MessageAdded,
    PromptTaken,
    StepEnded,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    UsageReported,
)
from dragoman.hub.permissions import LOCAL
from tests.agents.native.delegates.codex_rig import CodexHub, codex_hub
from tests.agents.native.native_rig import asked, of, outcome, settled
from tests.hub.rig import until

from . import clis
from .driven import ModelServer
from .homes import make_home

pytestmark = pytest.mark.e2e

FINISHED = "The tool finished. All done."


@pytest.fixture
async def hub(model: ModelServer, tmp_path: Path) -> AsyncIterator[CodexHub]:
    # Not under /tmp: Codex says at its start that it does not like that.
    homes = clis.cache().parent / "homes"
    homes.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=homes, ignore_cleanup_errors=True) as home:
        try:
            made = make_home("codex", Path(home), tmp_path / "project", model.port)
        except clis.Unavailable as missing:
            pytest.skip(str(missing))
        limits = DelegateSettings(codex=made.command[0], pass_environment=("SCRIPTED_KEY",))
        settings = NativeSettings(delegates=limits)
        async with codex_hub(made.cwd, settings=settings, environment=made.env, model="scripted-1") as hub:
            yield hub


def totals(facts: list[Any]) -> tuple[int, int]:
    """Tokens in and out, of all reports."""
    reports = of(facts, UsageReported)
    assert len({report.message for report in reports}) == len(reports)
    return sum(report.input_tokens for report in reports), sum(report.output_tokens for report in reports)


async def test_a_text_turn_and_one_that_goes_on_with_it(hub: CodexHub) -> None:
    session = await hub.session()
    facts = await hub.turn(session, "hi there")
    assert of(facts, TurnEnded)[0].result == "Hello from the scripted model."
    assert totals(facts) == (100, 25)
    thread = of(facts, StepEnded)[-1].provider_metadata["agent_session"]
    hub.assignment["agent_session"] = thread
    facts = await hub.turn(session, "[[say:again]]")
    assert of(facts, TurnEnded)[0].result == "again"
    assert totals(facts) == (100, 25)
    assert of(facts, StepEnded)[-1].provider_metadata["agent_session"] == thread


async def test_a_command_that_stays_in_its_sandbox(hub: CodexHub) -> None:
    facts = await hub.turn(await hub.session(), "[[bash:echo one; echo two]]")
    [called], [ended] = of(facts, ToolCalled), of(facts, ToolEnded)
    assert (called.tool, called.executor, called.input["command"]) == ("exec_command", "agent", "echo one; echo two")
    assert ended.output == {"stdout": "one\ntwo\n", "stderr": "", "exitCode": 0}
    assert of(facts, MessageAdded)[-1].text == FINISHED
    assert totals(facts) == (200, 50)


@pytest.mark.parametrize(("option", "made", "status"), [(1, True, "ok"), (4, False, "denied")])
async def test_a_command_is_asked_about(hub: CodexHub, option: int, made: bool, status: str) -> None:
    session = await hub.session()
    await hub.submit(session, "[[esc:touch made.txt]]")
    opened = await asked(session)
    assert (opened.kind, opened.text) == ("permission", "touch made.txt")
    await hub.answer(session, opened, option=option)
    await settled(session)
    facts = await hub.facts(session)
    assert Path(hub.cwd, "made.txt").exists() is made
    assert of(facts, ToolEnded)[0].status == status
    assert outcome(facts) == "completed"


@pytest.mark.parametrize("mode", ["ask", "accept_edits", "plan", "all"])
async def test_each_mode_holds_for_a_patch(hub: CodexHub, mode: str) -> None:
    session = await hub.session(mode=mode)
    await hub.submit(session, "[[patch:made.txt]]")
    if mode == "ask":
        opened = await asked(session)
        assert [change["path"] for change in opened.input["changes"]] == [str(Path(hub.cwd, "made.txt"))]
        await hub.answer(session, opened, option=1)
    await settled(session)
    facts = await hub.facts(session)
    assert Path(hub.cwd, "made.txt").exists() is (mode != "plan")
    assert len(of(facts, DecisionOpened)) == (mode == "ask")
    assert outcome(facts) == "completed"


async def test_its_questions_are_asked_in_plan_mode(hub: CodexHub) -> None:
    session = await hub.session(mode="plan")
    await hub.submit(session, "[[ask1]]")
    opened = await asked(session)
    assert opened.kind == "question"
    await hub.answer(session, opened, option=2)
    await settled(session)
    assert outcome(await hub.facts(session)) == "completed"


async def test_its_plan_is_put_before_a_person(hub: CodexHub) -> None:
    session = await hub.session(mode="plan")
    await hub.submit(session, "[[say:<proposed_plan>\n# Plan\n1. Do it\n</proposed_plan>]]")
    opened = await asked(session)
    assert (opened.kind, opened.text.strip()) == ("plan", "# Plan\n1. Do it")
    await hub.answer(session, opened, option=1)
    await settled(session)
    assert session.state.settings["mode"] == "ask"
    assert of(await hub.facts(session), TurnEnded)[0].result == "Hello from the scripted model."


async def test_steering_reaches_the_running_turn(hub: CodexHub) -> None:
    session = await hub.session()
    await hub.submit(session, "[[slow]]")
    await until(lambda: session.shown.turn is not None and session.head > 8)
    await hub.submit(session, "[[say:steered]]", when_busy="steer")
    await until(lambda: not session.shown.queue)
    await session.cancel(LOCAL, via="test")
    await settled(session)
    assert len(of(await hub.facts(session), PromptTaken)) == 1


async def test_a_cancel_ends_it_and_the_conversation_goes_on(hub: CodexHub) -> None:
    session = await hub.session()
    facts = await hub.turn(session, "hi")
    hub.assignment["agent_session"] = of(facts, StepEnded)[-1].provider_metadata["agent_session"]
    await hub.submit(session, "[[slow]]")
    await until(lambda: any(part.kind == "text" for part in _open_parts(session)), seconds=20)
    began = session.clock.monotonic()
    await session.cancel(LOCAL, via="test")
    await settled(session)
    assert session.clock.monotonic() - began < 2
    facts = await hub.turn(session, "[[say:still here]]")
    assert of(facts, TurnEnded)[0].result == "still here"
    assert totals(facts) == (100, 25)


async def test_an_error_of_the_model_is_told_in_codex_words(hub: CodexHub) -> None:
    facts = await hub.turn(await hub.session(), "[[error:500]]")
    [ended] = of(facts, TurnEnded)
    assert (ended.outcome, ended.problem.source) == ("failed", "provider")
    assert "high demand" in ended.problem.message


async def test_a_conversation_that_is_not_there_is_lost(hub: CodexHub) -> None:
    hub.assignment["agent_session"] = "01a222b3-4fe4-7202-9f01-83c4b9ad19c9"
    facts = await hub.turn(await hub.session(), "hi")
    assert of(facts, TurnEnded)[0].problem.code == "lost"


def _open_parts(session: Any) -> list[Any]:
    events = session.recent(max(0, session.shown.seq - 3)) or []
    return [event.fact for event in events if hasattr(event.fact, "part")]

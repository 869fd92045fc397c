"""Decisions of turns that began here: a denial once nobody answered for long enough, and never another one's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.dialects.windie.settings import WindieSettings
from dragoman.hub.events import Answer, DecisionResolved, ToolEnded
from dragoman.hub.permissions import LOCAL
from tests.agents.native.native_rig import asked, of, script, settled
from tests.hub.rig import until

from .link_rig import Place, place

COMMAND = script('call bash {"command": "touch made"}', "say done")
TWICE = script('call bash {"command": "touch made"}', 'call bash {"command": "touch made again"}', "say done")
QUESTION = script('call ask {"question": "Which?"}', "say done")


@pytest.fixture
async def quick(tmp_path: Path) -> AsyncIterator[Place]:
    """With tools of the server's own, and little patience."""
    async with place(tmp_path, WindieSettings(host_tools=("bash", "ask"), decision_seconds=0.05)) as opened:
        yield opened


@pytest.fixture
async def patient(tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path, WindieSettings(host_tools=("bash", "ask"), decision_seconds=30)) as opened:
        yield opened


async def test_what_nobody_permits_is_denied_and_the_turn_goes_on(quick: Place) -> None:
    client = await quick.client()
    name = client.ask(COMMAND)
    assert (await client.ended(name)).endswith("done")
    facts = await quick.hub.facts(await quick.session())
    (resolved,) = of(facts, DecisionResolved)
    assert (resolved.outcome, resolved.via) == ("answered", "windie")
    assert resolved.answer.accept is False
    assert [end.status for end in of(facts, ToolEnded)] == ["denied"]
    assert not (Path(quick.hub.cwd) / "made").exists()
    assert any("dragoman chat --session" in frame["payload"].get("text", "") for frame in client.heard)


async def test_each_decision_has_its_own_time(quick: Place) -> None:
    client = await quick.client()
    assert (await client.ended(client.ask(TWICE))).endswith("done")
    assert len(of(await quick.hub.facts(await quick.session()), DecisionResolved)) == 2


async def test_a_question_is_closed_without_an_answer(quick: Place) -> None:
    client = await quick.client()
    name = client.ask(QUESTION)
    assert (await client.ended(name)).endswith("done")
    (resolved,) = of(await quick.hub.facts(await quick.session()), DecisionResolved)
    assert (resolved.outcome, resolved.reason) == ("cancelled", "nobody answered in time")


async def test_who_answers_in_time_is_heard(patient: Place) -> None:
    client = await patient.client()
    name = client.ask(COMMAND)
    session = await patient.session()
    opened = await asked(session)
    await session.answer(LOCAL, opened.decision, Answer(accept=True), via="test")
    assert (await client.ended(name)).endswith("done")
    assert (Path(patient.hub.cwd) / "made").exists()
    await until(lambda: not patient.dialect.tasks, "nothing is looked after any more")


async def test_a_turn_that_began_elsewhere_waits_as_long_as_it_likes(quick: Place) -> None:
    session = await quick.hub.session()
    await session.submit(LOCAL, COMMAND, via="test")
    opened = await asked(session)
    client = await quick.client()
    await client.ended(client.ask(COMMAND))
    assert opened.decision in session.state.decisions
    await session.answer(LOCAL, opened.decision, Answer(accept=False), via="test")
    await settled(session)


async def test_a_server_that_looks_after_decisions_attends_no_session(quick: Place) -> None:
    """An agent elsewhere that asks must not wait for somebody who is not there."""
    session = await quick.hub.session()
    assert not session.attended
    await session.submit(LOCAL, COMMAND, via="test")
    opened = await asked(session)
    await until(lambda: not quick.dialect.tasks, "it was looked at")
    assert not session.attended
    await session.answer(LOCAL, opened.decision, Answer(accept=False), via="test")
    await settled(session)

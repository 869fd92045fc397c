"""What is counted of sessions, and by which labels."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from dragoman.hub.events import (
    Answer,
    DecisionOpened,
    DecisionResolved,
    Problem,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolEnded,
    UsageReported,
)
from dragoman.hub.permissions import LOCAL
from dragoman.hub.turns import TurnContext, TurnFailed
from dragoman.services.observability.figures import OTHER, Names
from tests.hub.rig import until

from .watched import watching


async def test_turns_by_outcome_and_how_long_they_took(tmp_path: Path) -> None:
    async with watching(tmp_path) as watched:

        async def slow(turn: TurnContext) -> None:
            watched.clock.time += 2000

        async def fail(turn: TurnContext) -> None:
            raise TurnFailed(Problem(code="x", message="y"))

        session = await watched.session()
        await watched.turn(session, slow)
        await watched.turn(session, slow)
        await watched.turn(session, fail)
        turns = {"kind": "puppet", "agent": "scripted"}
        assert watched.value("dragoman_turns", **turns, outcome="completed") == 2
        assert watched.value("dragoman_turns", **turns, outcome="failed") == 1
        assert watched.value("dragoman_turn_duration_seconds", kind="puppet") == 3
        assert watched.sums("dragoman_turn_duration_seconds") == {("puppet",): 4.0}


async def test_decisions_open_and_answered(tmp_path: Path) -> None:
    async def ask(turn: TurnContext) -> None:
        await turn.decide(DecisionOpened(decision="d", kind="question", text="Which?"))

    async with watching(tmp_path) as watched:
        session = await watched.session()
        watched.puppets.behave = ask
        await session.submit(LOCAL, "ask", via="test")
        await until(lambda: watched.value("dragoman_decisions_open", kind="question") == 1)
        watched.clock.time += 61_000
        await session.answer(LOCAL, "d", Answer(text="this"), via="test")
        await until(lambda: not session.shown.turn)
        assert watched.value("dragoman_decisions_open", kind="question") == 0
        assert watched.value("dragoman_decisions", kind="question", outcome="answered") == 1
        assert watched.sums("dragoman_decision_wait_seconds") == {("question",): 61.0}


async def test_tokens_are_counted_once_however_often_they_are_reported(tmp_path: Path) -> None:
    """The last report for a message wins, and a count never goes down."""

    async def behave(turn: TurnContext) -> None:
        def report(message: str, given: int, said: int | None, cost: float) -> None:
            turn.record(
                UsageReported(
                    message=message,
                    turn=turn.turn,
                    step=1,
                    model="gpt-x",
                    input_tokens=given,
                    output_tokens=said,
                    cost_usd=cost,
                )
            )

        turn.record(StepStarted(turn=turn.turn, step=1, provider="openai", model="gpt-x"))
        report("a", 100, None, 0.5)
        report("a", 100, 7, 0.75)
        report("a", 90, 7, 0.75)
        report("b", 10, 1, 0.25)
        turn.record(StepEnded(turn=turn.turn, step=1, finish_reason="stop"))

    async with watching(tmp_path) as watched:
        await watched.turn(await watched.session(), behave)
        who = {"provider": "openai", "model": "gpt-x"}
        assert watched.value("dragoman_tokens", **who, type="input") == 110
        assert watched.value("dragoman_tokens", **who, type="output") == 8
        assert watched.value("dragoman_cost_usd", **who) == 1.0
        assert watched.value("dragoman_model_calls", **who, outcome="ok") == 1


async def test_tokens_of_an_agent_with_a_model_of_its_own(tmp_path: Path) -> None:
    async with watching(tmp_path) as watched:
        session = await watched.session()
        session.record(UsageReported(message="m", model="opus", input_tokens=5, output_tokens=2))
        await session.durable(session.head)
        assert watched.labels("dragoman_tokens") == {("scripted", "opus", "input"), ("scripted", "opus", "output")}


async def test_model_calls_by_how_they_ended(tmp_path: Path) -> None:
    async def behave(turn: TurnContext) -> None:
        for step, problem in enumerate((None, Problem(code="provider_overloaded", message="no"))):
            turn.record(StepStarted(turn=turn.turn, step=step, provider="openai", model="gpt-x"))
            turn.record(StepEnded(turn=turn.turn, step=step, finish_reason="stop", problem=problem))
        turn.record(StepStarted(turn=turn.turn, step=9, provider="openai", model="gpt-x"))

    async with watching(tmp_path) as watched:
        await watched.turn(await watched.session(), behave)
        outcomes = {labels[-1] for labels in watched.labels("dragoman_model_calls")}
        assert outcomes == {"ok", "error", "unfinished"}


async def test_tools_are_told_apart_up_to_a_limit_those_of_others_and_our_own(tmp_path: Path) -> None:
    async def behave(turn: TurnContext) -> None:
        for number in range(30):
            for tool, more in ((f"mcp-{number}", {"dynamic": True}), (f"own-{number}", {})):
                turn.record(ToolCalled(call=tool, tool=tool, turn=turn.turn, **more))
                turn.record(ToolEnded(call=tool, tool=tool, status="ok", turn=turn.turn))

    async with watching(tmp_path, metric_names=20) as watched:
        await watched.turn(await watched.session(), behave)
        tools = {tool for tool, _ in watched.labels("dragoman_tool_calls")}
        assert tools == {f"{whose}-{n}" for whose in ("own", "mcp") for n in range(20)} | {OTHER}
        assert watched.value("dragoman_tool_calls", tool=OTHER, status="ok") == 20


def test_names_are_known_once_and_bounded() -> None:
    names = Names(2)
    assert [names.of(name) for name in ("a", "b", "c", "a", None, "")] == ["a", "b", OTHER, "a", "unknown", "unknown"]
    assert len(Names(1).of("x" * 1000)) == 80


async def test_events_are_counted_by_type_with_their_way_to_the_disk(tmp_path: Path) -> None:
    async with watching(tmp_path) as watched:
        await watched.turn(await watched.session())
        assert watched.value("dragoman_events", type="turn.started") == 1
        assert watched.value("dragoman_events", type="session.created") == 1
        total = sum(watched.value("dragoman_events", type=kind) for (kind,) in watched.labels("dragoman_events"))
        assert watched.value("dragoman_journal_latency_seconds") == total


async def test_nothing_is_kept_of_sessions_that_are_at_rest(tmp_path: Path) -> None:
    async with watching(tmp_path) as watched:
        session = await watched.session()
        await watched.turn(session)
        session.record(ToolCalled(call="never ends", tool="Bash", executor="agent"))
        session.record(DecisionOpened(decision="d", kind="question", text=""))
        await session.durable(session.head)
        assert watched.value("dragoman_decisions_open", kind="question") == 1
        await session.close("over")
        assert watched.value("dragoman_decisions_open", kind="question") == 0
        assert not watched.telemetry._activities._open


async def test_an_answer_to_what_was_asked_before_the_start_counts_for_nothing(tmp_path: Path) -> None:
    """Only its session knows when it was asked; the lists of what is open stay right."""
    async with watching(tmp_path) as watched:
        session = await watched.session()
        session.state.decisions["old"] = DecisionOpened(decision="old", kind="question", text="")
        session.shown.decisions["old"] = session.state.decisions["old"]
        session.record(DecisionResolved(decision="old", outcome="expired"))
        await session.durable(session.head)
        assert watched.value("dragoman_decisions_open", kind="question") == 0


async def test_a_mistake_of_ours_costs_figures_and_no_event(tmp_path: Path, caplog: Any) -> None:
    async with watching(tmp_path) as watched:
        session = await watched.session()

        def broken(*_: object) -> list[Any]:
            raise RuntimeError("a mistake")

        watched.telemetry._activities.take = broken  # type: ignore[method-assign]
        await asyncio.wait_for(watched.turn(session), 10)
        assert session.shown.turn is None
    assert "an event was not counted" in caplog.text

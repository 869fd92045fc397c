"""What sessions did, as spans: their names, their places, what is in them, and what is not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from dragoman.hub.events import (
    Answer,
    AnyFact,
    DecisionOpened,
    Event,
    Problem,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from dragoman.hub.permissions import LOCAL
from dragoman.hub.state import SessionState
from dragoman.hub.turns import TurnContext, TurnFailed
from dragoman.services.observability.activity import Activities
from dragoman.services.observability.spans import Span, SpanMaker, trace_of, turn_span
from tests.hub.rig import until

from .watched import Watched, watching

KEY = "sk-live-0a1b2c3d"


def busy(watched: Watched) -> Any:
    """A turn of one model call that runs one tool, which asks first. Each thing takes 100 ms."""

    async def behave(turn: TurnContext) -> str:
        def record(fact: Any) -> None:
            watched.clock.time += 100
            turn.record(fact)

        record(StepStarted(turn=turn.turn, step=1, provider="google", model="gemini-x", request={"text": KEY}))
        record(ToolCalled(call="call-1", tool="bash", input={"command": f"echo {KEY}"}, turn=turn.turn))
        asked = DecisionOpened(decision="d-1", kind="permission", text=f"echo {KEY}", turn=turn.turn, call="call-1")
        watched.clock.time += 100
        deciding = asyncio.ensure_future(turn.decide(asked))
        await until(lambda: turn.session.shown.decisions)
        watched.clock.time += 900
        await turn.session.answer(LOCAL, "d-1", Answer(accept=True), via="test")
        await deciding
        record(ToolEnded(call="call-1", tool="bash", status="ok", output=KEY, turn=turn.turn))
        spent = {"input_tokens": 100, "output_tokens": 20, "reasoning_tokens": 5, "cached_tokens": 60}
        record(UsageReported(message="m", turn=turn.turn, step=1, model="gemini-x", cost_usd=0.5, **spent))
        record(StepEnded(turn=turn.turn, step=1, finish_reason="stop", response={"text": KEY}))
        return KEY

    return behave


async def test_a_turn_with_what_it_did_below_it(tmp_path: Path) -> None:
    async with watching(tmp_path) as watched:
        session = await watched.session()
        turn = await watched.turn(session, busy(watched), text=KEY)
        await watched.sent()
        whole = watched.collector.named("invoke_agent")
        call, tool = watched.collector.named("chat"), watched.collector.named("execute_tool")
        decision = watched.collector.named("wait_for_decision")

    assert (whole.trace, whole.span, whole.parent) == (trace_of(session.id, turn), turn_span(session.id, turn), None)
    assert {span.trace for span in watched.collector.spans} == {whole.trace}
    assert {span.parent for span in (call, tool, decision)} == {whole.span}
    assert len({span.span for span in watched.collector.spans}) == len(watched.collector.spans) == 6
    assert whole.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": session.id,
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": "gemini-x",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.agent.name": "scripted",
        "dragoman.turn.id": turn,
        "dragoman.turn.outcome": "completed",
        "dragoman.session.kind": "puppet",
    }
    assert (call.name, call.kind, call.ended - call.began) == ("chat gemini-x", "client", 1500 - 100)
    assert call.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert call.attributes["gen_ai.usage.output_tokens"] == 20
    assert tool.name == "execute_tool bash"
    assert tool.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": session.id,
        "gen_ai.tool.name": "bash",
        "gen_ai.tool.call.id": "call-1",
        "gen_ai.tool.type": "function",
        "dragoman.tool.executor": "server",
        "dragoman.tool.status": "ok",
    }
    assert (decision.name, decision.ended - decision.began) == ("wait_for_decision permission", 900)
    assert decision.attributes["dragoman.decision.outcome"] == "answered"
    assert whole.ended - whole.began == 1500


async def test_the_turn_in_the_words_of_agent_coworker(tmp_path: Path) -> None:
    async with watching(tmp_path) as watched:
        session = await watched.session(settings={"provider": "openai", "model": "gpt-x"})
        await watched.turn(session, busy(watched))
        await watched.sent()
        started, completed = watched.collector.named("agent.turn.started"), watched.collector.named("agent.turn.comp")
    assert started.attributes == {
        "sessionId": session.id,
        "event.at": "2023-11-14T22:13:20.000Z",
        "provider": "openai",
        "model": "gpt-x",
    }
    assert completed.attributes == {
        "sessionId": session.id,
        "event.at": "2023-11-14T22:13:21.500Z",
        "provider": "google",
        "model": "gemini-x",
        "duration.ms": 1500,
    }
    assert (started.ok, completed.ok) == (True, True)


async def fail(turn: TurnContext) -> None:
    raise TurnFailed(Problem(code="provider_overloaded", message=f"no room for {KEY} in /home/me"))


async def test_a_failed_turn_gives_its_code_and_not_its_words(tmp_path: Path) -> None:
    async with watching(tmp_path) as watched:
        await watched.turn(await watched.session(), fail)
        await watched.sent()
        whole, failed = watched.collector.named("invoke_agent"), watched.collector.named("agent.turn.failed")
    assert (whole.ok, whole.message, whole.attributes["error.type"]) == (False, *["provider_overloaded"] * 2)
    assert (failed.ok, failed.attributes["error"]) == (False, "provider_overloaded")
    assert KEY not in str(watched.collector.spans)


async def test_details_are_told_where_they_are_wanted(tmp_path: Path) -> None:
    async with watching(tmp_path, details=True) as watched:
        await watched.turn(await watched.session(), fail)
        await watched.sent()
        whole, failed = watched.collector.named("invoke_agent"), watched.collector.named("agent.turn.failed")
    assert whole.attributes["dragoman.session.cwd"] == str(tmp_path)
    assert failed.attributes["error"] == whole.message == f"no room for {KEY} in /home/me"


async def test_a_cancelled_turn_is_no_failure_and_ends_what_it_began(tmp_path: Path) -> None:
    async def wait(turn: TurnContext) -> None:
        turn.record(StepStarted(turn=turn.turn, step=1, provider="openai", model="gpt-x"))
        turn.record(ToolCalled(call="call-1", tool="bash", turn=turn.turn))
        await asyncio.Event().wait()

    async with watching(tmp_path) as watched:
        session = await watched.session()
        watched.puppets.behave = wait
        await session.submit(LOCAL, "wait", via="test")
        await until(lambda: session.shown.calls)
        assert watched.value("dragoman_turns_open") == 1
        await session.cancel(LOCAL, via="test")
        await until(lambda: not session.shown.turn)
        assert watched.value("dragoman_turns_open") == 0
        await watched.sent()
        call, tool = watched.collector.named("chat gpt-x"), watched.collector.named("execute_tool")
        whole = watched.collector.named("invoke_agent")
    assert call.attributes["gen_ai.response.finish_reasons"] == ("unfinished",)
    assert (tool.ok, tool.attributes["dragoman.tool.status"]) == (False, "interrupted")
    assert (whole.ok, whole.attributes["dragoman.turn.outcome"]) == (True, "cancelled")
    assert watched.collector.named("agent.turn.cancelled").ok


def test_a_turn_of_a_lost_server_ends_in_the_trace_that_it_began_in() -> None:
    """The next server saw nothing of its beginning."""
    state = SessionState(session="s", kind="native", agent="openai")
    maker = SpanMaker(details=False)

    def spans(activities: Activities, at: int, fact: AnyFact) -> list[Span]:
        return [span for it in activities.take(state, Event(1, at, "epoch", fact)) for span in maker.spans(it)]

    [started] = spans(Activities(), 1000, TurnStarted(turn="t", prompt="p"))
    ended, whole = spans(Activities(), 9000, TurnEnded(turn="t", outcome="interrupted", duration_ms=500))
    assert whole.span == started.parent == ended.parent
    assert {started.trace, ended.trace} == {whole.trace}
    assert (whole.began, whole.ended, whole.ok) == (8500, 9000, False)
    assert (ended.name, ended.attributes["error"]) == ("agent.turn.failed", "interrupted")
    assert whole.attributes["error.type"] == "interrupted"


async def test_calls_of_a_subagent_lie_below_the_call_that_started_it(tmp_path: Path) -> None:
    async def behave(turn: TurnContext) -> None:
        turn.record(ToolCalled(call="outer", tool="spawnAgent", turn=turn.turn))
        turn.record(ToolCalled(call="inner", tool="read", turn=turn.turn, parent="outer"))
        turn.record(ToolEnded(call="inner", tool="read", status="ok", turn=turn.turn))
        turn.record(ToolEnded(call="outer", tool="spawnAgent", status="ok", turn=turn.turn))

    async with watching(tmp_path) as watched:
        await watched.turn(await watched.session(), behave)
        await watched.sent()
        outer = watched.collector.named("execute_tool spawnAgent")
        assert watched.collector.named("execute_tool read").parent == outer.span


async def test_what_happens_outside_of_turns_has_traces_of_its_own(tmp_path: Path) -> None:
    async with watching(tmp_path) as watched:
        session = await watched.session()
        session.record(ToolCalled(call="c", tool="Bash", executor="agent"))
        session.record(ToolEnded(call="c", tool="Bash", status="ok"))
        session.record(ToolEnded(call="late", tool="Read", status="error", duration_ms=250))
        await session.durable(session.head)
        await watched.sent()
    first, second = watched.collector.spans
    assert (first.trace, first.parent) == (trace_of(session.id, "c"), None)
    assert (second.trace, second.ended - second.began) == (trace_of(session.id, "late"), 250)


async def test_one_log_gives_the_same_spans(tmp_path: Path) -> None:
    """Ids follow from the log, so a second look at it adds nothing to a store."""
    async with watching(tmp_path) as watched:
        session = await watched.session()
        await watched.turn(session, busy(watched))
        spans = list(await watched.sent())
        again = await _again(watched, session.id)
    assert again == spans


async def _again(watched: Watched, name: str) -> list[Span]:
    """The spans of a log that is read a second time."""
    activities, maker, state = Activities(), SpanMaker(details=False), SessionState(session=name)
    spans: list[Span] = []
    for event in await watched.journal.read(name, 0, 1000):
        state.apply(event)
        for activity in activities.take(state, event):
            spans += maker.spans(activity)
    return spans


async def test_no_prompt_answer_or_result_is_in_any_span(tmp_path: Path) -> None:
    async with watching(tmp_path, details=True) as watched:
        await watched.turn(await watched.session(), busy(watched), text=KEY)
        assert len(await watched.sent()) == 6
    assert KEY not in str(watched.collector.spans)
    assert KEY not in str(list(watched.telemetry.families()))


async def test_a_tool_that_a_model_made_up_gives_no_name(tmp_path: Path) -> None:
    async def behave(turn: TurnContext) -> None:
        turn.record(ToolCalled(call="c", tool=KEY, turn=turn.turn, dynamic=True, invalid=True))
        turn.record(ToolEnded(call="c", tool=KEY, status="error", turn=turn.turn))

    async with watching(tmp_path) as watched:
        await watched.turn(await watched.session(), behave)
        await watched.sent()
        assert watched.value("dragoman_tool_calls", tool="unknown", status="error") == 1
    assert watched.collector.named("execute_tool").name == "execute_tool unknown"
    assert KEY not in str(watched.collector.spans) + str(list(watched.telemetry.families()))


async def test_names_are_cut(tmp_path: Path) -> None:
    size = 10_000

    async def behave(turn: TurnContext) -> None:
        turn.record(ToolCalled(call="c" * size, tool="t" * size, turn=turn.turn, dynamic=True))
        turn.record(ToolEnded(call="c" * size, tool="t" * size, status="ok", turn=turn.turn))

    async with watching(tmp_path) as watched:
        await watched.turn(await watched.session(), behave)
        await watched.sent()
    tool = watched.collector.named("execute_tool")
    assert max(len(str(value)) for value in tool.attributes.values()) <= 200

"""Tools that a link runs: offered, called, ended and lost over real sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects.hub import HubDialectSettings
from dragoman.hub.events import DecisionOpened
from dragoman.hub.limits import HubLimits
from dragoman.hub.permissions import LOCAL
from dragoman.hub.turns import TurnContext
from tests.hub.rig import turns_of_the_loop

from .conftest import MakeRig
from .rig import Link, eventually
from .stage import Stage, make_stage, offers
from .test_link import open_link


def told_to_run(link: Link) -> list[str]:
    return [call["call"] for message in link.of("calls") for call in message["calls"]]


@pytest.fixture
async def stage(make_rig: MakeRig) -> Stage:
    return await make_stage(make_rig)


async def test_a_call_reaches_the_link_that_offered_the_tool_and_its_result_the_agent(stage: Stage) -> None:
    session = stage.session.id
    async with stage.rig.link() as link, stage.rig.link() as other:
        declared = await link.ask("declare_tools", session=session, tools=[*offers("look", "own"), {"name": "a b"}])
        assert declared["accepted"] == ["look"]
        assert [refused["name"] for refused in declared["rejected"]] == ["own", "a b"]
        await other.ask("follow", session=session, after=0)
        await stage.turn("look")
        told = await link.message("calls")
        assert told["session"] == session
        assert told["bundle"] is None
        assert told["turn"] == stage.session.shown.turn.turn  # type: ignore[union-attr]
        (call,) = told["calls"]
        assert (call["tool"], call["input"]) == ("look", {"n": 0})
        ended = {"session": session, "call": call["call"]}
        assert await other.refused("end_tool", **ended) == "unknown_call"
        answer = await link.ask("end_tool", **ended, output={"seen": "door"}, artifacts=["a"], detail={"k": 1})
        assert await link.refused("end_tool", **ended, output="again") == "already_ended"
        assert (await link.message("call_over"))["call"] == call["call"]
        assert await stage.over() == [("ok", None)]
        assert (stage.results[0].output, stage.results[0].artifacts) == ({"seen": "door"}, ("a",))
        await other.caught_up(stage.session)
        facts = {event["seq"]: event["fact"] for event in other.events(session)}
        (called,) = [fact for fact in facts.values() if fact["type"] == "tool.called"]
        assert (called["executor"], called["client"]) == ("client", declared["client"])
        assert facts[answer["seq"]]["output"] == {"seen": "door"}
        assert other.of("calls") == []


async def test_a_link_that_is_cut_fails_its_calls_at_once_and_the_turn_goes_on(stage: Stage) -> None:
    async with stage.rig.link() as link:
        await stage.declare(link, "look")
        await stage.turn("look", "look")
        await link.message("calls")
        link.socket.transport.abort()
        assert await stage.over() == [("error", "client_gone")] * 2
    assert stage.session.client_tools == ()
    async with stage.rig.link() as link:
        again = {"session": stage.session.id, "call": stage.results[0].call}
        assert await link.refused("end_tool", **again) == "unknown_call"


async def test_of_two_links_with_the_same_tool_the_newest_is_asked_and_the_other_takes_over(stage: Stage) -> None:
    async with stage.rig.link() as first:
        await stage.declare(first, "look")
        async with stage.rig.link() as second:
            await stage.declare(second, "look")
            await stage.turn("look")
            await second.message("calls")
        assert await stage.over() == [("error", "client_gone")]
        assert first.of("calls") == []
        await stage.turn("look")
        (call,) = (await first.message("calls"))["calls"]
        await first.ask("end_tool", session=stage.session.id, call=call["call"])
        assert await stage.over() == [("ok", None)]


async def test_a_bundle_comes_whole_in_order_and_is_ended_in_one_go(stage: Stage) -> None:
    session = stage.session.id
    async with stage.rig.link() as link:
        await stage.declare(link, "look", "click")
        await stage.turn("look", "click", "look", "fly")
        told = await link.message("calls")
        assert [call["tool"] for call in told["calls"]] == ["look", "click", "look"]
        assert [call["input"]["n"] for call in told["calls"]] == [0, 1, 2]
        names = [call["call"] for call in told["calls"]]
        results = [{"call": names[1], "status": "error", "error": "no button"}, {"call": names[0], "output": 1}]
        assert await link.refused("end_tools", session=session, bundle="another", results=results) == "unknown_call"
        twice = [*results, results[0]]
        assert (
            await link.refused("end_tools", session=session, bundle=told["bundle"], results=twice) == "invalid_request"
        )
        await link.ask("end_tools", session=session, bundle=told["bundle"], results=results)
        assert await stage.over() == [
            ("ok", None),
            ("error", "client"),
            ("interrupted", "not_run"),
            ("error", "client_gone"),
        ]
        assert stage.results[1].problem is not None
        assert stage.results[1].problem.message == "no button"
        assert (
            await link.refused("end_tools", session=session, bundle=told["bundle"], results=results) == "already_ended"
        )
        await link.message("call_over", 3)


async def test_a_call_that_was_cancelled_or_too_late_is_told_and_takes_no_result(stage: Stage) -> None:
    async with stage.rig.link() as link:
        await stage.declare(link, "look")
        await stage.turn("look", timeout=0.01)
        assert await stage.over() == [("error", "timeout")]
        await stage.turn("look")
        await link.until(lambda: "c2-0" in told_to_run(link), "the call")
        await link.ask("cancel", session=stage.session.id)
        assert await link.refused("end_tool", session=stage.session.id, call="c2-0") == "already_ended"
        await link.until(lambda: "c2-0" in [over["call"] for over in link.of("call_over")], "call_over")


async def test_taking_tools_back_fails_their_calls_and_lets_the_session_go(stage: Stage) -> None:
    async with stage.rig.link() as link:
        await stage.declare(link, "look", "click")
        await stage.turn("look", "click")
        await link.message("calls")
        await stage.declare(link, "click")
        await link.message("call_over")
        assert [open_.tool for open_ in stage.session.state.calls.values()] == ["click"]
        assert (await stage.declare(link))["accepted"] == []
        assert await stage.over() == [("error", "client_gone")] * 2
        await link.message("call_over", 2)
        await link.until(lambda: stage.session.idle, "nobody holds the session")


@pytest.mark.parametrize("turns", range(8))
async def test_a_link_that_is_lost_while_it_declares_leaves_no_tools(stage: Stage, turns: int) -> None:
    link = await open_link(stage.rig.dialect)
    link.receive(json.dumps({"op": "declare_tools", "session": stage.session.id, "tools": offers("look")}))
    await turns_of_the_loop(turns)
    link.lost()
    await eventually(lambda: not len(stage.rig.dialect.tasks), "the command is done")
    assert stage.session.client_tools == ()
    assert stage.session.idle


async def test_limits_of_a_link(make_rig: MakeRig) -> None:
    settings = HubDialectSettings(tool_sessions=1, json_bytes=500, large_json_bytes=400, json_depth=5)
    stage = await make_stage(make_rig, settings=settings, limits=HubLimits(client_tools=2))
    session = stage.session.id
    another = await stage.rig.session("puppet")
    async with stage.rig.link() as link:
        declared = await stage.declare(link, "a", "b", "c")
        assert declared["accepted"] == ["a", "b"]
        assert await link.refused("declare_tools", session=another.id, tools=[]) == "limit_reached"
        assert await link.refused("declare_tools", session=session, tools=offers("x" * 600)) == "limit_reached"
        deep: list[Any] = []
        for _ in range(6):
            deep = [deep]
        wrong = [{"name": "x", "parameters": {"a": deep}}]
        assert await link.refused("declare_tools", session=session, tools=wrong) == "invalid_request"
        assert await link.refused("declare_tools", session=session, tools=[{"name": "x", "k": 1}]) == "invalid_request"
        assert await link.refused("end_tool", session=session, call="c", output="x" * 400) == "limit_reached"
        long = [{"call": "c", "output": "x" * 400}]
        assert await link.refused("end_tools", session=session, bundle="b", results=long) == "limit_reached"
        assert await link.refused("end_tool", session=session, call="c", status="fine") == "invalid_request"


async def test_a_thousand_offers_are_answered_one_by_one(stage: Stage) -> None:
    async with stage.rig.link() as link:
        declared = await stage.declare(link, *(f"tool{n}" for n in range(1000)))
        assert len(declared["accepted"]) == HubLimits().client_tools
        assert len(declared["accepted"]) + len(declared["rejected"]) == 1000


async def test_after_a_restart_nothing_is_offered_and_what_ran_is_interrupted(make_rig: MakeRig) -> None:
    stage = await make_stage(make_rig)
    async with stage.rig.link() as link:
        await stage.declare(link, "look")
        await stage.turn("look")
        (call,) = (await link.message("calls"))["calls"]
    assert await stage.over() == [("error", "client_gone")]
    async with stage.rig.link() as link:
        await stage.declare(link, "look")
        await stage.turn("look")
        (call,) = (await link.message("calls"))["calls"]
        await stage.rig.stop()
    second = await make_rig(store=stage.rig.store, factories=(stage.puppets,))
    again = await second.registry.get(LOCAL, stage.session.id)
    assert (again.client_tools, again.shown.calls) == ((), {})
    async with second.link() as link:
        page = await link.ask("events", session=again.id)
        ended = [event["fact"] for event in page["events"] if event["fact"]["type"] == "tool.ended"][-1]
        assert (ended["call"], ended["status"]) == (call["call"], "interrupted")
        assert await link.refused("end_tool", session=again.id, call=call["call"]) == "unknown_call"


async def test_the_session_is_deleted_under_a_link_that_offers_tools(stage: Stage) -> None:
    async with stage.rig.link() as link:
        await stage.declare(link, "look")
        await link.ask("delete", session=stage.session.id)
        assert await link.refused("declare_tools", session=stage.session.id, tools=[]) == "gone"
        await link.ask("ping")


# The conversation as a whole


async def test_the_history_is_given_begun_anew_and_shortened(stage: Stage) -> None:
    session = stage.session.id
    said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi", "calls": []}]
    async with stage.rig.link() as link:
        await link.ask("follow", session=session, after=0)
        await link.ask("merge_history", session=session, messages=said, replace=True)
        await link.ask("compact", session=session)
        await link.ask("reset_history", session=session)
        await link.caught_up(stage.session)
        assert link.facts(session)[1:] == ["history.merged", *["context.compacted"] * 2, "history.reset"]
        wrong = [{"role": "root", "content": "obey"}]
        assert await link.refused("merge_history", session=session, messages=wrong) == "invalid_request"
        await stage.declare(link, "look")
        await stage.turn("look")
        await link.message("calls")
        for op in ("reset_history", "compact"):
            assert await link.refused(op, session=session) == "busy"
        assert await link.refused("merge_history", session=session, messages=said) == "busy"


async def test_the_same_over_http(stage: Stage) -> None:
    path = f"/sessions/{stage.session.id}"
    said = {"messages": [{"role": "user", "content": "hello"}]}
    seqs = [
        (await stage.rig.http("POST", f"{path}/history", said)).json["seq"],
        (await stage.rig.http("POST", f"{path}/compact")).json["seq"],
        (await stage.rig.http("DELETE", f"{path}/history")).json["seq"],
    ]
    assert seqs == [2, 4, 5]
    wrong = {"messages": [{"role": "root", "content": "obey"}]}
    assert (await stage.rig.http("POST", f"{path}/history", wrong)).code == (400, "invalid_request")
    large = {"messages": [{"role": "user", "content": "x" * HubDialectSettings().large_json_bytes}]}
    assert (await stage.rig.http("POST", f"{path}/history", large)).code == (429, "limit_reached")
    scripted = await stage.rig.session()
    assert (await stage.rig.http("POST", f"/sessions/{scripted.id}/compact")).code == (422, "unsupported")


async def test_what_is_permitted_for_the_session_is_in_its_snapshot(stage: Stage) -> None:
    async def asks(turn: TurnContext) -> str | None:
        opened = DecisionOpened(
            decision="d", kind="permission", text="run?", turn=turn.turn, detail={"grant": "run: make"}
        )
        return "yes" if (await turn.decide(opened)).accept else "no"

    stage.puppets.behave = asks
    async with stage.rig.link() as link:
        await link.ask("submit", session=stage.session.id, text="go")
        await link.until(lambda: stage.session.shown.decisions, "a decision")
        answer = {"accept": True, "scope": "session"}
        await link.ask("answer", session=stage.session.id, decision="d", answer=answer)
        assert (await link.ask("snapshot", session=stage.session.id))["grants"] == ["run: make"]

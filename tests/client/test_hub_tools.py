"""The client library's tools: run beside everything else, offered again after a cut, and gone with their block."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.client.errors import Refused
from dragoman.client.hub import ClientOptions, HubClient, Tool, ToolError
from dragoman.hub.permissions import LOCAL
from tests.dialects.hub.conftest import MakeRig
from tests.dialects.hub.rig import eventually
from tests.dialects.hub.stage import Stage, make_stage

from .chopper import Chopper

QUICK = ClientOptions(first_retry=0.005, longest_retry=0.05)


class Kit:
    """Tools that note what they were asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.stopped = 0
        self.result: Any = {"seen": "door"}

    async def look(self, given: Any) -> Any:
        self.asked.append(given)
        return self.result

    async def wait(self, given: Any) -> Any:
        self.asked.append(given)
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped += 1

    async def fail(self, _: Any) -> Any:
        raise ToolError("no light")

    async def crash(self, _: Any) -> Any:
        raise RuntimeError("secret")

    @property
    def tools(self) -> list[Tool]:
        names = {"look": self.look, "wait": self.wait, "fail": self.fail, "crash": self.crash}
        return [Tool(name, run, f"can {name}") for name, run in names.items()]


@pytest.fixture
async def stage(make_rig: MakeRig) -> Stage:
    return await make_stage(make_rig)


async def test_an_agent_has_a_client_run_its_tools(stage: Stage) -> None:
    kit = Kit()
    async with HubClient(stage.rig.url) as client:
        async with client.tools(stage.session.id, [*kit.tools, Tool("own", kit.look)]) as offer:
            assert [refused["name"] for refused in offer.rejected] == ["own"]
            await stage.turn("look")
            assert await stage.over() == [("ok", None)]
            assert stage.results[0].output == {"seen": "door"}
            await stage.turn("fail")
            assert await stage.over() == [("error", "client")]
            await stage.turn("crash")
            assert await stage.over() == [("error", "client")]
            assert stage.results[0].problem is not None
            assert "secret" not in stage.results[0].problem.message
            with pytest.raises(ValueError, match="already"):
                client.tools(stage.session.id, [])
        assert stage.session.client_tools == ()
    assert kit.asked == [{"n": 0}]


async def test_a_bundle_runs_in_order_up_to_the_first_failure(stage: Stage) -> None:
    kit = Kit()
    async with HubClient(stage.rig.url) as client, client.tools(stage.session.id, kit.tools):
        await stage.turn("look", "look", "fail", "look")
        assert [status for status, _ in await stage.over()] == ["ok", "ok", "error", "interrupted"]
        assert kit.asked == [{"n": 0}, {"n": 1}]


@pytest.mark.parametrize("result", [object(), "x" * 2_000_000], ids=["not JSON", "too long"])
async def test_a_result_that_cannot_be_given_fails_its_calls(stage: Stage, result: object) -> None:
    kit = Kit()
    kit.result = result
    async with HubClient(stage.rig.url) as client, client.tools(stage.session.id, kit.tools):
        await stage.turn("look")
        assert await stage.over() == [("error", "client")]
        await stage.turn("look", "look")
        assert await stage.over() == [("error", "client")] * 2


async def test_what_is_cancelled_or_too_late_is_stopped_here_too(stage: Stage) -> None:
    kit = Kit()
    async with HubClient(stage.rig.url) as client, client.tools(stage.session.id, kit.tools):
        await stage.turn("wait")
        await eventually(lambda: kit.asked, "it runs")
        await stage.session.cancel(LOCAL, via="test")
        await eventually(lambda: kit.stopped == 1, "it was stopped")


async def test_leaving_the_block_stops_what_runs_and_the_turn_goes_on(stage: Stage) -> None:
    kit = Kit()
    async with HubClient(stage.rig.url) as client:
        async with client.tools(stage.session.id, kit.tools):
            await stage.turn("wait")
            await eventually(lambda: kit.asked, "it runs")
        assert kit.stopped == 1
        assert await stage.over() == [("error", "client_gone")]


async def test_closing_the_client_stops_what_runs(stage: Stage) -> None:
    kit = Kit()
    async with HubClient(stage.rig.url) as client:
        offer = await client.tools(stage.session.id, kit.tools).__aenter__()
        await stage.turn("wait")
        await eventually(lambda: kit.asked, "it runs")
    assert kit.stopped == 1
    assert offer.rejected == []
    assert await stage.over() == [("error", "client_gone")]


async def test_after_a_cut_the_tools_are_offered_again_and_what_ran_was_given_up(stage: Stage) -> None:
    kit = Kit()
    async with (
        Chopper(stage.rig.port) as chopper,
        HubClient(chopper.url, options=QUICK) as client,
        client.tools(stage.session.id, kit.tools),
    ):
        await stage.turn("wait")
        await eventually(lambda: kit.asked, "it runs")
        (before,) = {offered.link for offered in stage.session.client_tools}
        chopper.cut()
        assert await stage.over() == [("error", "client_gone")]
        await eventually(lambda: kit.stopped == 1, "it was stopped")
        await eventually(lambda: stage.session.client_tools, "they are offered again")
        assert before not in {offered.link for offered in stage.session.client_tools}
        await stage.turn("look")
        assert await stage.over() == [("ok", None)]


async def test_a_session_that_takes_no_tools_says_so(stage: Stage) -> None:
    async with HubClient(stage.rig.url) as client:
        with pytest.raises(Refused) as refusal:
            async with client.tools("nobody", Kit().tools):
                pytest.fail("there is no such session")
        assert refusal.value.code == "unknown_session"
        async with client.tools(stage.session.id, Kit().tools):
            pass


async def test_the_conversation_as_a_whole(stage: Stage) -> None:
    session = stage.session.id
    async with HubClient(stage.rig.url) as client:
        seqs = [
            (await client.merge_history(session, [{"role": "user", "content": "hello"}], replace=True))["seq"],
            (await client.compact(session))["seq"],
            (await client.reset_history(session))["seq"],
        ]
        assert seqs == [2, 4, 5]


async def test_cuts_at_any_byte_cost_calls_but_never_a_turn(stage: Stage) -> None:
    kit = Kit()
    said: set[tuple[str, str | None]] = set()
    async with (
        Chopper(stage.rig.port, cuts=20, seed=5, most=3000) as chopper,
        HubClient(chopper.url, options=QUICK) as client,
        client.tools(stage.session.id, kit.tools),
    ):
        while chopper.cuts < 20:
            await stage.turn("look", "look")
            said.update(await stage.over())
        await eventually(lambda: stage.session.client_tools, "they are offered again")
        await stage.turn("look")
        assert await stage.over() == [("ok", None)]
    assert said <= {("ok", None), ("error", "client_gone")}

"""A turn that waits for a human, in a protocol that has no word for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.client import connect

from tests.agents.native.model_server.heard import Result
from tests.agents.native.model_server.script import Answer, say, use
from tests.dialects.hub.rig import Link as HubLink

from .rig import House, MakeHouse

TOUCH = {"command": "touch made"}


@contextlib.asynccontextmanager
async def hub(house: House) -> AsyncIterator[HubLink]:
    """A link of our own dialect."""
    url = house.server.http_url.replace("http", "ws", 1) + "/hub/ws"
    async with connect(url, max_size=None, compression=None, proxy=None) as socket:
        link = HubLink(socket)
        reading = asyncio.create_task(link.read())
        try:
            yield link
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def with_bash(make_house: MakeHouse, **windie: Any) -> House:
    house = await make_house(windie={"host_tools": ["bash"], **windie})
    house.script("touch", Answer((use("bash", TOUCH),)), say("went on"))
    return house


async def test_a_decision_is_said_in_words_and_answered_elsewhere(make_house: MakeHouse) -> None:
    house = await with_bash(make_house)
    async with house.link() as link, hub(house) as other:
        turn = await link.ask("[[script:touch]]")
        asked = await link.first("streaming-response", turn)
        session = asked["session_id"]
        assert "touch made" in asked["payload"]["text"]
        assert session in asked["payload"]["text"]
        await other.ask("follow", session=session, after=0)
        await other.until(lambda: "decision.opened" in other.facts(session), "the decision")
        assert not (house.folder / "work" / "made").exists()
        facts = [event["fact"] for event in other.events(session)]
        (decision,) = [fact["decision"] for fact in facts if fact["type"] == "decision.opened"]
        await other.ask("answer", session=session, decision=decision, answer={"accept": True})
        told = await link.over(turn)
        assert (told.outcome, told.answer.endswith("went on")) == ("completed", True)
        assert (house.folder / "work" / "made").exists()
        shown = (await link.first("tool-call", turn))["payload"]
        assert (shown["tool_name"], shown["metadata"]["skip_local_execution"]) == ("bash", True)
        assert len(link.of("tool-output", turn)) == 1
    link.judge()


async def test_a_decision_that_nobody_takes_becomes_a_denial(make_house: MakeHouse) -> None:
    """Bug 31: what a client waits for is bounded."""
    house = await with_bash(make_house, decision_seconds=0.2)
    async with house.link() as link:
        turn = await link.ask("[[script:touch]]")
        assert (await link.over(turn)).outcome == "completed"
    assert not (house.folder / "work" / "made").exists()
    (result,) = [message for message in house.asked()[-1].messages if isinstance(message, Result)]
    assert result.failed is not False
    link.judge()


async def test_an_answer_in_time_is_not_undone(make_house: MakeHouse) -> None:
    house = await with_bash(make_house, decision_seconds=0.6)
    house.script(
        "touch",
        Answer((use("bash", TOUCH),)),
        Answer((use("bash", {"command": "sleep 1; echo late"}),)),
        say("went on"),
    )
    async with house.link() as link, hub(house) as other:
        turn = await link.ask("[[script:touch]]")
        session = (await link.first("streaming-response", turn))["session_id"]
        await other.ask("follow", session=session, after=0)

        def opened() -> list[str]:
            facts = [event["fact"] for event in other.events(session)]
            return [fact["decision"] for fact in facts if fact["type"] == "decision.opened"]

        (decision,) = await other.until(opened, "the decision")
        await other.ask("answer", session=session, decision=decision, answer={"accept": True})
        # The next command asks as well, and nobody answers that one.
        assert (await link.over(turn)).outcome == "completed"
        facts = [event["fact"] for event in other.events(session)]
        assert len([fact for fact in facts if fact["type"] == "decision.resolved"]) == 2
    assert (house.folder / "work" / "made").exists()
    link.judge()


async def test_a_stop_ends_a_turn_that_waits_for_a_human(make_house: MakeHouse) -> None:
    house = await with_bash(make_house)
    async with house.link() as link:
        turn = await link.ask("[[script:touch]]")
        await link.first("streaming-response", turn)
        assert (await link.stop("conv"))["payload"]["canceled"] is True
        assert (await link.over(await link.ask("hello"))).outcome == "completed"
    assert not (house.folder / "work" / "made").exists()
    link.judge()

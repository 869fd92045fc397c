"""What a client of the bridge hears of agents elsewhere while their posts overtake each other: held to the rules of the
protocol by a checker that knows nothing of hooks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.agents.hooked.kit import kit
from tests.agents.hooked.manual_time import timed
from tests.agents.hooked.posts import SUGGESTIONS, Life
from tests.agents.hooked.scenario import LAG, STEP, claude, gemini, problems, shuffled
from tests.agents.hooked.test_permissions import GIVEN
from tests.dialects.cin import stream_checker
from tests.dialects.cin.rig import bridge

LIFE = Life("claude", "4ea6d000-0000-4000-8000-000000000001")


@pytest.mark.parametrize("twins", [False, True], ids=["the seed's", "with twins"])
@timed
async def test_shuffled_posts_are_heard_in_an_order_that_makes_sense(twins: bool, tmp_path: Path) -> None:
    """Created, status or update, event; each call begins before it ends; what is listed is what was told."""
    async with kit(tmp_path) as k, bridge(tmp_path, k.hub, tolerate=("legacy",) if twins else ()) as served:
        client = await served.open()
        client.take()
        await k.jump(LAG * STEP)
        scenarios = [(gemini if number % 4 == 3 else claude)(f"{twins}-{number}") for number in range(40)]
        orders = [
            shuffled(one.posts(timed=place % 2 == 0), random.Random(place)) for place, one in enumerate(scenarios)
        ]
        for place in range(20):
            for order in orders:
                if place < len(order):
                    await k.take(order[place])
                    client.take()
            await k.clock.jump(STEP)
        await k.settle()
        client.take()
        assert stream_checker.problems(client.frames, legacy=twins) == []
        heard = [frame["data"] for frame in client.frames if frame["type"] == "event"]
        for scenario in scenarios:
            name = k.row(scenario.life.session, scenario.life.agent).session
            mine = [event for event in heard if event["sessionId"] == name]
            assert problems(scenario, mine) == []
            assert mine == await k.told(name), "live and read again it is the same"


@timed
async def test_a_permission_is_heard_and_answered_by_a_client(tmp_path: Path) -> None:
    async with kit(tmp_path) as k, bridge(tmp_path, k.hub) as served:
        client = await served.open()
        for payload in (LIFE.start(), LIFE.prompt(), LIFE.before("Bash", "t1", GIVEN)):
            await k.take(payload, "socket")
        asking = k.asking(LIFE.permission("Bash", GIVEN, SUGGESTIONS), agent="claude")
        await k.settle()
        client.take()
        (prompt,) = [frame["data"] for frame in client.frames if frame["type"] == "cin:permission_prompt"]
        assert (prompt["tool"], prompt["context"], len(prompt["options"])) == (
            "Bash",
            "touch made.txt",
            2 + len(SUGGESTIONS),
        )
        answer = {"sessionId": prompt["sessionId"], "decisionId": prompt["decisionId"], "response": "1"}
        client.say({"type": "permission_response", "data": answer})
        printed = await k.printed(asking)
        assert printed["hookSpecificOutput"]["decision"] == {"behavior": "allow"}
        await k.settle()
        client.take()
        (resolved,) = [frame["data"] for frame in client.frames if frame["type"] == "cin:permission_resolved"]
        assert resolved["decisionId"] == prompt["decisionId"]
        statuses = [frame["data"]["status"] for frame in client.frames if frame["type"] == "session:status"]
        assert statuses == ["waiting", "working"]
        assert stream_checker.problems(client.frames, legacy=False) == []


@timed
async def test_what_a_stranger_asks_is_heard_and_cannot_be_answered(tmp_path: Path) -> None:
    async with kit(tmp_path) as k, bridge(tmp_path, k.hub) as served:
        client = await served.open()
        await k.take_all([LIFE.prompt(), LIFE.before("Bash", "t1", GIVEN), LIFE.permission("Bash", GIVEN)])
        client.take()
        (prompt,) = [frame["data"] for frame in client.frames if frame["type"] == "cin:permission_prompt"]
        assert prompt["options"] == []
        for said in (
            {"sessionId": prompt["sessionId"], "response": "1"},
            {"sessionId": prompt["sessionId"], "decisionId": prompt["decisionId"], "response": "1"},
        ):
            client.say({"type": "permission_response", "data": said})
            await k.settle()
        client.take()
        assert not [frame for frame in client.frames if frame["type"] == "cin:permission_resolved"]
        assert k.status(LIFE.session) == "waiting (permission)"


@timed
async def test_what_a_stranger_asks_does_not_stand_before_what_the_agent_asks(tmp_path: Path) -> None:
    """A number without a decision's id is an answer to what can be answered here."""
    async with kit(tmp_path) as k, bridge(tmp_path, k.hub) as served:
        client = await served.open()
        await k.take_all([LIFE.prompt(), LIFE.before("Bash", "t1", GIVEN), LIFE.permission("Bash", {"command": "ls"})])
        asking = k.asking(LIFE.permission("Bash", GIVEN), agent="claude")
        await k.settle()
        await k.jump(60)  # long enough that whoever answers has seen it
        client.take()
        session = k.row(LIFE.session).session
        client.say({"type": "permission_response", "data": {"sessionId": session, "response": "2"}})
        printed = await k.printed(asking)
        assert printed["hookSpecificOutput"]["decision"]["behavior"] == "deny"

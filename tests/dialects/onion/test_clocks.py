"""PING under load, sessions that nobody uses, turns that are stuck: the seed's clocks, made short."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from .conftest import MakeServer
from .rig import ALICE, LIMIT, Onion, Talk, calls, of, script

PING = 0.2
"""Seconds between two PINGs here, for the seed's thirty."""

LONGEST = 15 * PING
"""Between two that a client hears, on a machine that has other things to do."""

IDLE, STUCK = 0.8, 1.2
SHORT = f"""
[dialects.onion]
ping_seconds = {PING}
idle_seconds = {IDLE}
stuck_seconds = {STUCK}
"""


@pytest.fixture(scope="module")
def pinging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Onion]:
    """A server with scripted sessions that says PING often."""
    config = f'\n[dialects.onion]\nping_seconds = {PING}\nkind = "scripted"\n'
    server = Onion(tmp_path_factory.mktemp("pinging"), config=config)
    asyncio.run(server.start())
    yield server
    server.kill()
    assert "Traceback" not in server.log.read_text(), server.log.read_text()


def gaps(talk: Talk) -> list[float]:
    """Seconds from the begin to the first PING, and between each two."""
    at = [talk.opened, *(when for frame, when in zip(talk.frames, talk.times, strict=True) if frame["type"] == "PING")]
    return [later - earlier for earlier, later in itertools.pairwise(at)]


async def test_pings_come_from_the_open_socket_on_also_to_a_stranger(pinging: Onion) -> None:
    """Spec §2 row 3."""
    async with pinging.talk() as talk:
        await talk.until(lambda: len(of(talk.frames, "PING")) >= 3, "three PINGs")
        assert min(gaps(talk)) > PING / 3
        assert max(gaps(talk)) < LONGEST


async def test_pings_keep_coming_while_events_flood(pinging: Onion) -> None:
    """Spec §15 row 23: the client takes a minute of silence for a dead link."""
    async with pinging.client(key=ALICE) as talk:
        begin = time.perf_counter()
        for _ in range(3):
            await talk.turn("burst 8000")
        await talk.until(lambda: len(gaps(talk)) >= 2, "PINGs")
        assert len(of(talk.frames, "assistant_delta")) == 3 * 8000
        assert max(gaps(talk)) < LONGEST
        assert len(gaps(talk)) >= (time.perf_counter() - begin) / LONGEST


async def test_pings_reach_a_client_that_reads_slowly(pinging: Onion) -> None:
    async with pinging.client(key=ALICE) as talk:
        talk.input("burst 20000")
        for _ in range(20):
            talk.wire.pause()
            await asyncio.sleep(0.05)
            talk.wire.resume()
            await asyncio.sleep(0.005)
        await talk.next("OUTPUT")
        assert max(gaps(talk)) < LONGEST
        assert len(of(talk.frames, "assistant_delta")) == 20000


async def test_a_client_that_reads_nothing_for_a_while_delays_nobody_and_loses_nothing(pinging: Onion) -> None:
    """Invariant 5; whatever waits for it, PING is the first thing that it is told."""
    async with pinging.client(key=ALICE) as slow, pinging.client(slow.session_id, key=ALICE) as quick:
        for _ in range(2):
            await quick.turn("burst 40000")
        before = pinging.memory()
        await quick.turn("burst 40000")
        alone = pinging.memory() - before
        slow.wire.pause()
        before = pinging.memory()
        await quick.turn("burst 40000")
        assert pinging.memory() - before < max(alone, 0) + 8 * 1024 * 1024
        slow.wire.resume()
        await slow.until(lambda: len(of(slow.frames, "OUTPUT")) == 4, "the slow one has all of it")
        texts = ["".join(frame["content"] for frame in of(talk.frames, "assistant_delta")) for talk in (slow, quick)]
        assert texts[0] == texts[1]
        assert of(slow.frames, "PING")


async def test_a_new_one_is_served_beside_a_hundred_that_are_idle(pinging: Onion) -> None:
    """Spec §15 row 21: idle ones held a thread each."""
    async with contextlib.AsyncExitStack() as stack:
        idle = [await stack.enter_async_context(pinging.client(key=ALICE)) for _ in range(100)]
        begin = time.perf_counter()
        async with pinging.client(key=ALICE) as talk:
            frames = await talk.turn("say at once")
            assert frames[-1]["result"] == "at once"
        assert time.perf_counter() - begin < 5
        await asyncio.gather(*(another_ping(talk) for talk in idle))


async def another_ping(talk: Talk) -> None:
    count = len(of(talk.frames, "PING"))
    await talk.until(lambda: len(of(talk.frames, "PING")) > count, "PING")


@contextlib.asynccontextmanager
async def left(served: Onion, prompt: str | None = None) -> AsyncIterator[str]:
    """A session whose only client has gone, after a turn or in the middle of one."""
    async with served.client(key=ALICE) as talk:
        session = talk.session_id
        await talk.turn(script("say hello"))
        if prompt is not None:
            talk.input(prompt)
            await talk.next("llm_call")
    yield session


async def test_a_session_that_nobody_uses_is_new_after_its_time_and_keeps_its_history(make_server: MakeServer) -> None:
    served = await make_server(config=SHORT)
    async with left(served) as session:
        async with served.client(session, key=ALICE) as talk:
            assert talk.frames[0]["status"] == "connected"
            await asyncio.sleep(2 * IDLE)
            assert await talk.status() == "connected", "somebody is there"
        await asyncio.sleep(2 * IDLE)
        async with served.client(session, key=ALICE) as talk:
            connected = talk.frames[0]
            assert (connected["status"], connected["session_id"]) == ("new", session)
            assert connected["server_newer"] is True
            frames = await talk.turn(script("say again"))
            said = [message["content"] for message in frames[-1]["session"]["messages"] if message["role"] != "user"]
            assert said == ["hello", "again"]


async def test_a_turn_that_ends_with_nobody_there_begins_the_idle_time_anew(make_server: MakeServer) -> None:
    """The original dropped a session within a minute of the end of a long turn (spec §7)."""
    served = await make_server(config="[dialects.onion]\nidle_seconds = 2\n")
    async with left(served, script("pause 2500\nsay the end")) as session:
        ends = asyncio.get_running_loop().time() + LIMIT
        while (await served.asked("GET", f"/sessions/{session}"))["status"] != "idle":
            assert asyncio.get_running_loop().time() < ends
            await asyncio.sleep(0.02)
        async with served.client(session, key=ALICE) as talk:
            assert talk.frames[0]["status"] == "connected"
            assert talk.frames[0]["session"]["result"] == "the end"


async def test_a_stuck_turn_is_cancelled_and_the_session_goes_on(make_server: MakeServer) -> None:
    served = await make_server(config=SHORT)
    async with left(served, script("wait")) as session, asyncio.timeout(LIMIT):
        while (await served.asked("GET", f"/sessions/{session}"))["status"] != "idle":
            await asyncio.sleep(0.05)
        log = await served.whole_log(session)
        outcomes = [event["fact"]["outcome"] for event in log if event["fact"]["type"] == "turn.ended"]
        assert outcomes[1:] == ["cancelled"], "the first was over before, however slow the machine"
        async with served.client(session, key=ALICE) as talk:
            frames = await talk.turn(script("say goes on"))
            assert frames[-1]["result"] == "goes on"


async def test_a_turn_that_waits_for_a_decision_is_not_stuck(make_server: MakeServer) -> None:
    served = await make_server(config=SHORT)
    ask = script(*calls(("ask", {"question": "Which?", "options": ["a", "b"]})), "say thanks")
    async with left(served, ask) as session:
        await asyncio.sleep(3 * STUCK)
        async with served.client(session, key=ALICE) as talk:
            assert talk.frames[0]["status"] == "running"
            asked = await talk.next("ask_user")
            talk.say("ASK_USER_RESPONSE", request_id=asked["id"], answer="a")
            output = await talk.next("OUTPUT")
            assert output["result"] == "thanks"


async def test_a_turn_in_which_things_happen_is_not_stuck(make_server: MakeServer) -> None:
    served = await make_server(config=SHORT)
    steps = [f"pause {int(1000 * STUCK / 3)}\nsay {number}" for number in range(6)]
    calling = "\n".join(calls(("glob", {"pattern": "*"})))
    async with left(served, script(*(f"{step}\n{calling}" for step in steps), "say the end")) as session:
        async with asyncio.timeout(LIMIT):
            while (await served.asked("GET", f"/sessions/{session}"))["status"] != "idle":
                await asyncio.sleep(0.05)
        log = await served.whole_log(session)
        assert [event["fact"]["outcome"] for event in log if event["fact"]["type"] == "turn.ended"][-1] == "completed"


async def test_after_a_restart_a_session_is_there_as_before(make_server: MakeServer) -> None:
    served = await make_server()
    async with left(served) as session:
        for end in (served.kill, served.stop):
            end()
            await served.start()
            async with served.client(session, key=ALICE) as talk:
                connected = talk.frames[0]
                assert connected["status"] == "connected"
                said = [message["content"] for message in connected["session"]["messages"]]
                assert said[:2] == [script("say hello"), "hello"]
                assert [item["id"] for item in connected["chat_items"][:2]] == ["msg-0", "msg-1"]
                await talk.turn(script("say hello"))

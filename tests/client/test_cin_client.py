"""The client of the bridge against servers of a few lines: the client half of the seed's checklist, cuts at any frame
and at any byte, what is asked again."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from dragoman.client.cin import GAP, CinClient, CinOptions
from dragoman.client.cin_place import Message
from dragoman.client.errors import ConnectionLost
from tests.client.chopper import Chopper
from tests.client.cin_bridge import QUICK, Clock, Served, event, heard, init, names, server, session, told, until
from tests.faults.process import eventually

# The checklist, client half. Each test has the line's number (tests/dialects/cin/test_seed_page.py).


async def test_client_line_1_init_fills_the_list_of_sessions() -> None:
    async def talk(served: Served) -> None:
        await served.begin(session("s1"), session("s2", status="working"))

    async with server(talk) as url, CinClient(url, options=QUICK) as client:
        assert client.connected
        assert {name: one["status"] for name, one in client.sessions.items()} == {"s1": "idle", "s2": "working"}
        assert [frame["type"] for frame in await until(client, "init")] == ["init"]


@pytest.mark.parametrize("key", ["data", "payload"])
async def test_client_line_2_each_event_is_handed_over_in_order(key: str) -> None:
    async def talk(served: Served) -> None:
        await served.begin(session("s1"), history=[event(1)])
        for number in range(2, 300):
            await served.tell({"type": "event", key: event(number, tool="Bash")})

    async with server(talk) as url, CinClient(url, options=QUICK) as client:
        assert await heard(client, 298) == names(2, 299), "what was before it came is in the history only"


async def test_client_line_3_frames_about_sessions_keep_the_list() -> None:
    async def talk(served: Served) -> None:
        await served.begin(session("s1"))
        await served.tell({"type": "session:created", "data": session("s2", status="working")})
        await served.tell({"type": "session:updated", "data": session("s2", status="working", currentTool="Bash")})
        await served.tell({"type": "session:status", "data": session("s1", status="waiting")})
        await served.tell({"type": "cin:one"})
        await served.hear("harness:next")
        await served.tell({"type": "session:deleted", "data": session("s1", status="waiting")})
        await served.tell({"type": "cin:two"})
        await served.hear("harness:next")
        await served.tell({"type": "sessions", "payload": [session("s3")]}, {"type": "cin:three"})

    async with server(talk) as url, CinClient(url, options=QUICK) as client:
        await until(client, "cin:one")
        assert client.sessions == {
            "s1": session("s1", status="waiting"),
            "s2": session("s2", status="working", currentTool="Bash"),
        }
        client.send("harness:next")
        kinds = [frame["type"] for frame in await until(client, "cin:two")]
        assert kinds == ["session:deleted", "cin:two"]
        assert list(client.sessions) == ["s2"]
        client.send("harness:next")
        await until(client, "cin:three")
        assert list(client.sessions) == ["s3"], "the older servers' whole list counts as well"


async def test_client_line_4_a_history_is_what_was_asked_for() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        for wanted, found in (({"limit": 100}, [event(1), event(2)]), ({"limit": 3, "sessionId": "s1"}, [event(1)])):
            asked = await served.hear("get_history")
            assert asked["data"] == asked["payload"] == wanted
            await served.tell({"type": "history", "data": found})

    async with server(talk) as url, CinClient(url, options=QUICK) as client:
        assert await client.history() == [event(1), event(2)]
        assert await client.history(3, "s1") == [event(1)]


async def test_client_line_4_answers_belong_to_their_questions_by_their_turn() -> None:
    """Also where one does not wait for its answer any more."""

    async def talk(served: Served) -> None:
        await served.begin()
        for _ in range(3):
            await served.hear("get_history")
        await served.tell(*({"type": "history", "data": [event(number)]} for number in range(3)))

    async with server(talk) as url, CinClient(url, options=QUICK) as client:
        asked = [asyncio.create_task(client.history(number)) for number in range(1, 4)]
        await asyncio.sleep(0)
        asked[0].cancel()
        assert await asyncio.gather(*asked[1:]) == [[event(1)], [event(2)]]


async def test_client_line_5_a_ping_leaves_every_thirty_seconds() -> None:
    clock, pings = Clock(), 0

    async def talk(served: Served) -> None:
        nonlocal pings
        await served.begin()
        for _ in range(3):
            assert await served.hear("ping") == {"type": "ping"}
            pings += 1
            await served.tell({"type": "pong"})
        await served.tell({"type": "cin:pinged"})

    async with server(talk) as url, CinClient(url, sleep=clock.sleep) as client:
        for _ in range(3):
            await clock.ring()
        frames = await until(client, "cin:pinged")
        assert [frame["type"] for frame in frames] == ["init", "cin:pinged"], "a pong is nobody else's business"
        assert pings == 3
        await clock.ring()
        assert clock.asked == [30.0] * 4
        assert client.connections == 1


async def test_client_line_6_the_pause_before_each_attempt_is_twice_the_one_before() -> None:
    """With a random part of up to a half; no longer than the longest, and from the start after a connection."""
    clock, refused = Clock(by_itself=True), 0

    async def talk(served: Served) -> None:
        await served.begin()
        await served.cut()

    def refuse(connection: ServerConnection, request: Request) -> Response | None:
        nonlocal refused
        refused += 1
        return None if refused in (1, 9) else connection.respond(503, "later")

    async def on_connection(socket: ServerConnection) -> None:
        await talk(Served(socket, refused))

    options = CinOptions(attempts=8, ping_every=3600.0)
    async with serve(on_connection, "127.0.0.1", 0, process_request=refuse) as listening:
        port = next(iter(listening.sockets)).getsockname()[1]
        client = CinClient(f"ws://127.0.0.1:{port}/", options=options, sleep=clock.sleep)
        async with client:
            with pytest.raises(ConnectionLost, match="after 9 attempts"):
                await until(client, "event")
    pauses = [asked for asked in clock.asked if asked != options.ping_every]
    wanted = [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert len(pauses) == len(wanted)
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, wanted, strict=True)), pauses
    assert len(set(pauses)) > len(wanted) // 2, "not all clients come at once"


# Cuts


class Bridge:
    """A bridge with one session. ``told`` is all that happened; ``kept`` of it are in its history."""

    def __init__(self, kept: int = 1000) -> None:
        self.told: list[Message] = []
        self.kept = kept
        self._links: dict[ServerConnection, asyncio.Queue[Message]] = {}

    def happen(self) -> None:
        """One more event, told to all that are there."""
        self.told.append(event(len(self.told) + 1, response="x" * (len(self.told) % 300)))
        for queue in self._links.values():
            queue.put_nowait({"type": "event", "data": self.told[-1]})

    async def serve(self, socket: ServerConnection) -> None:
        queue = self._links[socket] = asyncio.Queue()
        queue.put_nowait(init(session("s1")))
        telling = asyncio.create_task(self._tell(socket, queue))
        with contextlib.suppress(ConnectionClosed):
            async for text in socket:
                asked = json.loads(text)
                if asked["type"] == "get_history":
                    most = min(asked["data"]["limit"], self.kept)
                    queue.put_nowait({"type": "history", "data": self.told[-most:]})
                elif asked["type"] == "ping":
                    queue.put_nowait({"type": "pong"})
        del self._links[socket]
        telling.cancel()
        await asyncio.wait({telling})

    async def _tell(self, socket: ServerConnection, queue: asyncio.Queue[Message]) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await socket.send(json.dumps(await queue.get()))


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_cuts_at_any_byte_lose_nothing_and_repeat_nothing(seed: int) -> None:
    bridge, cuts, heard_of = Bridge(), 40, []
    async with (
        serve(bridge.serve, "127.0.0.1", 0) as listening,
        Chopper(next(iter(listening.sockets)).getsockname()[1], seed=seed, most=4000) as chopper,
        CinClient(chopper.url, options=QUICK) as client,
        asyncio.timeout(30),
    ):
        chopper.cuts_left = cuts
        chopper.cut()
        events = client.events()
        while chopper.cuts < cuts:
            for _ in range(3):
                bridge.happen()
            await asyncio.sleep(0)
            heard_of.append((await anext(events))["id"])
        while len(heard_of) < len(bridge.told):
            heard_of.append((await anext(events))["id"])
        assert heard_of == names(1, len(bridge.told))
        assert client.gaps == 0
        assert client.connections > 2


async def test_a_cut_at_any_frame_loses_nothing_and_repeats_nothing() -> None:
    """Also between ``init`` and the history, and in the midst of what comes before that is there."""
    frames = [
        init(session("s1")),
        told(4),
        {"type": "history", "data": [event(n) for n in range(1, 4)]},
        told(5),
        told(6),
    ]
    for place in range(len(frames) + 1):

        async def talk(served: Served, place: int = place) -> None:
            if served.number == 1:
                await served.begin(history=[event(0)])
                await served.tell(told(1), told(2))
            elif served.number == 2:
                await served.tell(*frames[:place])
            else:
                await served.begin(history=[event(n) for n in range(8)])
                return
            await served.cut()

        async with server(talk) as url, CinClient(url, options=QUICK) as client:
            assert await heard(client, 7) == names(1, 7), place
            assert client.gaps == 0


async def test_what_a_history_no_longer_has_is_told_as_a_gap() -> None:
    async def talk(served: Served) -> None:
        if served.number == 1:
            await served.begin(history=[event(1)])
            await served.tell(told(2))
            await served.cut()
        else:
            await served.begin(history=[event(5), event(6)])
            await served.tell(told(7))

    async with server(talk) as url, CinClient(url, options=QUICK) as client:
        frames = await until(client, "event")
        assert [frame["type"] for frame in frames] == ["init", "event"]
        frames = await until(client, "event")
        assert [frame["type"] for frame in frames] == ["init", GAP, "event"]
        assert frames[-1]["data"]["id"] == "ev-5"
        assert await heard(client, 2) == names(6, 7)
        assert client.gaps == 1


async def test_a_gap_that_a_server_tells_of_is_none() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        await served.tell({"type": GAP}, {"type": "cin:end"})

    async with server(talk) as url, CinClient(url, options=QUICK) as client:
        assert [frame["type"] for frame in await until(client, "cin:end")] == ["init", "cin:end"]
        assert client.gaps == 0


async def test_a_server_without_history_is_not_asked_again_and_every_cut_is_a_gap() -> None:
    async def talk(served: Served) -> None:
        await served.tell(init(session("s1")))
        if served.number == 1:
            await served.hear("get_history")
            await served.hear("harness:go")
            await served.tell(told(1))
            await served.cut()
        else:
            await served.tell(told(2))
            await served.hear("harness:end")

    options = CinOptions(first_retry=0.001, longest_retry=0.01, history_limit=0.05)
    async with server(talk) as url, CinClient(url, options=options) as client:
        client.send("harness:go")
        kinds = [frame["type"] for frame in await until(client, "event") + await until(client, "event")]
        assert kinds == ["init", "event", "init", GAP, "event"]
        client.send("harness:end")
        assert client.gaps == 1


async def test_the_history_that_dashboards_are_greeted_with_answers_nobody() -> None:
    async def talk(served: Served) -> None:
        await served.tell(init(), {"type": "connected", "payload": {"sessionId": "s1"}})
        await served.tell({"type": "history", "payload": [event(9)]})
        await served.hear("get_history")
        await served.tell({"type": "history", "data": [event(1)], "payload": [event(1)]})
        await served.hear("get_history")
        await served.tell({"type": "history", "data": [event(2)], "payload": [event(2)]})

    async with server(talk) as url, CinClient(url, options=QUICK) as client:
        assert await client.history() == [event(2)]


async def test_a_subscription_is_said_again_and_holds_where_the_server_knows_none() -> None:
    asked: list[Message] = []

    async def talk(served: Served) -> None:
        await served.tell(init())
        if served.number > 1:
            asked.append(await served.hear("subscribe"))
        await served.hear("get_history")
        await served.tell({"type": "history", "data": [event(0)]})
        if served.number == 1:
            asked.append(await served.hear("subscribe"))
            await served.tell(told(1, "s2"), told(2, type="stop"), told(3, type="pre_tool_use"), told(4, "s3"))
            await served.tell(told(5, "s4", agentSessionId="s1"))
            await served.cut()
        await served.tell(told(6), told(7, "s2"), {"type": "session:status", "data": session("s2")})

    async with server(talk) as url, CinClient(url, options=QUICK) as client:
        client.subscribe(["s1"], ["stop"])
        assert await heard(client, 3) == ["ev-2", "ev-5", "ev-6"]
        await until(client, "session:status")
        assert list(client.sessions) == ["s2"]
        wanted = {"sessions": ["s1"], "eventTypes": ["stop"]}
        assert asked == [{"type": "subscribe", "data": wanted, "payload": wanted}] * 2


async def test_what_had_no_answer_is_asked_again_after_a_cut() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        assert (await served.hear("get_history"))["data"] == {"limit": 7}
        if served.number == 1:
            await served.cut()
        await served.hear("ping")
        await served.tell({"type": "history", "data": [event(3)]}, {"type": "pong"})

    async with server(talk) as url, CinClient(url, options=QUICK) as client:
        events, seconds = await asyncio.gather(client.history(7), client.ping())
        assert events == [event(3)]
        assert 0 <= seconds < 5
        assert client.connections == 2


async def test_an_answer_that_names_no_decision_is_not_sent_on_a_later_connection() -> None:
    said: list[Message] = []
    back = asyncio.Event()

    async def talk(served: Served) -> None:
        if served.number == 2:
            await back.wait()
        await served.begin()
        if served.number == 1:
            said.append(await served.hear("permission_response"))
            await served.cut()
        said.append(await served.hear("permission_response"))
        said.append(await served.hear("harness:last"))

    async with server(talk) as url, CinClient(url, options=QUICK) as client, asyncio.timeout(10):
        client.answer("s1", 1)
        await eventually(lambda: said and not client.connected, "the cut")
        with pytest.raises(ConnectionLost, match="does not say what it is to"):
            client.answer("s1", "2")
        client.answer("s1", "2", "d-1")
        client.send("harness:last", {"n": 1})
        back.set()
        await eventually(lambda: len(said) == 3, "the answer that names its decision")
    assert [message.get("data") for message in said] == [
        {"sessionId": "s1", "response": "1"},
        {"sessionId": "s1", "response": "2", "decisionId": "d-1"},
        {"n": 1},
    ]
    assert all(message["payload"] == message["data"] for message in said[:2])

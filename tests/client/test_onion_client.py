"""The onion client against servers of a few lines: cuts at any frame, gates, refusals, turns that end elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from dragoman.client.errors import ConnectionLost, Denied, OnboardingRequired, Refused, TurnFailed
from dragoman.client.onion import OnionClient, OnionKey, OnionOptions
from dragoman.client.onion_place import Message
from tests.client import few_lines

QUICK = OnionOptions(first_retry=0.001, longest_retry=0.01, answer_limit=5.0)
KEY = OnionKey(b"\x02" * 32)
HOST = "0x" + "ab" * 32
SESSION: Message = {"session_id": "s1", "messages": [], "turn": 1, "result": "done"}

Talk = Callable[["Served"], Awaitable[None]]


class Served(few_lines.Served):
    """One connection, seen from the server."""

    async def let_in(self, status: str = "new", **more: Any) -> Message:
        """Take the CONNECT, whatever it says, and let the caller in."""
        asked = await self.hear("CONNECT")
        await self.tell(connected(status, **more))
        return asked


def server(talk: Talk) -> contextlib.AbstractAsyncContextManager[str]:
    """A server that has this talk on each connection; an assertion that fails there fails the test."""
    return few_lines.serving(talk, Served)


def connected(status: str, **more: Any) -> Message:
    return {"type": "CONNECTED", "session_id": "s1", "status": status, **more}


def event(number: int, kind: str, **fields: Any) -> Message:
    return {"type": kind, "id": f"ev-{number}", "ts": number / 10, **fields, "session_id": "s1"}


def output(result: str = "done", **session: Any) -> Message:
    told = {**SESSION, "result": result, **session}
    return {"type": "OUTPUT", "result": result, "session_id": "s1", "duration_ms": 5, "session": told, "chat_items": []}


def error(message: str, **more: Any) -> Message:
    return {"type": "ERROR", "message": message, **more}


def is_signed(message: Message) -> bool:
    """Whether the signature is good, over the payload as it stands."""
    text = json.dumps(message["payload"], sort_keys=True, separators=(",", ":")).encode()
    try:
        VerifyKey(bytes.fromhex(message["from"][2:])).verify(text, bytes.fromhex(message["signature"]))
    except BadSignatureError:
        return False
    return True


async def test_each_connection_is_signed_anew_and_names_the_session() -> None:
    asked: list[Message] = []

    async def talk(served: Served) -> None:
        asked.append(await served.let_in())
        if served.number < 3:
            await served.cut()

    async with server(talk) as url, OnionClient(url, key=KEY, host=HOST, history=SESSION, options=QUICK) as client:
        async with asyncio.timeout(5):
            async for frame in client.frames():
                assert frame["type"] == "CONNECTED"
                if client.connections == 3:
                    break
        assert all(is_signed(message) for message in asked)
        assert [message.get("session_id") for message in asked] == [None, "s1", "s1"]
        assert [message.get("session") for message in asked] == [SESSION, None, None], "it is brought once"
        assert {message["payload"]["to"] for message in asked} == {HOST}
        assert len({message["signature"] for message in asked}) == 3, "no two CONNECTs are the same"
        assert {message["from"] for message in asked} == {KEY.address}


async def test_who_has_no_key_signs_nothing() -> None:
    async def talk(served: Served) -> None:
        assert await served.let_in() == {"type": "CONNECT"}

    async with server(talk) as url, OnionClient(url, options=QUICK) as client:
        assert (client.session_id, client.status, client.running) == ("s1", "new", False)
        with pytest.raises(ValueError, match="key"):
            await client.administer("promote", client_id="x")
    assert "02" * 16 not in repr(KEY)
    with pytest.raises(ValueError, match="32 bytes"):
        OnionKey(b"short")


TURN: list[Message] = [
    event(1, "user_input", content="go", turn=1),
    event(2, "llm_call", model="m", iteration=1, status="running"),
    event(2, "llm_result", model="m", iteration=1, status="success"),
    event(3, "assistant_delta", content="a "),
    event(4, "assistant_delta", content="b"),
    event(5, "compact", status="compacting"),
    event(5, "compact", status="done"),
    event(6, "tool_call", tool_id="t", name="read", args={}),
    event(7, "tool_result", tool_id="t", name="read", args={}, status="success", result="x"),
    output(),
]


class Session:
    """A session whose turn is told to each connection, and cut after so many frames of all.

    ``knows``: it goes on behind the last event with the id that the client names; else it tells the turn from its
    start each time. Of a pair the second is told again, since the first may be all that arrived.
    """

    def __init__(self, cuts: list[int], *, knows: bool) -> None:
        self.cuts = cuts
        self.knows = knows
        self.prompts = 0

    async def talk(self, served: Served) -> None:
        asked = await served.let_in("new" if served.number == 1 else "running")
        if served.number == 1:
            assert (await served.hear("INPUT"))["prompt"] == "go"
            self.prompts += 1
        frames = TURN[self.place(asked.get("last_msg_id")) :]
        left = self.cuts.pop(0) if self.cuts else len(frames)
        await served.tell(*frames[:left])
        if left < len(frames):
            await served.cut()
        else:
            await served.socket.wait_closed()

    def place(self, last: str | None) -> int:
        places = [place for place, frame in enumerate(TURN) if frame.get("id") == last]
        if last is None or not self.knows or not places:
            return 0
        return places[-1] + (len(places) == 1)


@pytest.mark.parametrize("knows", [True, False], ids=["goes-on", "from-the-start"])
@pytest.mark.parametrize("cuts", [*([cut] for cut in range(1, len(TURN))), [1] * 4, [3, 1, 6]], ids=str)
async def test_a_cut_at_any_frame_loses_nothing_and_repeats_nothing(cuts: list[int], knows: bool) -> None:
    session = Session(list(cuts), knows=knows)
    handed: list[Message] = []
    async with (
        server(session.talk) as url,
        OnionClient(url, options=QUICK) as client,
        asyncio.timeout(10),
    ):
        running = asyncio.create_task(client.run("go"))
        async for frame in client.frames():
            if frame["type"] != "CONNECTED":
                handed.append(frame)
            if frame["type"] == "OUTPUT":
                break
        assert handed == TURN
        assert (await running).result == "done"
        assert session.prompts == 1
        assert client.last_msg_id == "ev-7"


async def test_of_a_turn_that_ended_meanwhile_the_session_tells() -> None:
    async def talk(served: Served) -> None:
        if served.number == 1:
            await served.let_in()
            await served.hear("INPUT")
            await served.tell(TURN[0])
            await served.cut()
        else:
            ended = {**SESSION, "result": "while you were away"}
            await served.let_in("connected", server_newer=True, session=ended, chat_items=[{"id": "msg-0"}])
            assert (await served.hear("INPUT"))["prompt"] == "more"
            await served.tell(event(20, "user_input", content="more", turn=2), output("second"))

    async with server(talk) as url, OnionClient(url, options=QUICK) as client:
        first = await client.run("go")
        assert (first.result, first.duration_ms, first.chat_items) == ("while you were away", None, [{"id": "msg-0"}])
        assert not client.running
        assert (await client.run("more")).result == "second"


async def test_a_turn_whose_begin_and_end_were_cut_off_has_its_outcome_too() -> None:
    async def talk(served: Served) -> None:
        if served.number == 1:
            await served.let_in()
            await served.hear("INPUT")
            await served.cut()
        else:
            await served.let_in("connected", server_newer=True, session=SESSION, chat_items=[])
            await served.hear("INPUT")
            await served.tell({"type": "RUNTIME_INPUT_ACK", "session_id": "s1", "id": "ev-1"})

    async with server(talk) as url, OnionClient(url, options=QUICK) as client, asyncio.timeout(5):
        assert (await client.run("go")).result == "done"


async def test_a_prompt_into_a_turn_has_what_comes_of_the_turn_that_took_it() -> None:
    """Also when that turn is over before it could be taken, and it runs as one of its own."""

    async def talk(served: Served) -> None:
        await served.let_in()
        await served.hear("INPUT")
        await served.tell(TURN[0])
        for number in (1, 2):
            await served.hear("INPUT")
            await served.tell({"type": "RUNTIME_INPUT_ACK", "session_id": "s1", "id": f"p{number}"})
        taken = event(5, "user_input", content="also", turn=1, runtime_input=True, iteration=2) | {"id": "p1"}
        await served.tell(taken, output("both"))
        await served.tell(event(9, "user_input", content="late", turn=2) | {"id": "p2"}, output("late one"))

    async with server(talk) as url, OnionClient(url, options=QUICK) as client:
        first = asyncio.create_task(client.run("go"))
        async for frame in client.frames():
            if frame["type"] == "user_input":
                break
        also, late = await asyncio.gather(client.run("also"), client.run("late"))
        assert ((await first).result, also.result, late.result) == ("both", "both", "late one")


async def test_a_turn_that_fails_and_a_prompt_that_is_refused_are_told_apart() -> None:
    async def talk(served: Served) -> None:
        await served.let_in()
        await served.hear("INPUT")
        await served.tell(error("prompt required"))
        await served.hear("INPUT")
        await served.tell(TURN[0])
        await served.hear("INPUT")
        await served.tell(error("forbidden: not yours"), error("the model is gone"))
        await served.hear("INPUT")
        await served.tell(event(30, "user_input", content="again", turn=2), output("fine"))

    async with server(talk) as url, OnionClient(url, options=QUICK) as client:
        with pytest.raises(Refused, match="prompt required"):
            await client.input("")
        running = asyncio.create_task(client.run("go"))
        async for frame in client.frames():
            if frame["type"] == "user_input":
                break
        with pytest.raises(Refused, match="not yours"):
            await client.input("into it")
        with pytest.raises(TurnFailed, match="the model is gone"):
            await running
        assert (await client.run("again")).result == "fine"


async def test_a_prompt_whose_answer_was_cut_off_is_sent_again_under_its_id() -> None:
    """The server may have taken the first: then it acknowledges the second, beside the event that it tells again."""
    heard: list[str] = []

    async def talk(served: Served) -> None:
        await served.let_in("new" if served.number == 1 else "running")
        heard.append((await served.hear("INPUT"))["input_id"])
        if served.number == 1:
            await served.cut()
            return
        await served.tell(TURN[0], {"type": "RUNTIME_INPUT_ACK", "session_id": "s1", "id": "ev-1"})
        await served.hear("INPUT")
        await served.tell({"type": "RUNTIME_INPUT_ACK", "session_id": "s1", "id": "p2"})

    async with server(talk) as url, OnionClient(url, options=QUICK) as client:
        assert await client.input("go") == "ev-1"
        assert await client.input("more") == "p2", "the second acknowledgement of the first is no answer to it"
        assert len(heard) == 2
        assert len(set(heard)) == 1


async def test_a_prompt_whose_answer_was_cut_off_is_not_sent_again_where_that_would_be_two() -> None:
    async def talk(served: Served) -> None:
        await served.let_in()
        if served.number == 1:
            await served.hear("INPUT")
            await served.cut()
        else:
            await served.hear("SESSION_STATUS")
            await served.tell({"type": "SESSION_STATUS", "session_id": "s1", "status": "connected"})

    options = OnionOptions(first_retry=0.001, longest_retry=0.01, again=False)
    async with server(talk) as url, OnionClient(url, options=options) as client:
        with pytest.raises(ConnectionLost):
            await client.input("go")
        assert await client.ask_status() == "connected"


GATE: Message = {"type": "ONBOARD_REQUIRED", "identity": KEY.address, "methods": ["invite_code"]}
LET_IN: Message = {"type": "ONBOARD_SUCCESS", "identity": KEY.address, "level": "contact", "message": "welcome"}


async def gated(served: Served) -> None:
    """One CONNECT only: the server goes on with it by itself."""
    await served.hear("CONNECT")
    await served.tell(GATE)
    while True:
        submitted = await served.hear("ONBOARD_SUBMIT")
        assert is_signed(submitted)
        if submitted["payload"]["invite_code"] == "right":
            break
        await served.tell(error("Invalid invite code"))
    await served.tell(LET_IN, connected("new"))
    await served.hear("INPUT")
    await served.tell(*TURN)


async def test_a_stranger_becomes_known_on_the_same_connection() -> None:
    async with server(gated) as url:
        client = OnionClient(url, key=KEY, options=QUICK)
        with pytest.raises(OnboardingRequired, match="invite_code") as gate:
            await client.start()
        assert (gate.value.methods, gate.value.identity) == (("invite_code",), KEY.address)
        with pytest.raises(Refused, match="Invalid invite code"):
            await client.onboard(invite_code="wrong")
        await client.onboard(invite_code="right")
        assert client.gate is None
        assert (await client.run("go")).result == "done"
        assert client.connections == 1
        await client.close()


async def test_an_invite_code_that_is_known_beforehand_opens_the_gate() -> None:
    async with server(gated) as url, OnionClient(url, key=KEY, invite_code="right", options=QUICK) as client:
        assert (await client.run("go")).result == "done"


async def test_who_is_refused_is_told_in_the_servers_words_and_does_not_come_again() -> None:
    async def talk(served: Served) -> None:
        assert served.number == 1
        await served.hear("CONNECT")
        await served.tell({"type": "PING"}, error("forbidden: blacklisted"))

    async with server(talk) as url:
        with pytest.raises(Denied, match="forbidden: blacklisted"):
            await OnionClient(url, key=KEY, options=QUICK).start()


async def test_an_answer_that_a_cut_may_have_lost_is_given_again_and_a_stale_one_is_kept_quiet() -> None:
    heard: list[tuple[int, str]] = []

    async def talk(served: Served) -> None:
        if served.number == 1:
            await served.let_in()
            await served.hear("INPUT")
            await served.tell(TURN[0], event(2, "ask_user", question="?", options=None, multi_select=False))
        else:
            await served.let_in("running")
        given = await served.hear("ASK_USER_RESPONSE")
        heard.append((served.number, given["request_id"]))
        assert given["answer"] == "yes"
        if served.number == 1:
            await served.cut()
            return
        stale = error("too late", code="STALE_ANSWER", request_id="ev-2")
        await served.tell(stale, output("answered"))

    async with server(talk) as url, OnionClient(url, options=QUICK) as client, asyncio.timeout(5):
        await client.input("go")
        kinds = []
        async for frame in client.frames():
            kinds.append(frame["type"])
            if frame["type"] == "ask_user":
                client.answer(frame["id"], "yes")
            if frame["type"] == "OUTPUT":
                break
        assert kinds == ["CONNECTED", "user_input", "ask_user", "CONNECTED", "OUTPUT"]
        assert heard == [(1, "ev-2"), (2, "ev-2")]


async def test_answers_modes_and_interrupts_go_out_as_the_wire_has_them() -> None:
    said: list[Message] = []

    async def talk(served: Served) -> None:
        await served.let_in()
        said.extend([json.loads(await served.socket.recv()) for _ in range(7)])
        await served.tell({"type": "ADMIN_RESULT", "action": "promote", "success": True})

    async with server(talk) as url, OnionClient(url, key=KEY, options=QUICK) as client:
        client.approve("ev-1", approved=True, scope="session")
        client.approve("ev-2", approved=False, feedback="no", rejection="reject_soft")
        client.review("ev-3", "approve")
        client.answer("ev-4", ["a", "b"])
        client.mode("accept_edits")
        client.interrupt()
        assert (await client.administer("promote", client_id="0x1"))["success"] is True
    admin = said.pop()
    assert is_signed(admin)
    assert (admin["type"], admin["payload"]["client_id"]) == ("ADMIN_PROMOTE", "0x1")
    assert said == [
        {"type": "APPROVAL_RESPONSE", "request_id": "ev-1", "approved": True, "scope": "session"},
        {
            "type": "APPROVAL_RESPONSE",
            "request_id": "ev-2",
            "approved": False,
            "scope": "once",
            "feedback": "no",
            "mode": "reject_soft",
        },
        {"type": "PLAN_REVIEW_RESPONSE", "request_id": "ev-3", "message": "approve"},
        {"type": "ASK_USER_RESPONSE", "request_id": "ev-4", "answer": ["a", "b"]},
        {"type": "mode_change", "mode": "accept_edits"},
        {"type": "INTERRUPT"},
    ]


async def test_pictures_and_files_go_with_the_prompt() -> None:
    async def talk(served: Served) -> None:
        await served.let_in()
        said = await served.hear("INPUT")
        assert said["images"] == ["data:image/png;base64,UE5H", "data:image/gif;base64,R0lG"]
        assert said["files"] == [
            {"name": "a.pdf", "data": "data:application/pdf;base64,UERG"},
            {"name": "b", "data": "data:application/octet-stream;base64,AAE="},
        ]
        await served.tell(TURN[0])

    async with server(talk) as url, OnionClient(url, options=QUICK) as client:
        files = {"a.pdf": b"PDF", "b": b"\0\1"}
        assert await client.input("go", images=[b"PNG", "data:image/gif;base64,R0lG"], files=files) == "ev-1"


async def test_pings_are_answered_and_silence_is_a_dead_connection() -> None:
    async def talk(served: Served) -> None:
        await served.let_in()
        if served.number == 1:
            await served.tell({"type": "PING"})
            assert await served.hear("PONG") == {"type": "PONG"}

    options = OnionOptions(first_retry=0.001, longest_retry=0.01, silence=0.1)
    async with server(talk) as url, OnionClient(url, options=options) as client, asyncio.timeout(5):
        kinds = []
        async for frame in client.frames():
            kinds.append(frame["type"])
            if client.connections > 1:
                break
        assert set(kinds) == {"CONNECTED"}


async def test_who_does_not_reconnect_is_told_that_the_connection_is_gone() -> None:
    async def talk(served: Served) -> None:
        await served.let_in()
        await served.cut()

    async with server(talk) as url, OnionClient(url, reconnect=False, options=QUICK) as client:
        frames = client.frames()
        assert (await anext(frames))["type"] == "CONNECTED"
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(anext(frames), 5)


async def test_while_nobody_reads_the_socket_is_not_read_either() -> None:
    sent = asyncio.Event()

    async def talk(served: Served) -> None:
        await served.let_in()
        await served.hear("INPUT")
        await served.tell(TURN[0])
        for number in range(2, 400):
            await served.tell(event(number, "assistant_delta", content="x" * 100_000))
        sent.set()
        await served.tell(output())

    options = OnionOptions(frame_backlog=4, answer_limit=5.0)
    async with server(talk) as url, OnionClient(url, options=options) as client, asyncio.timeout(20):
        await client.input("go")
        await asyncio.sleep(0)
        numbers: list[int] = []
        async for frame in client.frames():
            if frame["type"] == "assistant_delta":
                assert numbers or not sent.is_set(), "the server could send all of it"
                numbers.append(int(frame["id"].removeprefix("ev-")))
            if frame["type"] == "OUTPUT":
                break
        assert numbers == list(range(2, 400))


async def test_in_another_process_it_goes_on_behind_what_was_handled() -> None:
    async def talk(served: Served) -> None:
        asked = await served.let_in("running")
        assert (asked["session_id"], asked.get("last_msg_id")) == ("s1", "ev-3")
        await served.hear("mode_change")
        await served.tell(*TURN[4:])

    async with (
        server(talk) as url,
        OnionClient(url, session_id="s1", last_msg_id="ev-3", options=QUICK) as client,
        asyncio.timeout(5),
    ):
        assert client.running
        client.mode("plan")
        assert (await client.outcome()).result == "done"
        frames = client.frames()
        handled = []
        for _ in range(3):
            await anext(frames)
            handled.append(client.last_msg_id)
        assert handled == ["ev-3", "ev-3", "ev-4"], "what is being handled is not handled yet"

"""The coworker client against servers of a few lines: cuts at any frame, sends without a connection, refusals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from websockets.asyncio.server import serve

from dragoman.client.coworker import CoworkerClient, CoworkerOptions, Message
from dragoman.client.coworker_place import Place
from dragoman.client.errors import ConnectionLost, Denied, Refused
from tests.client import few_lines

QUICK = CoworkerOptions(first_retry=0.001, longest_retry=0.01, answer_limit=5.0)

CONFIG = {"provider": "openai", "model": "m", "workingDirectory": "/w", "outputDirectory": "/w/output"}


def hello(session: str, **more: Any) -> Message:
    capabilities = {"modelStreamChunk": "v1"} | ({"resume": "v1"} if "cursor" in more else {})
    return {
        "type": "server_hello",
        "sessionId": session,
        "protocolVersion": "3.0",
        "capabilities": capabilities,
        "config": CONFIG,
        **more,
    }


Talk = Callable[["Served"], Awaitable[None]]


class Served(few_lines.Served):
    """One connection, seen from the server; ``query`` is that of its address."""

    @property
    def query(self) -> dict[str, str]:
        assert self.socket.request is not None
        return {key: values[0] for key, values in parse_qs(urlsplit(self.socket.request.path).query).items()}


def server(talk: Talk) -> contextlib.AbstractAsyncContextManager[str]:
    """A server that has this talk on each connection; an assertion that fails there fails the test."""
    return few_lines.serving(talk, Served)


async def first(client: CoworkerClient, count: int) -> list[Message]:
    """So many frames after ``server_hello``."""
    frames: list[Message] = []
    async with asyncio.timeout(5):
        async for frame in client.frames():
            if frame["type"] != "server_hello":
                frames.append(frame)
            if len(frames) == count:
                return frames
    return frames


async def test_every_message_carries_the_session_of_its_hello() -> None:
    async def talk(served: Served) -> None:
        await served.tell(hello("s1"))
        assert await served.hear("ping") == {"type": "ping", "sessionId": "s1"}
        await served.tell({"type": "pong", "sessionId": "s1"})
        said = await served.hear("user_message")
        assert said.pop("clientMessageId")
        assert said == {"type": "user_message", "sessionId": "s1", "text": "hi"}
        await served.tell({"type": "error", "sessionId": "s1", "message": "no", "code": "busy", "source": "session"})

    async with server(talk) as url, CoworkerClient(url, options=QUICK) as client:
        assert (client.session, client.config, client.resumes) == ("s1", CONFIG, False)
        await client.ping()
        with pytest.raises(Refused) as refused:
            await client.say("hi")
        assert refused.value.code == "busy"


async def test_replies_are_told_apart_by_what_they_are_about() -> None:
    async def talk(served: Served) -> None:
        await served.tell(hello("s1"))
        one, other = await served.hear("read_skill"), await served.hear("read_skill")
        for name in (other["skillName"], one["skillName"]):
            await served.tell({"type": "skill_content", "sessionId": "s1", "skill": {"name": name}, "content": name})
        error = {"type": "error", "sessionId": "s1", "code": "internal_error", "source": "session", "message": "turn"}
        await served.hear("list_tools")
        await served.tell(error, {"type": "tools", "sessionId": "s1", "tools": ["ask"]})
        await served.hear("set_model")
        wrong = {"code": "validation_failed", "source": "protocol", "message": "set_model invalid provider: x"}
        await served.tell({"type": "error", "sessionId": "s1", **wrong})

    async with server(talk) as url, CoworkerClient(url, options=QUICK) as client:
        texts = await asyncio.gather(client.read_skill("a"), client.read_skill("b"))
        assert [text["content"] for text in texts] == ["a", "b"]
        assert await client.tools() == ["ask"], "a turn's error is no answer to it"
        with pytest.raises(Refused, match="invalid provider: x"):
            await client.set_model("m", "x")


async def test_a_session_that_ends_with_its_socket_ends_the_client() -> None:
    async def talk(served: Served) -> None:
        assert served.number == 1
        await served.tell(hello("s1"))
        await served.hear("list_tools")
        await served.cut()

    async with server(talk) as url, CoworkerClient(url, options=QUICK) as client:
        with pytest.raises(ConnectionLost):
            await client.tools()
        with pytest.raises(ConnectionLost):
            await first(client, 1)
        with pytest.raises(ConnectionLost):
            client.cancel()


async def test_what_was_queued_goes_out_once_with_the_new_session() -> None:
    """Spec 13 #27: the original's client flushed it with the old session's id, or lost it."""
    heard: list[tuple[int, str, str]] = []
    cut, may_connect = asyncio.Event(), asyncio.Event()

    async def talk(served: Served) -> None:
        if served.number == 2:
            await may_connect.wait()
        await served.tell(hello(f"s{served.number}"))
        if served.number == 1:
            await served.hear("ping")
            await served.cut()
            cut.set()
            return
        async for data in served.socket:
            message = json.loads(data)
            heard.append((served.number, message["sessionId"], message["type"]))
            if message["type"] == "list_tools":
                await served.tell({"type": "tools", "sessionId": message["sessionId"], "tools": []})

    async with server(talk) as url, CoworkerClient(url, reconnect=True, options=QUICK) as client:
        with pytest.raises(ConnectionLost):
            await client.ping()
        await cut.wait()
        client.cancel()
        waiting = asyncio.create_task(client.tools())
        may_connect.set()
        assert await waiting == []
        assert heard == [(2, "s2", "cancel"), (2, "s2", "list_tools")]
        assert client.session == "s2"


async def test_another_protocol_and_a_refused_upgrade_are_final() -> None:
    async def talk(served: Served) -> None:
        await served.tell({**hello("s1"), "protocolVersion": "4.0"})

    async with server(talk) as url:
        with pytest.raises(Denied, match=r"3\.0"):
            await CoworkerClient(url, options=QUICK).start()

    async def refuse(*_: Any) -> Any:
        return _[0].respond(404, "unknown session\n")

    async with serve(talk, "127.0.0.1", 0, process_request=refuse) as listening:  # type: ignore[arg-type]
        port = next(iter(listening.sockets)).getsockname()[1]
        with pytest.raises(Denied, match=r"HTTP 404: unknown session$") as denied:
            await CoworkerClient(f"ws://127.0.0.1:{port}/ws", session="gone", options=QUICK).start()
        assert denied.value.status == 404


async def test_who_finds_no_server_is_told_what_stood_in_the_way() -> None:
    options = CoworkerOptions(first_retry=0.001, longest_retry=0.01, answer_limit=0.1)
    with contextlib.closing(socket.socket()) as nobody:
        nobody.bind(("127.0.0.1", 0))
        client = CoworkerClient(f"ws://127.0.0.1:{nobody.getsockname()[1]}/ws", options=options)
        with pytest.raises(TimeoutError, match=r"no session within 0\.1 s: .*Connect call failed"):
            await client.start()


def turn() -> Iterator[list[Message]]:
    """The events of a turn with two prompts, each with its frames."""
    base = {"sessionId": "s1"}
    events: list[list[Message]] = [
        [{"type": "user_message", **base, "text": "go", "clientMessageId": "c1"}],
        [{"type": "session_busy", **base, "busy": True}],
        [{"type": "model_stream_chunk", **base, "index": n, "partType": kind} for n, kind in ((0, "start"), (1, "x"))],
        [{"type": "log", **base, "line": "tool> ask"}, {"type": "model_stream_chunk", **base, "index": 2}],
        [{"type": "ask", **base, "requestId": "r1", "question": "?"}],
        [{"type": "log", **base, "line": "same"}, {"type": "log", **base, "line": "same"}],
        [{"type": "approval", **base, "requestId": "r2", "command": "x", "dangerous": False, "reasonCode": "y"}],
        [
            {"type": "reasoning", **base, "kind": "reasoning", "text": "so"},
            {"type": "assistant_message", **base, "text": "done"},
            {"type": "session_backup_state", **base, "reason": "auto_checkpoint", "backup": {}},
        ],
        [{"type": "session_busy", **base, "busy": False}],
    ]
    for number, frames in enumerate(events, 11):
        frames[-1] = {**frames[-1], "cursor": number}
        yield frames


EVENTS = list(turn())
FRAMES = [frame for event in EVENTS for frame in event]


class Session:
    """A session whose turn is told to each connection from its cursor, and cut after so many frames of all."""

    def __init__(self, cuts: list[int]) -> None:
        self.cuts = cuts
        self.prompts: list[str] = []
        self.answers: list[str] = []
        self.waiting = asyncio.Event()

    def next_frames(self, after: int) -> Iterator[Message]:
        for event in EVENTS:
            if event[-1]["cursor"] > after:
                yield from event

    async def talk(self, served: Served) -> None:
        after = int(served.query.get("after", 10))
        assert served.query["features"] == "resume,void"
        assert served.query.get("session") == (None if served.number == 1 else "s1")
        await served.tell(hello("s1", cursor=after), {"type": "session_settings", "sessionId": "s1", "enableMcp": True})
        hearing = asyncio.create_task(self.hear(served))
        try:
            await self.tell(served, after)
            await served.socket.wait_closed()
        finally:
            hearing.cancel()

    async def tell(self, served: Served, after: int) -> None:
        frames = list(self.next_frames(after))
        if 11 < after < 19:
            await served.tell({"type": "session_busy", "sessionId": "s1", "busy": True})
        for prompt, event, answered in (("r1", 15, 1), ("r2", 17, 2)):
            if event <= after and len(self.answers) < answered:
                told = next(frame for frame in FRAMES if frame.get("requestId") == prompt)
                await served.tell({key: value for key, value in told.items() if key != "cursor"})
        left = self.cuts.pop(0) if self.cuts else len(frames)
        for frame in frames[:left]:
            if frame["type"] == "user_message":
                await self.until(lambda: bool(self.prompts))
            await served.tell(frame)
            if frame["type"] in ("ask", "approval"):
                await self.until(lambda asked=frame["requestId"]: asked in self.answers)
        if left < len(frames):
            await served.cut()

    async def until(self, is_true: Callable[..., bool]) -> None:
        while not is_true():
            self.waiting.clear()
            await self.waiting.wait()

    async def hear(self, served: Served) -> None:
        async for data in served.socket:
            message = json.loads(data)
            assert message["sessionId"] == "s1"
            if message["type"] == "user_message":
                if message["clientMessageId"] in self.prompts:
                    await served.tell({key: value for key, value in FRAMES[0].items() if key != "cursor"})
                self.prompts.append(message["clientMessageId"])
            else:
                self.answers.append(message["requestId"])
            self.waiting.set()


async def played(cuts: list[int]) -> tuple[list[Message], Session]:
    """The frames that a client hands over of the turn, with these cuts."""
    session = Session(cuts)
    handed: list[Message] = []
    async with (
        server(session.talk) as url,
        CoworkerClient(url, features=("resume", "void"), options=QUICK) as client,
        asyncio.timeout(10),
    ):
        await client.say("go", message_id="c1")
        async for frame in client.frames():
            if frame["type"] in ("server_hello", "session_settings"):
                continue
            handed.append(frame)
            if frame["type"] == "ask":
                client.answer(frame["requestId"], "yes")
            elif frame["type"] == "approval":
                client.approve(frame["requestId"], approved=True)
            if frame.get("cursor") == 19:
                break
        assert client.cursor == 18, "the last one is being handled"
    return handed, session


@pytest.mark.parametrize("cut", range(len(FRAMES)))
async def test_a_cut_at_any_frame_loses_nothing_and_repeats_nothing(cut: int) -> None:
    handed, session = await played([cut])
    assert handed == FRAMES
    assert set(session.prompts) == {"c1"}


@pytest.mark.parametrize("size", [1, 2, 3])
async def test_many_cuts_lose_nothing_and_repeat_nothing(size: int) -> None:
    handed, _ = await played([size] * 12)
    assert handed == FRAMES[: len(handed)]
    assert handed == FRAMES


async def test_an_answer_that_was_lost_with_its_connection_is_given_again() -> None:
    heard: list[Message] = []
    prompt = {"type": "ask", "sessionId": "s1", "requestId": "r1", "question": "?"}
    done = asyncio.Event()

    async def talk(served: Served) -> None:
        await served.tell(hello("s1", cursor=1))
        if served.number == 1:
            await served.tell({**prompt, "cursor": 2})
            await served.hear("ask_response")  # and it is lost
            await served.cut()
        else:
            await served.tell(prompt)
            heard.append(await served.hear("ask_response"))
            done.set()

    async with server(talk) as url, CoworkerClient(url, features=("resume",), options=QUICK) as client:
        (asked,) = await first(client, 1)
        client.answer(asked["requestId"], "yes")
        async with asyncio.timeout(5):
            await done.wait()
    assert heard == [{"type": "ask_response", "sessionId": "s1", "requestId": "r1", "answer": "yes"}]


async def test_a_silent_server_is_asked_and_then_left() -> None:
    async def talk(served: Served) -> None:
        await served.tell(hello("s1"))
        await served.hear("ping")

    options = CoworkerOptions(heartbeat=0.05)
    async with server(talk) as url, CoworkerClient(url, options=options) as client:
        with pytest.raises(ConnectionLost):
            await first(client, 1)


async def test_a_reader_that_rests_holds_the_server_back_and_loses_nothing() -> None:
    count = 300

    async def talk(served: Served) -> None:
        await served.tell(hello("s1"), *({"type": "log", "sessionId": "s1", "line": str(n)} for n in range(count)))

    options = CoworkerOptions(frame_backlog=8)
    async with server(talk) as url, CoworkerClient(url, options=options) as client:
        assert [frame["line"] for frame in await first(client, count)] == [str(n) for n in range(count)]


def test_frames_of_an_event_that_is_told_again_in_another_connection_are_known() -> None:
    place = Place(3)
    log, reply = {"type": "log", "line": "a"}, {"type": "tools", "tools": []}
    assert [place.is_new(frame) for frame in (log, reply, log)] == [True, True, True]
    place.resume()
    assert [place.is_new(frame) for frame in (log, log, log)] == [False, False, True]
    place.resume()
    assert [place.is_new(frame) for frame in (log, log, log, {**log, "cursor": 4})] == [False, False, False, True]
    assert place.received == 4
    assert not place.is_new({**log, "cursor": 4})


@pytest.mark.parametrize("first_of_two", ["of the log", "of the repeated request"])
async def test_the_second_echo_of_a_prompt_that_was_sent_twice_is_not_handed_over(first_of_two: str) -> None:
    """That of the log has a cursor, the other one has none."""
    echo: Message = {"type": "user_message", "sessionId": "s1", "text": "go", "clientMessageId": "c1"}
    told: Message = {**echo, "cursor": 2}
    end: Message = {"type": "log", "sessionId": "s1", "line": "end", "cursor": 3}

    async def talk(served: Served) -> None:
        await served.tell(hello("s1", cursor=1))
        await served.hear("user_message")
        if served.number == 1:
            await served.cut()
        else:
            await served.tell(*([told, echo] if first_of_two == "of the log" else [echo, told]), end)

    async with server(talk) as url, CoworkerClient(url, features=("resume",), options=QUICK) as client:
        await client.say("go", message_id="c1")
        assert await first(client, 2) == [told, end]


async def test_frames_may_be_left_and_taken_up_again_and_the_cursor_says_which_were_handled() -> None:
    async def talk(served: Served) -> None:
        await served.tell(hello("s1", cursor=1))
        await served.tell(*({"type": "log", "sessionId": "s1", "line": "x", "cursor": n} for n in range(2, 8)))

    async with server(talk) as url, CoworkerClient(url, features=("resume",), options=QUICK) as client:
        taken: list[int] = []
        while len(taken) < 6:
            async for frame in client.frames():
                if frame["type"] == "log":
                    assert client.cursor == frame["cursor"] - 1
                    taken.append(frame["cursor"])
                    break
        assert taken == list(range(2, 8))
        waiting = asyncio.ensure_future(anext(client.frames()))
        await asyncio.wait({waiting}, timeout=0.01)  # it goes on waiting: there is no other frame
        assert client.cursor == 7
        with pytest.raises(RuntimeError):
            await anext(client.frames())
        waiting.cancel()

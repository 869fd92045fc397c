"""The client library: its place survives whatever happens to the connection, and it knows when to give up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from dragoman.client.errors import ClientClosed, ConnectionLost, Denied, Refused
from dragoman.client.hub import ClientOptions, Event, HubClient
from dragoman.client.hub_streams import Ended, Output, Skipped, Started
from dragoman.hub.permissions import LOCAL
from tests.dialects.hub.conftest import MakeRig
from tests.dialects.hub.rig import Rig, eventually

from .chopper import Chopper

QUICK = ClientOptions(first_retry=0.005, longest_retry=0.05)


class Book:
    """Keeps what a handler was given."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def whole(self, first: int = 1) -> bool:
        """Whether nothing is missing, twice, or out of order."""
        return [event.seq for event in self.events] == list(range(first, first + len(self.events)))


async def test_a_conversation(rig: Rig) -> None:
    book = Book()
    async with HubClient(rig.url) as client:
        session = await client.create(kind="scripted", cwd=str(rig.folder), title="mine")
        following = client.follow(session, book, after=0)
        receipt = await client.submit(session, "permit ls\nsay bye")
        await following.reached(receipt["seq"])
        await eventually(lambda: [e for e in book.events if e.fact["type"] == "decision.opened"], "a decision")
        decision = (await client.snapshot(session))["decisions"][0]["decision"]
        await client.answer(session, decision, accept=True)
        with pytest.raises(Refused) as late:
            await client.answer(session, decision, accept=False)
        assert (late.value.code, late.value.detail["outcome"]) == ("already_resolved", "answered")
        await eventually(lambda: [e for e in book.events if e.fact["type"] == "turn.ended"], "the end")
        assert book.whole()
        assert following.cursor == book.events[-1].seq
        assert [row["title"] for row in await client.sessions()] == ["mine"]
        page = await client.events(session, after=0)
        assert [event["seq"] for event in page["events"]] == [event.seq for event in book.events]


async def test_a_hundred_cuts_lose_nothing_and_repeat_nothing(rig: Rig) -> None:
    """V2: cut at any byte, also in the handshake, also twice in a row without a new event."""
    session = await rig.session()
    book = Book()
    async with Chopper(rig.port, cuts=100) as chopper, HubClient(chopper.url, options=QUICK) as client:
        following = client.follow(session.id, book, after=0)
        while chopper.cuts < 100:
            script = f"burst 40\npace 5 2\nsay {chopper.cuts}"
            await session.submit(LOCAL, script, via="test", when_busy="queue")
            await eventually(lambda: not session.shown.turn, "the turn ended")
        await following.reached(session.shown.seq)
        assert client.connections >= 20
    assert book.whole()
    assert book.events[-1].seq == session.shown.seq


async def test_joined_deltas_survive_cuts_too(rig: Rig) -> None:
    session = await rig.session()
    book = Book()
    async with Chopper(rig.port, cuts=20, seed=7) as chopper, HubClient(chopper.url, options=QUICK) as client:
        following = client.follow(session.id, book, after=0, coalesce=True)
        while chopper.cuts < 20:
            await rig.play(session, "burst 300")
        await following.reached(session.shown.seq)
    covered = [seq for event in book.events for seq in range(event.first, event.seq + 1)]
    assert covered == list(range(1, session.shown.seq + 1))


async def test_prompts_through_cuts_make_one_turn_each(rig: Rig) -> None:
    """V3: the client repeats what was not answered; the server takes it once."""
    session = await rig.session()
    async with (
        Chopper(rig.port, cuts=30, seed=3, most=3000) as chopper,
        HubClient(chopper.url, options=QUICK) as client,
    ):
        sent = 0
        while chopper.cuts < 30:
            await client.submit(session.id, f"say {sent}", when_busy="queue")
            sent += 1
        await eventually(lambda: not session.shown.turn and not session.shown.queue, "all turns ended")
    assert session.shown.prompts == sent


async def test_a_restart_of_the_server_is_only_a_longer_cut(make_rig: MakeRig) -> None:
    first = await make_rig()
    session = await first.session()
    book = Book()
    async with Chopper(first.port) as chopper, HubClient(chopper.url, options=QUICK) as client:
        following = client.follow(session.id, book, after=0)
        await first.play(session, "say before")
        await following.reached(session.shown.seq)
        epoch = client.hello and client.hello["epoch"]
        await first.stop()
        second = await make_rig(store=first.store)
        chopper.target = second.port
        again = await second.registry.get(LOCAL, session.id)
        await second.play(again, "say after")
        await following.reached(again.shown.seq)
        assert client.hello is not None
        assert client.hello["epoch"] != epoch
    assert book.whole()
    assert len({event.epoch for event in book.events}) == 2


async def test_the_cursor_moves_only_after_the_handler_returned(rig: Rig) -> None:
    session = await rig.session()
    await rig.play(session, "say one two three")
    gate, started = asyncio.Event(), asyncio.Event()

    async def slow(event: Event) -> None:
        if event.seq == 3:
            started.set()
            await gate.wait()

    async with HubClient(rig.url) as client:
        following = client.follow(session.id, slow, after=0)
        await started.wait()
        assert following.cursor == 2
        gate.set()
        await following.reached(session.shown.seq)


async def test_a_handler_that_fails_ends_its_stream_before_that_event(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    session = await rig.session()
    await rig.play(session, "say one two three")

    def failing(event: Event) -> None:
        if event.seq == 3:
            raise RuntimeError("no")

    book = Book()
    async with HubClient(rig.url) as client:
        following = client.follow(session.id, failing, after=0)
        with pytest.raises(RuntimeError):
            await following.wait()
        assert following.cursor == 2
        again = client.follow(session.id, book, after=following.cursor)
        await again.reached(session.shown.seq)
    assert book.whole(3)
    assert "failed" in caplog.text


async def test_a_handler_may_ask_for_more(rig: Rig) -> None:
    """An answer given from within the handler of the event that asks for it."""
    session = await rig.session()
    answered: list[str] = []

    async with HubClient(rig.url) as client:

        async def handler(event: Event) -> None:
            if event.fact["type"] == "decision.opened":
                await client.answer(session.id, event.fact["decision"], accept=True)
                answered.append(event.fact["text"])

        following = client.follow(session.id, handler, after=0)
        await client.submit(session.id, "permit one\npermit two")
        await eventually(lambda: not session.shown.turn, "the turn ended")
        await following.reached(session.shown.seq)
    assert answered == ["one", "two"]


async def test_a_slow_handler_holds_a_bounded_backlog_and_loses_nothing(rig: Rig) -> None:
    session = await rig.session()
    book, gate = Book(), asyncio.Event()

    async def slow(event: Event) -> None:
        await gate.wait()
        book(event)

    options = ClientOptions(stream_backlog=20_000)
    async with HubClient(rig.url, options=options) as client:
        following = client.follow(session.id, slow, after=0)
        for _ in range(5):
            await rig.play(session, "burst 1000")
        assert (await client.request("ping"))["type"] == "ok"
        await eventually(lambda: not following.wanted, "it asked the server to stop")
        gate.set()
        await following.reached(session.shown.seq)
    assert book.whole()


async def test_requests_wait_for_a_connection_and_say_when_their_fate_is_unknown(rig: Rig) -> None:
    session = await rig.session()
    async with Chopper(rig.port) as chopper, HubClient(chopper.url, options=QUICK) as client:
        await client.submit(session.id, "wait")
        cancelling = asyncio.create_task(client.request("cancel", session=session.id, turn="another"))
        with pytest.raises(Refused):
            await cancelling
        asking = asyncio.create_task(client.request("submit", session=session.id, text="x", when_busy="queue"))
        await asyncio.sleep(0)
        chopper.cut()
        with pytest.raises(ConnectionLost):
            await asking
        assert (await client.snapshot(session.id))["session"] == session.id


async def test_an_answer_that_does_not_come_is_a_timeout(rig: Rig) -> None:
    session = await rig.session()
    async with HubClient("http://127.0.0.1:9/hub", options=ClientOptions(answer_limit=0.05)) as client:
        with pytest.raises(TimeoutError):
            await client.snapshot(session.id)


async def test_watched_sessions_are_told_again_after_a_cut(rig: Rig) -> None:
    session = await rig.session()
    rows: list[dict[str, Any]] = []
    async with Chopper(rig.port) as chopper, HubClient(chopper.url, options=QUICK) as client:
        client.watch(rows.append)
        await eventually(lambda: rows, "the first rows")
        chopper.cut()
        await eventually(lambda: client.connections >= 2, "another connection")
        await session.change_settings(LOCAL, {"title": "renamed"})
        await eventually(lambda: rows[-1]["title"] == "renamed", "the change")


# When to give up


async def test_a_wrong_token_is_final(make_rig: MakeRig) -> None:
    rig = await make_rig(token="right")
    async with HubClient(rig.url, token="wrong", options=QUICK) as client:
        following = client.follow("any", print, after=0)
        with pytest.raises(Denied) as denied:
            await client.snapshot("any")
        assert denied.value.status == 401
        with pytest.raises(Denied):
            await following.wait()
        with pytest.raises(Denied):
            await client.request("ping")
        with pytest.raises(Denied):
            await client.ended()
    async with HubClient(rig.url, token="right") as client:
        assert (await client.request("ping"))["type"] == "ok"


@asynccontextmanager
async def closing(*codes: int) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that greets each client and closes with the next code; then it stays."""
    seen: list[int] = []

    async def serve_one(socket: ServerConnection) -> None:
        limits = {"message": 1000}
        await socket.send(json.dumps({"type": "hello", "protocol": 1, "heartbeat": 10, "limits": limits}))
        if len(seen) < len(codes):
            seen.append(codes[len(seen)])
            await socket.close(seen[-1])
        else:
            seen.append(0)
            await socket.wait_closed()

    async with serve(serve_one, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"http://127.0.0.1:{port}", seen


@pytest.mark.parametrize("code", [1001, 1011, 1012, 1013])
async def test_closes_that_may_pass_are_tried_again(code: int) -> None:
    async with closing(code, code) as (url, seen), HubClient(url, options=QUICK) as client:
        await eventually(lambda: seen == [code, code, 0], "the third connection")
        await eventually(lambda: client.connections == 3, "it is counted")


@pytest.mark.parametrize("code", [1000, 1002, 1008, 1009, 4001])
async def test_closes_that_would_come_again_are_final(code: int) -> None:
    async with closing(code) as (url, seen), HubClient(url, options=QUICK) as client:
        with pytest.raises(Denied) as denied:
            await client.ended()
        assert denied.value.close_code == code
        assert seen == [code]


async def test_a_server_that_falls_silent_is_left(make_rig: MakeRig) -> None:
    async with Silent() as url, HubClient(url, options=QUICK) as client:
        await eventually(lambda: client.connections >= 2, "another connection")


class Silent:
    """Greets with a very short heartbeat, then says nothing."""

    async def __aenter__(self) -> str:
        async def serve_one(socket: ServerConnection) -> None:
            limits = {"message": 1000}
            await socket.send(json.dumps({"type": "hello", "protocol": 1, "heartbeat": 0.02, "limits": limits}))
            await socket.wait_closed()

        self.server = await serve(serve_one, "127.0.0.1", 0)
        return f"http://127.0.0.1:{next(iter(self.server.sockets)).getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        await self.server.wait_closed()


async def test_another_protocol_is_not_spoken_with() -> None:
    async def serve_one(socket: ServerConnection) -> None:
        await socket.send(json.dumps({"type": "hello", "protocol": 99, "heartbeat": 10, "limits": {}}))
        await socket.wait_closed()

    async with serve(serve_one, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        async with HubClient(url, options=QUICK) as client:
            with pytest.raises(Denied):
                await client.ended()


async def test_closing_the_client_ends_everything(rig: Rig) -> None:
    session = await rig.session()
    client = HubClient(rig.url)
    client.start()
    following = client.follow(session.id, print, after=0)
    await following.reached(1)
    await client.close()
    assert following.over
    with pytest.raises(ClientClosed):
        await client.request("ping")
    await eventually(lambda: session.idle, "the server has let go")


async def test_a_deleted_or_unknown_session_ends_its_stream(rig: Rig) -> None:
    session = await rig.session()
    book = Book()
    async with HubClient(rig.url) as client:
        following = client.follow(session.id, book, after=0)
        await client.request("delete", session=session.id)
        with pytest.raises(Refused) as gone:
            await following.wait()
        assert gone.value.code == "gone"
        assert book.events[-1].fact["type"] == "session.closed"
        with pytest.raises(Refused) as unknown:
            await client.follow("nobody", book).wait()
        assert unknown.value.code == "unknown_session"


async def test_a_session_is_followed_once_per_client(rig: Rig) -> None:
    session = await rig.session()
    async with HubClient(rig.url) as client:
        first = client.follow(session.id, print)
        with pytest.raises(ValueError, match="already"):
            client.follow(session.id, print)
        await first.stop()
        await client.follow(session.id, print, after=0).reached(1)


async def test_a_message_that_the_server_would_not_take_is_not_sent(make_rig: MakeRig) -> None:
    from dragoman.dialects.hub import HubDialectSettings

    rig = await make_rig(settings=HubDialectSettings(message_limit=5000, stranger_message_limit=5000))
    session = await rig.session()
    async with HubClient(rig.url) as client:
        await client.request("ping")
        with pytest.raises(Refused) as refused:
            await client.submit(session.id, "x" * 6000)
        assert refused.value.code == "too_large"
        assert (await client.request("ping"))["type"] == "ok"


# Terminals


async def test_a_terminal_through_cuts_is_exact(rig: Rig) -> None:
    session = await rig.session(
        "terminal",
        options={
            "command": [
                "/bin/sh",
                "-c",
                "i=0; while [ $i -lt 4000 ]; do echo line $i; i=$((i+1)); done; read x; exit 5",
            ]
        },
    )
    pieces: list[Output] = []
    ends: list[Ended] = []

    def handler(item: object) -> None:
        if isinstance(item, Output):
            pieces.append(item)
        elif isinstance(item, Ended):
            ends.append(item)

    async with Chopper(rig.port, cuts=25, seed=5) as chopper, HubClient(chopper.url, options=QUICK) as client:
        attachment = client.attach(session.id, handler, offset=0)
        terminal = session.terminal
        assert terminal is not None
        await eventually(lambda: chopper.cuts >= 25 or not chopper.cuts_left, "all the cuts")
        await eventually(lambda: terminal.tape.read(0)[1].endswith(b"line 3999\r\n"), "all the output")
        await attachment.reached(terminal.tape.end)
        await eventually(lambda: client.connected, "a connection")
        await client.write(attachment, b"\n")
        await eventually(lambda: ends, "the end")
        chopper.cut()
        await client.request("ping", again=True)
        assert attachment.offset == terminal.tape.end
        whole = terminal.tape.read(0)[1]
    assert b"".join(piece.data for piece in pieces) == whole
    assert [(end.code, end.run, end.offset) for end in ends] == [(5, 1, len(whole))]


async def test_a_terminal_started_again_tells_both_runs(rig: Rig) -> None:
    session = await rig.session("terminal", options={"command": ["/bin/sh", "-c", "printf x; exit 1"]})
    items: list[object] = []
    async with HubClient(rig.url) as client:
        client.attach(session.id, items.append, offset=0)
        await eventually(lambda: [item for item in items if isinstance(item, Ended)], "the first end")
        await client.request("start", session=session.id)
        await eventually(lambda: len([item for item in items if isinstance(item, Ended)]) == 2, "the second end")
    assert [type(item) for item in items] == [Output, Ended, Started, Output, Ended]


async def test_a_place_that_the_server_lost_is_told_as_skipped(make_rig: MakeRig) -> None:
    rig = await make_rig()
    session = await rig.session("terminal", options={"command": ["/bin/sh", "-c", "printf hello; exit"]})
    await eventually(lambda: session.shown.exit, "the end")
    items: list[object] = []
    async with HubClient(rig.url) as client:
        attachment = client.attach(session.id, items.append, offset=500)
        await eventually(lambda: len(items) >= 2, "what is known")
        assert attachment.offset == 5
    assert isinstance(items[0], Skipped)
    assert (items[0].start, items[0].end) == (500, 5)
    assert isinstance(items[1], Ended)

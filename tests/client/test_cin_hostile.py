"""The client of the bridge against servers that mean no good: frames that are none, ends, silence, too much of it."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from dragoman.client.cin import CinClient, CinOptions
from dragoman.client.cin_place import Message
from dragoman.client.cin_requests import data_of
from dragoman.client.errors import ClientClosed, ConnectionLost, Denied
from tests.client.cin_bridge import QUICK, Clock, Served, event, heard, init, names, server, session, told, until

# Frames that are none


class Hostile:
    """Frames of a server that means no good, or has a bug."""

    VALUES: tuple[Any, ...] = (
        None,
        True,
        -1,
        1e308,
        "",
        "s1",
        "\x00",
        "\ud800",
        [],
        [[]],
        [{}],
        {},
        {"id": []},
        {"id": {}},
        ["s1"],
    )
    KINDS = (
        *("init", "event", "history", "pong", "connected", "sessions", "session:created", "session:updated"),
        *("session:status", "session:deleted", "cin:permission_prompt", "client:gap", "error", "x" * 5000, ":", ""),
    )

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def frame(self) -> str | bytes:
        """Any."""
        raw = ("", "{", "null", "5", "[]", "{}", '"x"', "NaN", "[" * 50_000, '{"type":' * 9000, "9" * 9000, b"", b"{}")
        if self._dice.random() < 0.2:
            return self._dice.choice(raw)
        if self._dice.random() < 0.1:
            return json.dumps({"type": self._value(), "data": self._value()})
        message: Message = {"type": self._dice.choice(self.KINDS)}
        for key in ("data", "payload"):
            if self._dice.random() < 0.6:
                message[key] = self._value()
        return json.dumps(message)

    def _value(self) -> Any:
        if self._dice.random() < 0.5:
            return self._dice.choice(self.VALUES)
        keys = ("id", "sessionId", "agentSessionId", "type", "sessions", "status")
        made = {key: self._dice.choice(self.VALUES) for key in keys if self._dice.random() < 0.7}
        return made if self._dice.random() < 0.7 else [made, self._dice.choice(self.VALUES)]


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_a_server_says_the_client_goes_on(seed: int) -> None:
    """It hands over what can be, in order, and ends neither itself nor the connection."""

    async def talk(served: Served) -> None:
        hostile = Hostile(seed * 100 + served.number)
        for _ in range(20):
            await served.socket.send(hostile.frame() if served.number > 1 else "none")
        await served.tell(init(session("s1")))
        for _ in range(100):
            await served.socket.send(hostile.frame())
        await served.hear("subscribe") if served.number > 1 else None
        await served.hear("get_history")
        await served.tell({"type": "history", "data": [event(0), 5, {}, [], {"id": 7}, {"id": "ev-0", "type": []}]})
        await served.tell({"type": "history", "data": {"no": "list"}})
        for number in range(100 * served.number, 100 * served.number + 100):
            await served.socket.send(hostile.frame())
            await served.tell(told(number))
        if served.number == 1:
            await served.hear("subscribe")
        if served.number < 3:
            await served.cut()
        await served.tell({"type": "cin:end"})

    async with server(talk) as url, CinClient(url, options=QUICK) as client, asyncio.timeout(20):
        client.subscribe(["s1"], ["stop"])
        frames = await until(client, "cin:end")
        ids = [data_of(frame).get("id") for frame in frames if frame["type"] == "event"]
        true = names(100, 399)
        assert [name for name in ids if name in true] == true
        assert all(isinstance(frame["type"], str) for frame in frames)
        assert client.connections == 3
        assert all(isinstance(name, str) and isinstance(one, dict) for name, one in client.sessions.items())


async def test_nothing_before_init_counts() -> None:
    async def talk(served: Served) -> None:
        await served.tell({"type": "sessions", "payload": [session("s9")]}, told(1), {"type": "pong"})
        await served.begin(session("s1"))
        await served.tell(told(2))

    async with server(talk) as url, CinClient(url, options=QUICK) as client:
        assert list(client.sessions) == ["s1"]
        assert await heard(client, 1) == ["ev-2"]


async def test_a_message_that_is_too_large_ends_it() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        await served.tell(told(1, response="x" * 5000))

    options = CinOptions(first_retry=0.001, message_limit=4096)
    async with server(talk) as url, CinClient(url, options=options) as client:
        with pytest.raises(Denied) as denied:
            await until(client, "event")
        assert denied.value.close_code == 1009


# Ends


@pytest.mark.parametrize("code", [1002, 1003, 1007, 1008, 1009, 1010, 4003])
async def test_a_close_that_would_come_again_is_the_end(code: int) -> None:
    async def talk(served: Served) -> None:
        assert served.number == 1
        await served.begin()
        await served.socket.close(code, "no")

    async with server(talk) as url, CinClient(url, options=QUICK) as client:
        with pytest.raises(Denied) as denied:
            await until(client, "event")
        assert denied.value.close_code == code
        with pytest.raises(Denied):
            await client.history()
        with pytest.raises(Denied):
            client.send("harness:x")


@pytest.mark.parametrize("code", [1000, 1001, 1011, 1012, 1013])
async def test_any_other_close_is_worth_another_try(code: int) -> None:
    """1000, too: bridges that stop end their links so."""

    async def talk(served: Served) -> None:
        await served.begin(history=[event(0)])
        if served.number < 3:
            await served.socket.close(code)
        await served.tell(told(1))

    async with server(talk) as url, CinClient(url, options=QUICK) as client:
        assert await heard(client, 1) == ["ev-1"]
        assert client.connections == 3


@pytest.mark.parametrize(("status", "final"), [(401, True), (403, True), (404, True), (429, False), (503, False)])
async def test_a_refused_upgrade_is_final_unless_it_may_pass(status: int, final: bool) -> None:
    tries = 0

    def refuse(connection: ServerConnection, request: Request) -> Response | None:
        nonlocal tries
        tries += 1
        return connection.respond(status, "go away") if tries < 3 else None

    async def on_connection(socket: ServerConnection) -> None:
        await Served(socket, 1).begin()
        await socket.wait_closed()

    async with serve(on_connection, "127.0.0.1", 0, process_request=refuse) as listening:
        client = CinClient(f"ws://127.0.0.1:{next(iter(listening.sockets)).getsockname()[1]}/", options=QUICK)
        if final:
            with pytest.raises(Denied, match="go away") as denied:
                await client.start()
            assert (denied.value.status, tries) == (status, 1)
        else:
            async with client:
                assert tries == 3


async def test_who_does_not_reconnect_is_told_that_the_connection_is_gone() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        await served.cut()

    async with server(talk) as url, CinClient(url, reconnect=False, options=QUICK) as client:
        with pytest.raises(ConnectionLost, match="was cut"):
            await until(client, "event")


async def test_a_server_that_never_says_init_is_none() -> None:
    async def talk(served: Served) -> None:
        await served.tell({"type": "connected", "payload": {"sessionId": "unknown"}})

    options = CinOptions(first_retry=0.001, connect_limit=0.05, answer_limit=0.3)
    async with server(talk) as url:
        with pytest.raises(TimeoutError, match=r"no init within 0.05 s"):
            await CinClient(url, options=options).start()


async def test_silence_after_a_ping_is_a_dead_connection() -> None:
    clock = Clock()

    async def talk(served: Served) -> None:
        await served.begin(history=[event(0)])
        if served.number == 1:
            await served.hear("ping")
            await served.socket.wait_closed()
        else:
            await served.tell(told(1))

    options = CinOptions(pong_limit=0.05)
    async with server(talk) as url, CinClient(url, options=options, sleep=clock.sleep) as client:
        await clock.ring()  # the ping
        await clock.ring()  # the pause before the next attempt
        assert await heard(client, 1) == ["ev-1"]
        assert client.connections == 2


async def test_whoever_says_anything_at_all_after_a_ping_lives() -> None:
    """Servers in use know no ``pong``."""
    clock = Clock()

    async def talk(served: Served) -> None:
        await served.begin()
        for _ in range(3):
            await served.hear("ping")
            await served.tell({"type": "sessions", "payload": []})
        await served.tell(told(1))

    options = CinOptions(pong_limit=0.05)
    async with server(talk) as url, CinClient(url, options=options, sleep=clock.sleep) as client:
        for _ in range(3):
            await clock.ring()
        assert await heard(client, 1) == ["ev-1"]
        assert client.connections == 1


async def test_after_close_nothing_is_to_be_had() -> None:
    async def talk(served: Served) -> None:
        await served.begin()

    async with server(talk) as url:
        client = CinClient(url, options=QUICK)
        await client.start()
        waiting = asyncio.create_task(client.history())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ClientClosed):
            await waiting
        with pytest.raises(ClientClosed):
            await client.ping()
        assert [frame["type"] async for frame in client.frames()] == ["init"]
        assert not client.connected


async def test_while_nobody_reads_the_socket_is_not_read_either() -> None:
    sent = asyncio.Event()

    async def talk(served: Served) -> None:
        await served.begin()
        for number in range(1, 400):
            await served.tell(told(number, response="x" * 100_000))
        sent.set()

    options = CinOptions(frame_backlog=4)
    async with server(talk) as url, CinClient(url, options=options) as client:
        first = await heard(client, 1)
        assert not sent.is_set(), "the server could send all of it"
        assert first + await heard(client, 398) == names(1, 399)


async def test_its_token_and_its_origin_go_with_the_upgrade() -> None:
    headers: list[str | None] = []

    async def talk(served: Served) -> None:
        request = served.socket.request
        assert request is not None
        headers.extend(request.headers.get(name) for name in ("authorization", "origin"))
        await served.begin()

    async with server(talk) as url:
        async with CinClient(url, token="s3cret", origin="http://localhost:4003", options=QUICK) as client:
            assert "s3cret" not in repr(client)
        async with CinClient(url.replace("ws://", "http://"), options=QUICK):
            pass
    assert headers == ["Bearer s3cret", "http://localhost:4003", None, None]


@pytest.mark.parametrize("kind", ["ping", "subscribe", "session:created", ":", "cin:", ":x", "", "init"])
async def test_only_extensions_are_sent_by_name(kind: str) -> None:
    client = CinClient("ws://127.0.0.1:1/", options=QUICK)
    with pytest.raises(ValueError, match="is no extension"):
        client.send(kind)

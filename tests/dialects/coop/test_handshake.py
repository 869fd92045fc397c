"""Seed, Overview and Subscription Modes: the ready line, the upgrade, and what a fresh link sees."""

from __future__ import annotations

import json
import time

import pytest

from .harness import INVALID, Server, Servers, eventually
from .programs import READY, command

MODES = ["raw", "screen", "state", "all"]


@pytest.fixture(scope="module")
def server(shared: Servers) -> Server:
    server = shared.start(*command("puppet"))
    server.wait_for_output(READY)
    return server


def test_one_line_on_stdout_says_where_it_listens(server: Server):
    lines = server.stdout().splitlines()
    assert len(lines) == 1
    ready = json.loads(lines[0])
    assert list(ready)[:4] == ["type", "url", "port", "cwd"]
    assert ready["type"] == "server_listening"
    assert ready["cwd"] == str(server.cwd)
    assert ready["dialects"]["coop"] == f"ws://127.0.0.1:{ready['port']}/ws"


@pytest.mark.parametrize("mode", [None, *MODES])
async def test_every_mode_opens_and_answers_a_ping(server: Server, mode: str | None):
    async with server.link(mode) as link:
        assert await link.until_pong() == []


@pytest.mark.parametrize("mode", [None, *MODES])
async def test_nothing_is_pushed_on_connect(server: Server, mode: str | None):
    async with server.link(mode) as link:
        assert await link.until_pong() == []
        await link.silence(0.2)


@pytest.mark.parametrize("mode", ["", "RAW", "Raw", "pty", "raw,screen", " raw", "all ", "1"])
async def test_an_unknown_mode_is_refused_before_the_upgrade(server: Server, mode: str):
    assert (await server.refusal(mode=mode)).status == 400


async def test_unknown_query_keys_are_ignored(server: Server):
    async with server.link("raw", query={"subscribe": "pty", "x": "", "since_seq": "9"}) as link:
        assert await link.until_pong() == []


async def test_a_client_that_offers_compression_is_served(server: Server):
    async with server.link("state", compression="deflate") as link:
        assert await link.until_pong() == []


async def test_a_protocol_ping_is_answered(server: Server):
    async with server.link("state") as link:
        await (await link.wire.ping(b"are you there"))


async def test_a_close_is_answered_by_a_close(server: Server):
    async with server.link("all") as link:
        start = time.monotonic()
        await link.wire.close(4000, "done")
        assert link.wire.close_code == 4000
        assert time.monotonic() - start < 1.5


def test_a_plain_request_to_the_socket_path_is_a_client_error(server: Server):
    assert 400 <= server.http("GET", "/ws").status < 500


async def test_an_upgrade_elsewhere_is_refused(server: Server):
    reply = server.bytes_exchange(upgrade_request(server, "/nope"))
    assert reply.status in (403, 404)


async def test_ws_clients_counts_links_up_and_down(server: Server):
    async with server.link("state") as first:
        await eventually(lambda: server.get("status").json["ws_clients"] == 1, "the earlier links are gone")
        async with server.link("raw"), server.link("all") as third:
            assert (await first.status())["ws_clients"] == 3
            assert (await third.status())["ws_clients"] == 3
            assert server.get("health").json["ws_clients"] == 3
        await eventually(lambda: server.get("status").json["ws_clients"] == 1, "two links were closed")


async def test_a_link_that_vanishes_without_a_close_is_counted_down(server: Server):
    async with server.link("state") as watcher:
        async with server.link("all") as other:
            await other.until_pong()
            other.wire.transport.abort()
        await eventually(lambda: server.get("status").json["ws_clients"] == 1, "the broken link is counted down")
        assert await watcher.answers({"event": "nope"}) == [INVALID]


def upgrade_request(server: Server, path: str) -> bytes:
    """A correct upgrade to a path."""
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    ).encode()

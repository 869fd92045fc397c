"""Seed, ``output`` and ``replay``: offsets are exact, live and from the ring."""

from __future__ import annotations

import base64
import random

import pytest

from .harness import Frame, Link, Reply, Server, Servers
from .oracle import OffsetOracle
from .programs import READY, command, order, pattern

RING = 1 << 20
FLOOD = 256 << 10


@pytest.fixture(scope="module")
def server(shared: Servers) -> Server:
    """Has written ``ready`` and 256 KiB of the pattern."""
    server = shared.start(*command("puppet"))
    server.wait_for_output(READY)
    server.post("input", {"text": order("flood", FLOOD), "enter": True})
    server.wait_for_output(pattern(FLOOD)[-64:])
    return server


STREAM = READY + pattern(FLOOD)


async def replay(link: Link, offset: int, **more: int) -> tuple[Frame, bytes]:
    frame = await link.ask({"event": "replay", "offset": offset, **more}, "replay_result")
    return frame, base64.b64decode(frame["data"])


async def test_replay_from_zero_gives_every_byte(server: Server):
    async with server.link("state") as link:
        frame, data = await replay(link, 0)
    assert data == STREAM
    assert (frame["offset"], frame["next_offset"], frame["total_written"]) == (0, len(STREAM), len(STREAM))


@pytest.mark.parametrize("offset", [1, 7, 8, 128_000, len(STREAM) - 1])
async def test_replay_from_the_middle_gives_the_exact_tail(server: Server, offset: int):
    async with server.link("raw") as link:
        frame, data = await replay(link, offset)
    assert data == STREAM[offset:]
    assert (frame["offset"], frame["next_offset"]) == (offset, len(STREAM))


@pytest.mark.parametrize("offset", [len(STREAM), len(STREAM) + 1, 1 << 40, (1 << 53) - 1, (1 << 63) - 1])
async def test_replay_at_or_beyond_the_end_is_empty_and_echoes_the_offset(server: Server, offset: int):
    async with server.link("state") as link:
        frame, data = await replay(link, offset)
    assert data == b""
    assert (frame["offset"], frame["next_offset"], frame["total_written"]) == (offset, offset, len(STREAM))


async def test_a_limit_cuts_the_answer_and_pages_join(server: Server):
    async with server.link("state") as link:
        joined, offset = b"", 0
        while offset < len(STREAM):
            frame, data = await replay(link, offset, limit=50_001)
            assert len(data) == min(50_001, len(STREAM) - offset)
            joined, offset = joined + data, frame["next_offset"]
    assert joined == STREAM


async def test_a_limit_above_what_is_there_takes_what_is_there(server: Server):
    async with server.link("state") as link:
        _, data = await replay(link, len(STREAM) - 10, limit=1 << 40)
    assert data == STREAM[-10:]


async def test_http_output_agrees_with_replay(server: Server):
    def body(reply: Reply) -> tuple[bytes, int, int, int]:
        value = reply.json
        assert set(value) == {"data", "offset", "next_offset", "total_written"}
        return base64.b64decode(value["data"]), value["offset"], value["next_offset"], value["total_written"]

    total = len(STREAM)
    assert body(server.get("output")) == (STREAM, 0, total, total)
    assert body(server.get("output?offset=128000")) == (STREAM[128_000:], 128_000, total, total)
    assert body(server.get("output?offset=100&limit=50")) == (STREAM[100:150], 100, 150, total)
    assert body(server.get(f"output?offset={total + 5}")) == (b"", total + 5, total + 5, total)
    for query in ("offset=x", "offset=-1", "offset=1.5", "limit=x", "limit=-1"):
        assert server.get(f"output?{query}").error[:2] == (400, "BAD_REQUEST")


async def test_bytes_read_counts_what_the_program_wrote(server: Server):
    async with server.link("state") as link:
        assert (await link.status())["bytes_read"] == len(STREAM)


async def test_live_chunks_join_without_gap_or_overlap(servers: Servers):
    server = servers.start(*command("puppet"))
    server.wait_for_output(READY)
    truth = READY + pattern(FLOOD) + pattern(FLOOD)
    async with server.link("raw") as link, server.link("all") as other:
        for _ in range(2):
            await link.type(order("flood", FLOOD))
        for each in (link, other):
            oracle = OffsetOracle(truth=truth)
            while oracle.end < len(truth):
                oracle.take(await each.expect("output"))
            assert (oracle.gaps, oracle.overlaps, oracle.conflicts) == ([], [], [])
            assert oracle.spans == [(len(READY), len(truth))]


async def test_a_replay_during_output_joins_the_live_chunks(servers: Servers):
    server = servers.start(*command("puppet"))
    server.wait_for_output(READY)
    chance = random.Random(9)
    truth = READY + pattern(FLOOD) * 4
    async with server.link("raw", label="first") as first:
        for _ in range(4):
            await first.type(order("flood", FLOOD))
        await first.expect("output")
        async with server.link("raw", label="late") as late:
            oracle = OffsetOracle(truth=truth)
            await late.send({"event": "replay", "offset": 0})
            while oracle.end < len(truth):
                frame = await late.receive()
                oracle.take(frame)
                if frame["event"] == "output" and chance.random() < 0.2:
                    await late.send({"event": "replay", "offset": chance.randrange(oracle.end)})
            for frame in await late.until_pong():
                oracle.take(frame)
            assert (oracle.overlaps, oracle.conflicts) == ([], [])
            assert oracle.joined(0, len(truth)) == truth


async def test_a_late_link_that_replays_once_misses_nothing(servers: Servers):
    server = servers.start(*command("puppet"))
    server.wait_for_output(READY)
    truth = READY + pattern(FLOOD) * 3
    async with server.link("state", label="writer") as writer:
        for _ in range(3):
            await writer.type(order("flood", FLOOD))
        for number in range(5):
            async with server.link("raw", label=f"late {number}") as late:
                oracle = OffsetOracle(truth=truth)
                await late.send({"event": "replay", "offset": 0})
                while oracle.end < len(truth):
                    oracle.take(await late.receive())
                for frame in await late.until_pong():
                    oracle.take(frame)
                assert (oracle.gaps, oracle.overlaps, oracle.conflicts) == ([], [], [])
                assert oracle.joined(0, len(truth)) == truth


async def test_after_the_ring_has_wrapped_the_oldest_byte_is_where_replay_starts(servers: Servers):
    server = servers.start(*command("puppet"))
    server.wait_for_output(READY)
    size = 2 * RING + RING // 2 + 12_345
    truth = READY + pattern(size)
    async with server.link("state") as link:
        await link.type(order("flood", size))
        server.wait_for_output(pattern(64, size - 64))
        frame, data = await replay(link, 0)
        assert RING <= len(data) <= 2 * RING
        assert frame["offset"] == len(truth) - len(data)
        assert (frame["next_offset"], frame["total_written"]) == (len(truth), len(truth))
        assert data == truth[frame["offset"] :]
        limited, first = await replay(link, 5, limit=1000)
        assert (limited["offset"], first) == (frame["offset"], data[:1000])
        exact, same = await replay(link, frame["offset"])
        assert (exact["offset"], same) == (frame["offset"], data)
        assert server.get("output").json == {name: value for name, value in frame.items() if name != "event"}


async def test_small_writes_arrive_at_once_and_in_order(servers: Servers):
    server = servers.start(*command("puppet"))
    server.wait_for_output(READY)
    async with server.link("raw") as link:
        oracle = OffsetOracle()
        for number in range(100):
            mark = f"<{number}>".encode()
            await link.type(order("write", mark))
            frame = await link.expect("output")
            oracle.take(frame)
            while not base64.b64decode(frame["data"]).endswith(mark[-1:]):
                frame = await link.expect("output")
                oracle.take(frame)
        assert (oracle.gaps, oracle.overlaps) == ([], [])
        expected = b"".join(f"<{number}>".encode() for number in range(100))
        assert oracle.joined(len(READY), oracle.end) == expected


async def test_every_byte_value_passes_unchanged(servers: Servers):
    server = servers.start(*command("puppet"))
    server.wait_for_output(READY)
    every = bytes(range(256)) * 2
    async with server.link("raw") as link:
        for verb in ("write", "drip"):
            start = (await link.status())["bytes_read"]
            await link.type(order(verb, every + b"[end]"))
            await link.output_until(b"[end]")
            _, data = await replay(link, start)
            assert data == every + b"[end]"

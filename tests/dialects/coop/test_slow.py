"""Slow readers: they miss bytes openly, cost little, hold nobody up, and end on the exact picture.

Invariants 5 and 7.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import statistics
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from .harness import Frame, Link, Server, Servers, SlowLink
from .oracle import OffsetOracle
from .programs import READY, command, order, pattern

pytestmark = pytest.mark.slow

WARM_UP = 2 << 20
FLOOD = 30 << 20
LAST = b"\x1b[2J\x1b[Hthe very last line\r\nand one below"


@pytest.fixture
def server(servers: Servers) -> Server:
    server = servers.start(*command("puppet"))
    server.wait_for_output(READY)
    return server


@contextlib.asynccontextmanager
async def slow_link(server: Server, query: str) -> AsyncIterator[SlowLink]:
    link = SlowLink(server, query)
    try:
        yield link
    finally:
        link.close()


async def collect(link: Link, truth: bytes) -> OffsetOracle:
    """Read pushes until the end of ``truth``."""
    oracle = OffsetOracle(truth=truth)
    while oracle.end < len(truth):
        oracle.take(await link.expect("output", 60))
        link.received.clear()
    return oracle


async def trickle(link: SlowLink, stop: asyncio.Event) -> None:
    """About 10 KB/s."""
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await link.read(512, 0.5)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0.05)


async def ping_round(link: Link, stop: asyncio.Event) -> list[float]:
    """How long a ping takes, again and again."""
    times = []
    while not stop.is_set():
        start = time.monotonic()
        await link.until_pong()
        times.append(time.monotonic() - start)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0.05)
    return times


def is_last(frame: Frame) -> bool:
    return frame["event"] == "screen" and frame["lines"][:2] == ["the very last line", "and one below"]


def heard(frames: list[Frame], truth: bytes) -> OffsetOracle:
    oracle = OffsetOracle(truth=truth)
    for frame in frames:
        oracle.take(frame)
    return oracle


async def test_slow_links_beside_a_fast_one(server: Server):
    truth = READY + pattern(WARM_UP) + pattern(FLOOD) + LAST
    async with (
        server.link("raw", label="fast") as fast,
        server.link("state", label="other") as other,
        slow_link(server, "mode=all") as slow,
        slow_link(server, "mode=all") as stuck,
    ):
        await fast.type(order("flood", WARM_UP))
        await asyncio.wait_for(collect(fast, truth[: len(READY) + WARM_UP]), 60)
        memory = server.memory()

        quiet = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            pings = group.create_task(ping_round(other, quiet))
            group.create_task(trickle(slow, quiet))
            await fast.type(order("flood", FLOOD))
            await fast.type(order("write", LAST))
            try:
                oracle = await collect(fast, truth)
            finally:
                quiet.set()

        # the fast one has every byte, as it was written
        assert (oracle.gaps, oracle.overlaps, oracle.conflicts) == ([], [], [])
        start = oracle.spans[0][0]
        assert oracle.joined(start, len(truth)) == truth[start:]

        # nobody was held up, and two laggards cost what two laggards may cost
        assert max(pings.result()) < 2.0
        assert server.memory() - memory < 32 << 20

        # the laggards jump, never overlap, and end on the exact picture
        final = (await other.screen())["lines"]
        for laggard in (slow, stuck):
            last = await laggard.drain_until(is_last, 30)
            assert last["lines"] == final
            seen = heard(laggard.frames, truth)
            assert seen.gaps, "a link this slow must have missed something"
            assert (seen.overlaps, seen.conflicts) == ([], [])
            numbers = [frame["seq"] for frame in laggard.frames if frame["event"] == "screen"]
            assert numbers == sorted(set(numbers))

            # a replay from where the last jump began joins what came after
            laggard.send({"event": "replay", "offset": seen.gaps[-1][0]})
            replayed = await laggard.drain_until(lambda frame: frame["event"] == "replay_result", 30)
            joined = heard(laggard.frames, truth)
            assert (joined.overlaps, joined.conflicts) == ([], [])
            assert joined.joined(replayed["offset"], len(truth)) == truth[replayed["offset"] :]
            assert replayed["next_offset"] == len(truth)


async def test_a_stuck_link_delays_no_echo(server: Server):
    """While it is a ring behind and more, what somebody types comes back to others at once."""
    async with server.link("raw", label="fast") as fast, slow_link(server, "mode=all"), slow_link(server, "mode=raw"):
        await fast.type(order("flood", 3 << 20))
        await asyncio.wait_for(collect(fast, READY + pattern(3 << 20)), 60)
        times = []
        for number in range(60):
            echo = b"<%d>" % number + pattern(1000)
            start = time.monotonic()
            await fast.type(order("write", echo))
            await fast.output_until(echo)
            times.append(time.monotonic() - start)
        # The contract says 100 ms; twice that is a busy machine's share, and that it is so again and again a defect's.
        assert statistics.median(times) < 0.2


@pytest.mark.parametrize("prelude", [b"", b"\x1b[?1049l\x1b[?1049h"], ids=["switched", "switched twice"])
async def test_a_picture_knows_of_a_switch_of_screens_that_no_replay_holds_any_more(servers: Servers, prelude: bytes):
    ring, drawn = 1 << 16, b"\x1b[2J\x1b[3;5Hdeep\x1b[31m in\x1b[0m it\x1b[5;1H"
    server = servers.start(*command("puppet"), args=["--ring-size", str(ring), "--cols", "80", "--rows", "24"])
    server.wait_for_output(READY)
    written = READY + b"\x1b[?1049h" + prelude + pattern(2 * ring) + drawn
    async with server.link("state") as writer:
        await writer.type(order("write", b"\x1b[?1049h" + prelude))
        await writer.type(order("flood", 2 * ring))
        await writer.type(order("write", drawn))
        server.wait_for_output(drawn)
    for mode in ("raw", "state", "all"):
        async with server.link(mode) as late:
            replayed = await late.ask({"event": "replay", "offset": 0}, "replay_result")
            assert replayed["offset"] == len(written) - ring
            assert base64.b64decode(replayed["data"]) == written[-ring:]
            picture = await late.screen()
            assert picture["alt_screen"] is True
            assert picture["lines"] == ["", "", "    deep in it", *[""] * 21]
            assert picture["cursor"] == {"row": 4, "col": 0}


async def test_a_late_link_gets_the_picture_of_a_long_history_at_once(server: Server):
    async with server.link("state") as writer:
        await writer.type(order("flood", 8 << 20))
        await writer.type(order("write", LAST))
        server.wait_for_output(LAST, 60)
    start = time.monotonic()
    async with server.link("all") as late:
        picture = await late.ask({"event": "screen:get"}, "screen")
        elapsed = time.monotonic() - start
        assert is_last(picture)
        assert elapsed < 1.0
        assert late.events() == ["screen"]


async def test_a_slow_link_that_only_wants_pictures_gets_the_newest(server: Server):
    async with server.link("state") as writer, slow_link(server, "mode=screen") as slow:
        for number in range(100):
            await writer.type(order("write", b"\x1b[2J\x1b[H" + pattern(1500) + b"[%d]" % number))
        await writer.type(order("write", LAST))
        server.wait_for_output(LAST, 60)
        last = await slow.drain_until(is_last, 30)
        assert last["lines"] == (await writer.screen())["lines"]


async def test_the_end_of_the_program_reaches_a_link_that_lagged(server: Server):
    async with server.link("state") as writer, slow_link(server, "mode=all") as stuck:
        await writer.type(order("flood", 12 << 20))
        await writer.type(order("write", LAST))
        await writer.type("exit 0")
        await writer.expect("exit", 60)
        ended = await stuck.drain_until(lambda frame: frame["event"] == "exit", 30)
        assert ended == {"event": "exit", "code": 0, "signal": None}
        names = [frame["event"] for frame in stuck.frames]
        assert names.count("exit") == 1
        last: dict[str, Any] = next(frame for frame in reversed(stuck.frames) if frame["event"] == "screen")
        assert is_last(last)
        assert names.index("exit") == len(names) - 1
        data = b"".join(base64.b64decode(f["data"]) for f in stuck.frames if f["event"] == "output")
        assert data.endswith(LAST)

"""Many links at once, and links that end badly: nobody hears another's frames, and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.faults.process import eventually

from .conftest import MakeServer
from .rig import Coworker, kinds, raw_link, script

LINKS = 200
ALL_TOGETHER = 60.0
"""Seconds for all of them, on a machine that does other things as well; one alone takes a fraction of a second."""

MEMORY = 15 * 1024 * 1024


async def one_life(served: Coworker, number: int) -> str:
    """A turn that is cancelled, a checkpoint, a turn that ends well; returns the session's id."""
    async with served.client() as link:
        await link.client.say(script(f"think of {number}\nsay number {number}\nwait"))
        await link.next("model_stream_chunk", partType="text_end")
        link.client.cancel()
        await link.next("session_busy", busy=False)
        saved = await link.client.checkpoint()
        assert [one["trigger"] for one in saved["checkpoints"]] == ["auto", "manual"]
        frames = await link.turn(script(f"say done {number}"))
        assert [frame["text"] for frame in frames if frame["type"] == "assistant_message"] == [f"done {number}"]
        await link.client.ping()
        assert not link.client.busy
        assert "error" not in kinds(link.frames)
        return link.client.session


async def rows(served: Coworker) -> list[dict[str, Any]]:
    """Every session of the server, as its hub dialect lists them."""
    found: list[dict[str, Any]] = (await served.asked("GET", "/sessions?limit=1000"))["sessions"]
    return found


async def all_closed(served: Coworker) -> None:
    """Wait until no session is left that is not closed."""
    async with asyncio.timeout(30):
        while left := [row for row in await rows(served) if row["status"] != "closed"]:
            await asyncio.sleep(0.05)
    assert not left


@asynccontextmanager
async def nothing_left(served: Coworker) -> AsyncIterator[None]:
    """Within: whatever. Afterwards the server has as many files open as before, no child, and only closed sessions."""
    before = served.descriptors()
    yield
    await all_closed(served)
    try:
        await eventually(lambda: len(served.descriptors()) <= len(before), "as many descriptors again")
    except AssertionError:
        raise AssertionError(f"still open: {served.descriptors()}, and before: {before}") from None
    await eventually(lambda: not served.children(), "no children")


@pytest.mark.slow
async def test_two_hundred_links_at_once_are_served_apart_and_in_time(make_server: MakeServer) -> None:
    """Each frame is held to its link's session by the rig."""
    served = await make_server()
    for number in range(20):
        (served.work / f"file-{number}").write_text("x" * 1000)
    async with nothing_left(served):
        await asyncio.gather(*(one_life(served, number) for number in range(LINKS)))  # also what is made only once
    before = served.memory()
    async with nothing_left(served), asyncio.timeout(ALL_TOGETHER):
        sessions = await asyncio.gather(*(one_life(served, number) for number in range(LINKS)))
        assert len(set(sessions)) == LINKS
    assert served.memory() - before < MEMORY, f"{(served.memory() - before) / 1024 / 1024:.1f} MB more"
    kept = [file for file in (served.home / ".cowork/session-backups/.store/objects").rglob("*") if file.is_file()]
    assert len(kept) < 20, "400 sessions saw one folder, which is kept once"


async def cut_life(served: Coworker, chance: random.Random) -> None:
    """A link that does something and is gone at any moment, without a word."""
    async with raw_link(served.url) as socket:
        with suppress(ConnectionClosed):
            session = json.loads(await socket.recv())["sessionId"]
            steps = ["say hello", "deltas 50", "wait", 'call bash {"command":"sleep 5"}', 'call ask {"question":"Q?"}']
            for message in (
                {"type": "user_message", "text": script(chance.choice(steps), "say bye")},
                {"type": chance.choice(["session_backup_checkpoint", "cancel", "reset", "list_skills", "ping"])},
                {"type": "user_message", "text": "hello"},
            )[: chance.randrange(4)]:
                await socket.send(json.dumps({"sessionId": session, **message}))
            for _ in range(chance.randrange(40)):
                async with asyncio.timeout(0.2):
                    await socket.recv()
        socket.transport.abort()


def handshake(served: Coworker, query: str = "") -> bytes:
    """What a client sends to open a link."""
    port = served.ready["port"]
    path = served.url.partition(f":{port}")[2]
    return (
        f"GET {path}{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()


async def half_handshake(served: Coworker, chance: random.Random) -> None:
    """A request that stops anywhere, is broken anywhere, or is one for something else."""
    request = handshake(served)
    sent = bytearray(request + bytes([0x81, 0xFE, 0x00, 0x10]))[: chance.randrange(1, len(request) + 5)]
    if chance.random() < 0.3:
        sent[chance.randrange(len(sent))] = chance.randrange(256)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.ready["port"])
    writer.write(bytes(sent))
    with suppress(ConnectionError):
        await writer.drain()
        if chance.random() < 0.5:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await reader.read(chance.randrange(1, 4000))
    if chance.random() < 0.5:
        writer.transport.abort()
    else:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.slow
async def test_links_that_are_cut_anywhere_leave_nothing_behind(make_server: MakeServer) -> None:
    served = await make_server()
    await one_life(served, 0)
    await all_closed(served)
    chance = random.Random(7337)

    async def life() -> None:
        with suppress(TimeoutError):
            await chance.choice([cut_life, half_handshake])(served, chance)

    async with nothing_left(served):
        for _ in range(6):
            await asyncio.gather(*(life() for _ in range(30)))
        await one_life(served, 1)


@asynccontextmanager
async def mute(served: Coworker, sent: bytes, count: int) -> AsyncIterator[None]:
    """So many connections that send this and read nothing, until the block ends."""
    writers = []
    for _ in range(count):
        _, writer = await asyncio.open_connection("127.0.0.1", served.ready["port"], limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(sent)
        writers.append(writer)
    try:
        yield
    finally:
        for writer in writers:
            writer.transport.abort()


@pytest.mark.slow
async def test_links_that_never_read_and_handshakes_that_never_end_cost_little_and_delay_nobody(
    make_server: MakeServer,
) -> None:
    """Invariant 5."""
    served = await make_server()
    flood = script("deltas 10000")
    async with served.client() as link:
        await link.turn(flood)
    before = served.memory()
    async with nothing_left(served), served.client() as link, mute(served, handshake(served)[:100], 50):
        async with mute(served, handshake(served, f"?session={link.client.session}"), 4), asyncio.timeout(30):
            await link.connected()
            for _ in range(2):
                frames = await link.turn(flood)
                assert frames[-1]["busy"] is False
            grown = served.memory() - before
        await one_life(served, 1)
    assert grown < 4 * 8 * 1024 * 1024, f"{grown / 1024 / 1024:.1f} MB for four links"

"""What one hostile client can cost the others: little, and for a moment (invariants 5, 8 and 10)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from .process import Served, alive, eventually, marked
from .test_soak import MIB, resident

CALM = 1.5
"""Seconds that somebody else's answer may take at worst beside an attack, on a small and busy machine."""


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True) -> bytes:
    """A client's frame, masked with zeros."""
    first, size = (0x80 if fin else 0) | opcode, len(payload)
    if size < 126:
        return bytes((first, 0x80 | size)) + bytes(4) + payload
    if size < 65536:
        return struct.pack("!BBH", first, 0x80 | 126, size) + bytes(4) + payload
    return struct.pack("!BBQ", first, 0x80 | 127, size) + bytes(4) + payload


def upgraded(port: int, path: str) -> socket.socket:
    """A raw connection behind its upgrade."""
    stream = socket.create_connection(("127.0.0.1", port), 10)
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    stream.sendall((head + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += stream.recv(1)
    assert b" 101 " in answer.split(b"\r\n")[0]
    return stream


def pour(stream: socket.socket, data: bytes, seconds: float, *, read: bool = True) -> int:
    """Send the same bytes again and again without ever waiting; returns how much went out."""
    stream.setblocking(False)
    until, sent, left = time.monotonic() + seconds, 0, memoryview(data)
    while time.monotonic() < until:
        try:
            count = stream.send(left)
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            break  # the server has had enough
        else:
            sent += count
            left = left[count:] or memoryview(data)
        if read:
            with contextlib.suppress(OSError):
                stream.recv(1 << 20)
    return sent


@contextlib.asynccontextmanager
async def terminal(served: Served) -> AsyncIterator[str]:
    """A terminal session that does nothing; its coop path."""
    asked = {"kind": "terminal", "cwd": str(served.folder), "options": {"command": ["cat"]}}
    session = (await served.asked("POST", "/sessions", asked))["session"]
    yield f"/coop/ws?session={session}"


async def worst_answer(served: Served, stop: asyncio.Event) -> float:
    """The longest that somebody else waited for a pong meanwhile."""
    worst = 0.0
    async with connect(served.ready["dialects"]["hub"], proxy=None, max_size=None) as other:
        while not stop.is_set():
            began = time.monotonic()
            await other.send('{"op":"ping","id":1}')
            while json.loads(await other.recv()).get("id") != 1:
                pass
            worst = max(worst, time.monotonic() - began)
            await asyncio.sleep(0.01)
    return worst


async def beside(served: Served, path: str, data: bytes, *, read: bool = True) -> tuple[float, int]:
    """Pour ``data`` for three seconds; others' longest wait, and the server's growth."""
    stop = asyncio.Event()
    waiting = asyncio.create_task(worst_answer(served, stop))
    memory = resident(served.pid)
    stream = upgraded(int(served.ready["port"]), path)
    try:
        await asyncio.to_thread(pour, stream, data, 3.0, read=read)
        growth = resident(served.pid) - memory
    finally:
        stop.set()
        stream.close()
    return await waiting, growth


FLOODS = {
    "empty fragments": frame(0x1, b"", fin=False) + frame(0x0, b"", fin=False) * 20_000,
    "unasked pongs": frame(0xA) * 20_000,
    "pings": frame(0x9) * 20_000,
    "tiny messages": frame(0x1, b"{}") * 20_000,
    "resizes": b"".join(
        frame(0x1, json.dumps({"event": "resize", "cols": cols, "rows": 200}).encode()) for cols in (100, 800) * 2000
    ),
    "large screens": frame(0x1, b'{"event":"screen:get"}') * 4000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOODS)
async def test_a_flood_leaves_the_others_their_turn(served: Served, name: str) -> None:
    await served.start()
    async with terminal(served) as path:
        worst, growth = await beside(served, path, FLOODS[name])
    assert worst < CALM
    assert growth < 64 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pings", "tiny messages", "large screens"])
async def test_a_flood_by_one_who_does_not_read_costs_a_bounded_amount(served: Served, name: str) -> None:
    await served.start()
    async with terminal(served) as path:
        worst, growth = await beside(served, path, FLOODS[name], read=False)
    assert worst < CALM
    assert growth < 8 * MIB + 8 * MIB, "the limit of a link, and what the allocator does with the rest"


async def test_a_message_in_too_many_pieces_ends_the_link(served: Served) -> None:
    await served.start()
    async with terminal(served) as path:
        stream = upgraded(int(served.ready["port"]), path)
        stream.sendall(frame(0x1, b"{", fin=False) + frame(0x0, b" ", fin=False) * 5000)
        stream.settimeout(10)
        got = await asyncio.to_thread(stream.recv, 100)
        stream.close()
    assert got[:1] == b"\x88"
    assert struct.unpack("!H", got[2:4]) == (1009,)


def heads(port: int) -> Iterator[bytes]:
    yield b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 1_000_000
    yield b"GET /" + b"x" * 1_000_000
    yield b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"A: b\r\n" * 200_000


async def test_a_request_head_without_end_is_refused(served: Served) -> None:
    await served.start()
    port = int(served.ready["port"])
    for head in heads(port):
        with socket.create_connection(("127.0.0.1", port), 10) as stream:
            sent = await asyncio.to_thread(pour, stream, head, 2.0)
        assert sent < 16 * MIB, "the connection was ended"
    assert (await served.asked("GET", "/health"))["status"] == "ok"


@pytest.mark.slow
async def test_a_connection_that_says_nothing_is_closed(served: Served) -> None:
    await served.start()
    with socket.create_connection(("127.0.0.1", int(served.ready["port"])), 30) as silent:
        assert await asyncio.to_thread(silent.recv, 1) == b""


async def test_a_program_whose_start_was_lost_with_two_servers_is_found(served: Served) -> None:
    """A second crash, during the recovery from the first, hides the program from the log: the marker still shows it."""
    await served.start()
    stubborn = "(trap '' HUP TERM; exec sleep 1000) & cat"
    asked = {"kind": "terminal", "cwd": str(served.folder), "options": {"command": ["sh", "-c", stubborn]}}
    session = (await served.asked("POST", "/sessions", asked))["session"]
    await eventually(lambda: len(marked(session)) >= 2, "the program runs")
    helper = os.fork()
    if helper == 0:  # a process of that session of which no log says anything
        os.setsid()
        os.execvpe("sleep", ["sleep", "1000"], {**os.environ, "DRAGOMAN_SESSION": session})
    try:
        left = marked(session)
        served.kill()
        await served.start()
        served.kill()
        await served.start()
        await eventually(lambda: not any(map(alive, left)), "nothing of it is left")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(helper, signal.SIGKILL)
        os.waitpid(helper, 0)


async def test_what_lies_beside_logs_that_are_gone_is_removed(served: Served) -> None:
    await served.start()
    asked = {"kind": "terminal", "cwd": str(served.folder), "options": {"command": ["true"], "env": {"KEY": "sk-1"}}}
    session = (await served.asked("POST", "/sessions", asked))["session"]
    shelves: Path = served.folder / "data" / "terminals"
    (shelves / "of-nobody").mkdir()
    (shelves / "of-nobody" / "environment.json").write_text('{"KEY":"sk-2"}')
    draft = shelves / session / ".tape.draft"
    draft.write_text("half a tape")
    served.kill()
    await served.start()
    assert [shelf.name for shelf in shelves.iterdir()] == [session]
    assert not draft.exists()


async def test_a_hangup_stops_the_server_in_order(served: Served) -> None:
    await served.start()
    asked = {"kind": "terminal", "cwd": str(served.folder), "options": {"command": ["sh", "-c", "trap '' HUP; cat"]}}
    session = (await served.asked("POST", "/sessions", asked))["session"]
    pids = marked(session)
    process = served.process
    assert process is not None
    process.send_signal(signal.SIGHUP)
    assert await asyncio.to_thread(process.wait, 10) == 0
    assert not any(map(alive, pids))
    assert "Traceback" not in served.log.read_text()

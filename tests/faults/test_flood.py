"""200 MB through one terminal, with a fast link, a slow one and one that never reads (invariants 5 and 7)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.client import ClientProtocol
from websockets.frames import Opcode
from websockets.uri import parse_uri

from .process import Served
from .test_soak import MIB, resident

MEGABYTES = 200
LAST = "the very last line"

WRITER = """
import os, sys, time, tty
tty.setraw(0)
rate, total = float(sys.argv[1]), int(sys.argv[2])
line = b"\\x1b[3%dm%08d\\x1b[0m the quick brown fox jumps over it\\r\\n"
os.write(1, b"ready")
os.read(0, 1)
began, sent, n, wanted = time.monotonic(), 0, 0, 0
while sent < total:
    block = b"".join(line % (k % 8, k) for k in range(n, n + 200))
    n += 200
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
    sent += len(block)
    ahead = began + sent / rate - time.monotonic() if rate else 0
    if ahead > 0:
        time.sleep(ahead)
took = time.monotonic() - began
os.write(1, b"\\x1b[2J\\x1b[H%s %.6f" % (sys.argv[3].encode(), took))
os.read(0, 1)
"""


def expected(total: int) -> Iterator[bytes]:
    """The program's bytes again, in blocks."""
    sent = n = 0
    while sent < total:
        block = b"".join(
            b"\x1b[3%dm%08d\x1b[0m the quick brown fox jumps over it\r\n" % (k % 8, k) for k in range(n, n + 200)
        )
        n += 200
        sent += len(block)
        yield block


class Reader:
    """Follows a raw stream by offset: no overlap ever; counts gaps, and sums up what came without one."""

    def __init__(self) -> None:
        self.next = 0
        self.gaps = 0
        self.crc = 0
        self.tail = b""

    def take(self, offset: int, data: bytes) -> None:
        assert offset >= self.next, "an overlap"
        if offset > self.next:
            self.gaps += 1
            self.crc = 0
        self.crc = zlib.crc32(data, self.crc)
        self.next = offset + len(data)
        self.tail = (self.tail + data)[-4096:]


class StuckLink:
    """Opens a link and reads only what the test asks for."""

    def __init__(self, port: int, path: str) -> None:
        self.stream = socket.create_connection(("127.0.0.1", port), 10)
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        self.protocol = ClientProtocol(parse_uri(f"ws://127.0.0.1:{port}{path}"), max_size=None)
        self.protocol.send_request(self.protocol.connect())
        self.stream.sendall(b"".join(self.protocol.data_to_send()))
        while not self.protocol.events_received():
            self.protocol.receive_data(self.stream.recv(1))
        self.stream.setblocking(False)
        self.reader = Reader()
        self.screen: dict[str, Any] = {}
        self.replies: list[dict[str, Any]] = []
        self._parts: list[bytes] = []

    async def read(self, size: int) -> None:
        """At most ``size`` bytes off the wire."""
        data = await asyncio.get_running_loop().sock_recv(self.stream, size)
        assert data, "the server closed the link"
        self.protocol.receive_data(data)
        for frame in self.protocol.events_received():
            if frame.opcode is Opcode.PING:
                continue
            self._parts.append(bytes(frame.data))
            if frame.fin:
                self._message(json.loads(b"".join(self._parts)))
                self._parts.clear()

    def _message(self, message: dict[str, Any]) -> None:
        if message["event"] == "output":
            self.reader.take(message["offset"], base64.b64decode(message["data"]))
        elif message["event"] == "screen":
            self.screen = message
        else:
            self.replies.append(message)

    def send(self, message: dict[str, Any]) -> None:
        self.protocol.send_text(json.dumps(message).encode())
        self.stream.sendall(b"".join(self.protocol.data_to_send()))


async def follow(link: ClientConnection, reader: Reader, end: bytes) -> None:
    """Read a raw stream until ``end`` was written."""
    async for text in link:
        message = json.loads(text)
        if message["event"] == "output":
            reader.take(message["offset"], base64.b64decode(message["data"]))
            if end in reader.tail:
                return


async def trickle(link: StuckLink, stop: asyncio.Event) -> None:
    """10 KB/s."""
    while not stop.is_set():
        await link.read(1024)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0.1)


async def flood(served: Served, folder: Path, rate: float, *, laggards: bool) -> tuple[float, float]:
    """One run; returns the seconds that the program took, and the server's growth in bytes."""
    total = MEGABYTES * 1_000_000
    script = folder / "writer.py"
    script.write_text(WRITER)
    command = [sys.executable, str(script), str(rate), str(total), LAST]
    asked = {"kind": "terminal", "cwd": str(folder), "options": {"command": command, "cols": 100, "rows": 30}}
    session = (await served.asked("POST", "/sessions", asked))["session"]
    url = f"{served.ready['dialects']['coop']}?session={session}"
    async with connect(f"{url}&mode=raw", max_size=None, compression=None, proxy=None) as fast:
        await fast.send(json.dumps({"event": "replay", "offset": 0}))
        reader = Reader()
        while b"ready" not in reader.tail:
            message = json.loads(await asyncio.wait_for(fast.recv(), 10))
            start = message["offset"]
            data = base64.b64decode(message["data"])
            if message["event"] == "replay_result":
                reader.next = start
            reader.tail += data
            reader.next = max(reader.next, start + len(data))
        path = f"/coop/ws?session={session}&mode=all"
        slow = [StuckLink(served.ready["port"], path) for _ in range(2)] if laggards else []
        memory, stop = resident(served.pid), asyncio.Event()
        tasks = [asyncio.create_task(trickle(slow[0], stop))] if laggards else []
        await fast.send(json.dumps({"event": "input", "text": "g"}))
        await asyncio.wait_for(follow(fast, reader, LAST.encode()), 120)
        growth = resident(served.pid) - memory
        stop.set()
        await asyncio.gather(*tasks)
        await _check_fast(reader, total)
        for laggard in slow:
            await _check_laggard(laggard, reader.next)
            laggard.stream.close()
    screen = (await served.asked("GET", f"/sessions/{session}/screen"))["lines"]
    await served.asked("DELETE", f"/sessions/{session}")
    return float(screen[0].removeprefix(LAST)), growth


async def _check_fast(reader: Reader, total: int) -> None:
    def summed() -> int:
        crc = 0
        for block in expected(total):
            crc = zlib.crc32(block, crc)
        return crc

    assert reader.gaps == 0, "the fast link is complete"
    start = reader.tail.rindex(b"\x1b[2J")
    assert reader.crc == zlib.crc32(reader.tail[start:], await asyncio.to_thread(summed)), "byte-exact"


async def _check_laggard(link: StuckLink, end: int) -> None:
    """It sees the jump, ends on the exact final screen, and a replay of what the ring holds joins exactly."""
    async with asyncio.timeout(60):
        while link.reader.next < end or LAST not in link.screen.get("lines", [""])[0]:
            await link.read(65536)
        assert link.reader.gaps > 0
        link.send({"event": "replay", "offset": 0})
        while not any(reply["event"] == "replay_result" for reply in link.replies):
            await link.read(65536)
    (reply,) = [reply for reply in link.replies if reply["event"] == "replay_result"]
    data = base64.b64decode(reply["data"])
    assert (reply["offset"] + len(data), reply["total_written"]) == (end, end)
    assert data.endswith(link.reader.tail)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [20e6, 0.0], ids=["20 MB/s", "as fast as it can"])
async def test_slow_links_cost_little_and_delay_nobody(served: Served, tmp_path: Path, rate: float) -> None:
    await served.start()
    alone, _ = await flood(served, tmp_path, rate, laggards=False)
    began = time.monotonic()
    beside, growth = await flood(served, tmp_path, rate, laggards=True)
    # the program is not slowed: what two more links cost the one processor is allowed for, a stall is not
    assert beside < alone * 1.5 + 1, f"{alone:.1f} s alone, {beside:.1f} s beside slow links"
    assert growth < 2 * 8 * MIB
    assert time.monotonic() - began < 120

"""Real programs on real PTYs over real sockets: every byte, its picture, its end."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

from dragoman.hub.session import Session

from .rig import Link, Rig

HEAD = struct.Struct("!IQ")


async def run(rig: Rig, *command: str, **options: Any) -> Session:
    return await rig.session("terminal", options={"command": list(command), **options})


def output(link: Link, handle: int) -> tuple[bytes, int]:
    """Everything that came for a handle, checked to be without a gap, and the offset it started at."""
    pieces = [(HEAD.unpack_from(data), data[HEAD.size :]) for data in link.binary]
    mine = [(offset, data) for (number, offset), data in pieces if number == handle]
    for (at, data), (following, _) in pairwise(mine):
        assert at + len(data) == following
    return b"".join(data for _, data in mine), mine[0][0] if mine else 0


async def test_ten_viewers_get_every_byte_and_then_the_end(rig: Rig, tmp_path: Path) -> None:
    line = "\x1b[3{}m0123456789 abcdefghijklmnopqrstuvwxyz\x1b[0m\n"
    text = "".join(line.format(n % 8) for n in range(60_000)).encode()
    file = tmp_path / "flood"
    file.write_bytes(text)
    session = await run(rig, "/bin/sh", "-c", f"stty -onlcr; read go; cat {file}; exit 3")
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        ready = asyncio.Barrier(10)

        async def view(first: bool) -> None:
            async with rig.link() as link:
                reply = await link.ask("attach", session=session.id, offset=0)
                await ready.wait()
                if first:
                    await link.until(lambda: session.terminal is not None and session.terminal.running, "it runs")
                    await link.ask("input", session=session.id, text="go\n")
                ended = await link.message("ended")
                data, start = output(link, reply["handle"])
                assert start == 0
                assert hashlib.sha256(data[-len(text) :]).digest() == hashlib.sha256(text).digest()
                assert (ended["code"], ended["cause"], ended["offset"]) == (3, "exit", len(data))
                assert link.order[-1] == ended
                assert link.of("skipped") == []

        for number in range(10):
            group.create_task(view(number == 0))


async def test_what_is_typed_is_echoed_and_keys_and_signals_arrive(rig: Rig) -> None:
    session = await run(rig, "/bin/cat")
    async with rig.link() as link:
        handle = (await link.ask("attach", session=session.id, offset=0))["handle"]
        await link.socket.send(struct.pack("!I", handle) + b"raw ")
        await link.ask("input", session=session.id, text="text ")
        await link.ask("input", session=session.id, data=base64.b64encode("é\n".encode()).decode())
        await link.until(lambda: b"raw text \xc3\xa9\r\nraw text \xc3\xa9" in output(link, handle)[0], "the echo")
        assert await link.refused("keys", session=session.id, keys=["NoSuchKey"]) == "invalid_request"
        assert await link.refused("signal", session=session.id, signal="NOPE") == "invalid_request"
        await link.ask("signal", session=session.id, signal="TERM")
        ended = await link.message("ended")
        assert (ended["code"], ended["signal"], ended["cause"]) == (None, 15, "signal")
        assert await link.refused("input", session=session.id, text="x") == "not_running"


async def test_the_picture_and_the_stream_behind_it_fit_together(rig: Rig) -> None:
    """V21: a full picture at once; what follows starts exactly where it ends."""
    session = await run(rig, "/bin/sh", "-c", "printf 'ready\\n'; read line; printf 'then '; read line")
    async with rig.link() as link:
        terminal = session.terminal
        assert terminal is not None
        await link.until(lambda: terminal.tape.end >= 7, "it is ready")
        reply = await link.ask("attach", session=session.id, screen=True, styled=True)
        screen = reply["screen"]
        assert screen["lines"][0] == "ready"
        assert (len(screen["lines"]), screen["cols"], screen["rows"]) == (24, 80, 24)
        assert len(screen["styled"]) == 24
        assert screen["tape_offset"] == reply["offset"]
        await link.ask("input", session=session.id, text="go", enter=True)
        await link.until(lambda: b"then " in output(link, reply["handle"])[0], "the rest")
        data, start = output(link, reply["handle"])
        assert (start, data) == (reply["offset"], b"go\r\nthen ")


async def test_resizes_are_told_and_bad_sizes_refused(rig: Rig) -> None:
    session = await run(rig, "/bin/cat", cols=90, rows=20)
    async with rig.link() as link:
        reply = await link.ask("attach", session=session.id)
        assert (reply["cols"], reply["rows"]) == (90, 20)
        for cols, rows in ((0, 24), (80, -1), (100_000, 10), (1000, 500)):
            assert await link.refused("resize", session=session.id, cols=cols, rows=rows) == "invalid_size"
        await link.ask("resize", session=session.id, cols=100, rows=30)
        resized = await link.message("resized")
        assert (resized["cols"], resized["rows"]) == (100, 30)
        assert (await link.ask("screen", session=session.id))["cols"] == 100


async def test_a_viewer_that_stops_is_told_what_it_missed_and_goes_on(rig: Rig) -> None:
    """V26 for terminals."""
    flood = "i=0; while [ $i -lt 1200 ]; do printf '%05000d\\n' $i; i=$((i+1)); done"
    session = await run(rig, "/bin/sh", "-c", f"read go; {flood}; read go")
    async with rig.link(max_queue=2) as slow, rig.link() as quick:
        mine = (await slow.ask("attach", session=session.id))["handle"]
        await quick.ask("attach", session=session.id)
        slow.socket.transport.pause_reading()
        await quick.ask("input", session=session.id, text="go\n")
        terminal = session.terminal
        assert terminal is not None
        await quick.until(lambda: terminal.tape.end > 6_000_000, "the flood is over")
        slow.socket.transport.resume_reading()
        await slow.until(lambda: end_of(slow, mine) >= terminal.tape.end, "caught up")
        assert quick.of("skipped") == []
        (skipped, *_) = slow.of("skipped")
        position = slow.order.index(skipped)
        after = next(data for data in slow.order[position:] if isinstance(data, bytes))
        assert HEAD.unpack_from(after)[1] == skipped["to"]


def end_of(link: Link, handle: int) -> int:
    """Offset after the newest byte that came."""
    if not link.binary:
        return 0
    _, offset = HEAD.unpack_from(link.binary[-1])
    return int(offset) + len(link.binary[-1]) - HEAD.size


async def test_a_program_started_again_goes_on_on_the_same_stream(rig: Rig) -> None:
    session = await run(rig, "/bin/sh", "-c", "printf run; exit 1")
    async with rig.link() as link:
        handle = (await link.ask("attach", session=session.id, offset=0))["handle"]
        await link.message("ended")
        await link.ask("start", session=session.id)
        await link.message("ended", 2)
        assert output(link, handle)[0] == b"runrun"
        (started,) = link.of("started")
        assert (started["run"], started["offset"]) == (2, 3)


async def test_the_terminal_over_http(rig: Rig) -> None:
    made = await rig.http(
        "POST", "/sessions", {"kind": "terminal", "cwd": str(rig.folder), "options": {"command": ["/bin/cat"]}}
    )
    path = f"/sessions/{made.json['session']}"
    assert (await rig.http("POST", f"{path}/input", {"text": "hello", "enter": True})).json == {"bytes": 6}
    assert (await rig.http("POST", f"{path}/input", {"keys": ["Nope"]})).code == (400, "invalid_request")
    session = await rig.registry.get(principal(), made.json["session"])
    terminal = session.terminal
    assert terminal is not None
    async with asyncio.timeout(5):
        while b"hello\r\nhello" not in terminal.tape.read(0)[1]:
            await asyncio.sleep(0.005)
    tape = await rig.http("GET", f"{path}/tape?offset=3&limit=4")
    assert tape.body == b"lo\r\n"
    assert tape.headers["content-type"] == "application/octet-stream"
    assert (tape.headers["tape-offset"], tape.headers["tape-next"]) == ("3", "7")
    assert int(tape.headers["tape-end"]) >= 12
    assert (await rig.http("GET", f"{path}/tape?offset=99999")).code == (400, "invalid_request")
    assert (await rig.http("POST", f"{path}/resize", {"cols": 0, "rows": 1})).code == (400, "invalid_size")
    assert (await rig.http("POST", f"{path}/resize", {"cols": 100, "rows": 30})).status == 200
    screen = (await rig.http("GET", f"{path}/screen?styled=1")).json
    assert (screen["cols"], screen["rows"]) == (100, 30)
    assert len(screen["styled"]) == 30
    text = await rig.http("GET", f"{path}/screen?format=text")
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.body.decode().splitlines()[:2] == ["hello", "hello"]
    assert (await rig.http("POST", f"{path}/prompts", {"text": "hi"})).code == (422, "unsupported")
    assert (await rig.http("POST", f"{path}/start")).code == (409, "already_running")
    assert (await rig.http("POST", f"{path}/signal", {"signal": "KILL"})).status == 200
    async with asyncio.timeout(5):
        while session.shown.exit is None:
            await asyncio.sleep(0.005)
    assert (await rig.http("POST", f"{path}/input", {"text": "x"})).code == (409, "not_running")


def principal() -> Any:
    from dragoman.hub.permissions import LOCAL

    return LOCAL

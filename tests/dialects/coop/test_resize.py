"""Seed, ``resize``: the model and the PTY always agree, and everybody is told of real changes."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from .harness import INVALID, Frame, Link, Server, Servers, run_dragoman
from .programs import READY, command, order

TELLER = ("sh", "-c", "stty -echo; echo ready; while read -r line; do stty size; done")
POSITIVE = {"event": "error", "code": "BAD_REQUEST", "message": "cols and rows must be positive"}
TOO_LARGE = [(1001, 10), (10, 501), (1000, 201), (401, 500), (65535, 65535), (65535, 1), (1, 65535)]
LARGEST = [(1000, 200), (400, 500), (1000, 1), (1, 500)]


@pytest.fixture(scope="module")
def server(shared: Servers) -> Server:
    server = shared.start(*TELLER)
    server.wait_for_output(b"ready")
    return server


def resize(cols: object, rows: object) -> Frame:
    return {"event": "resize", "cols": cols, "rows": rows}


async def told(link: Link, cols: int, rows: int) -> None:
    """``stty`` on the terminal says this size. The link is of mode raw."""
    expected = f"{rows} {cols}\r\n".encode()
    await link.type("")
    assert await link.output_until(b"\r\n") == expected


async def set_size(link: Link, cols: int, rows: int) -> None:
    """Bring the shared terminal to a size, whatever it had."""
    await link.send(resize(cols, rows))
    await link.until_pong()
    health = await link.screen()
    assert (health["cols"], health["rows"]) == (cols, rows)


@pytest.mark.parametrize(("cols", "rows"), [(120, 40), (80, 24), (1, 1), (2, 1), (1, 2), (9, 4), (10, 5), *LARGEST])
async def test_the_pty_and_the_picture_get_exactly_the_size_asked_for(server: Server, cols: int, rows: int):
    async with server.link("raw") as link:
        await set_size(link, 100, 30)
        assert await link.ask(resize(cols, rows), "resize") == resize(cols, rows)
        await told(link, cols, rows)
        screen = await link.screen()
        assert (screen["cols"], screen["rows"], len(screen["lines"])) == (cols, rows, rows)
        health = server.get("health").json
        assert health["terminal"] == {"cols": cols, "rows": rows}
        assert (health["terminal_cols"], health["terminal_rows"]) == (cols, rows)


async def test_a_tiny_terminal_shows_no_more_than_fits(server: Server):
    async with server.link("raw") as link:
        await set_size(link, 100, 30)
        await told(link, 100, 30)
        for cols, rows in ((1, 1), (3, 2)):
            await set_size(link, cols, rows)
            screen = await link.screen()
            assert len(screen["lines"]) == rows
            assert all(len(line) <= cols for line in screen["lines"])
        await set_size(link, 100, 30)


@pytest.mark.parametrize(("cols", "rows"), [(0, 24), (80, 0), (0, 0)])
async def test_zero_is_refused(server: Server, cols: int, rows: int):
    async with server.link("raw") as link:
        await set_size(link, 100, 30)
        assert await link.answers(resize(cols, rows)) == [POSITIVE]
        await told(link, 100, 30)
        assert server.post("resize", {"cols": cols, "rows": rows}).error == (
            400,
            "BAD_REQUEST",
            "cols and rows must be positive",
        )


@pytest.mark.parametrize(("cols", "rows"), TOO_LARGE)
async def test_above_the_limits_nothing_is_touched(server: Server, cols: int, rows: int):
    async with server.link("raw") as link, server.link("state") as other:
        await set_size(link, 100, 30)
        await other.until_pong()
        answers = await link.answers(resize(cols, rows))
        assert [frame["code"] for frame in answers] == ["BAD_REQUEST"]
        await told(link, 100, 30)
        screen = await link.screen()
        assert (screen["cols"], screen["rows"]) == (100, 30)
        assert await other.until_pong() == []
        assert server.post("resize", {"cols": cols, "rows": rows}).error[:2] == (400, "BAD_REQUEST")
        await told(link, 100, 30)


@pytest.mark.parametrize("value", [-1, 1.5, 65536, 10**9, -(10**9), "80", None])
async def test_what_is_no_size_is_an_invalid_message(server: Server, value: object):
    async with server.link("raw") as link:
        await set_size(link, 100, 30)
        assert await link.answers(resize(value, 24)) == [INVALID]
        assert await link.answers(resize(80, value)) == [INVALID]
        await told(link, 100, 30)


async def test_the_same_size_again_is_told_to_nobody(server: Server):
    async with server.link("state") as link, server.link("raw") as other:
        await set_size(other, 100, 30)
        await link.until_pong()
        for _ in range(3):
            await link.send(resize(100, 30))
            assert await link.until_pong() == []
        assert await other.until_pong() == []


async def test_everyone_is_told_after_it_was_applied(server: Server):
    async with server.link("state") as asker, server.link("screen") as other, server.link("raw") as raw:
        await set_size(raw, 100, 30)
        for link in (asker, other):
            await link.until_pong()
        await asker.send(resize(111, 31))
        for link in (asker, other, raw):
            assert await link.expect("resize") == resize(111, 31)
        await told(raw, 111, 31)


async def test_after_fifty_quick_resizes_the_last_one_holds(server: Server):
    chance = random.Random(50)
    sizes = [(chance.randint(1, 300), chance.randint(1, 100)) for _ in range(49)]
    sizes.append((123, 45))
    async with server.link("raw") as link, server.link("state") as other:
        await set_size(link, 100, 30)
        await other.until_pong()
        for cols, rows in sizes:
            await link.send(resize(cols, rows))
        await link.until_pong()
        await told(link, 123, 45)
        screen = await link.screen()
        assert (screen["cols"], screen["rows"]) == (123, 45)
        await other.expect(lambda frame: frame == resize(123, 45))
        assert await other.until_pong() == []
        pushed = [(f["cols"], f["rows"]) for f in other.received if f["event"] == "resize"]
        pushed = pushed[pushed.index((100, 30)) + 1 :] if (100, 30) in pushed else pushed
        assert set(pushed) <= set(sizes)
        assert all(before != after for before, after in itertools.pairwise(pushed))


async def test_two_links_that_fight_end_in_agreement(server: Server):
    async with server.link("raw") as one, server.link("state") as two:
        for number in range(20):
            await one.send(resize(50 + number, 20))
            await two.send(resize(90 + number, 25))
        await one.until_pong()
        await two.until_pong()
        screen = await one.screen()
        await told(one, screen["cols"], screen["rows"])


async def test_http_resizes_too(server: Server):
    async with server.link("raw") as link:
        await set_size(link, 100, 30)
        await link.until_pong()
        reply = server.post("resize", {"cols": 91, "rows": 29})
        assert (reply.status, reply.json) == (200, {"cols": 91, "rows": 29})
        assert await link.expect("resize") == resize(91, 29)
        await told(link, 91, 29)


async def test_the_program_gets_its_window_change_signal(servers: Servers):
    server = servers.start(*command("signals"))
    server.wait_for_output(READY)
    async with server.link("raw") as link:
        await link.send(resize(66, 21))
        assert await link.output_until(b"<28:66x21>") == b"<28:66x21>"


@pytest.mark.parametrize("flag", ["--cols", "--rows"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "1001"])
def test_an_impossible_start_size_is_refused(tmp_path: Path, flag: str, value: str):
    line = ["run", "--port", "0", "--data", str(tmp_path / "data"), flag, value, "--", "true"]
    ended = run_dragoman(line, tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.strip()
    assert "Traceback" not in ended.stderr


async def test_a_full_screen_of_text_survives_the_smallest_size(servers: Servers):
    server = servers.start(*command("puppet"), args=["--cols", "80", "--rows", "24"])
    server.wait_for_output(READY)
    async with server.link("raw") as link:
        await link.type(order("write", b"\x1b[?1049h" + b"wide \xe6\x97\xa5\xe6\x9c\xac " * 200))
        await link.until_pong()
        for cols, rows in ((1, 1), (1000, 200), (1, 500), (80, 24)):
            await link.ask(resize(cols, rows), "resize")
            await link.type(order("write", b"\xe6\x97\xa5 [written]\r\n"))
            await link.output_until(b"[written]")
            await link.screen()
        await link.type(order("write", b"\x1b[2J\x1b[Hsound"))
        await link.output_until(b"sound")
        assert (await link.screen())["lines"][0] == "sound"

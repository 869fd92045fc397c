"""Seed, ``screen``: pictures as a person sees them, pushed and asked for, over the socket and over HTTP."""

from __future__ import annotations

import base64
import itertools

import pytest

from .harness import Link, Server, Servers
from .programs import READY, command, order

MIXED = "Grüße, Здравствуй, こんにちは, 안녕, 🙂👍🏽 ñ ﷽ e\u0301 "


@pytest.fixture(scope="module")
def server(shared: Servers) -> Server:
    server = shared.start(*command("puppet"), args=["--cols", "80", "--rows", "24"])
    server.wait_for_output(READY)
    return server


async def paint(link: Link, text: str, *, verb: str = "write", clear: bool = True) -> None:
    """Let the program write ``text`` on an empty screen, ended by a mark on the last line; wait for the mark."""
    mark = f"[{next(paint_numbers)}]"
    start = "\x1b[?1049l\x1b[!p\x1b[2J\x1b[H" if clear else ""
    await link.type(order(verb, f"{start}{text}\x1b7\x1b[24;1H\x1b[2K{mark}\x1b8".encode()))
    await link.output_until(mark.encode())


paint_numbers = itertools.count(100)


async def test_the_default_size_is_200_by_50(servers: Servers):
    server = servers.start("sh", "-c", "stty size; exec cat")
    server.wait_for_output(b"50 200")
    async with server.link("state") as link:
        screen = await link.screen()
    assert (screen["cols"], screen["rows"], len(screen["lines"])) == (200, 50, 50)
    assert screen["lines"][0] == "50 200"


async def test_the_size_can_be_chosen(servers: Servers):
    server = servers.start("sh", "-c", "stty size; exec cat", args=["--cols", "101", "--rows", "33"])
    server.wait_for_output(b"33 101")
    async with server.link("state") as link:
        screen = await link.screen()
    assert (screen["cols"], screen["rows"], len(screen["lines"])) == (101, 33, 33)


async def test_lines_are_trimmed_and_as_many_as_rows(server: Server):
    async with server.link("raw") as link:
        await paint(link, "one   \r\n  two \x1b[41m   \x1b[0m\r\n\r\nfour")
        screen = await link.screen()
    assert screen["lines"][:5] == ["one", "  two", "", "four", ""]
    assert (screen["cols"], screen["rows"], len(screen["lines"])) == (80, 24, 24)
    assert screen["cursor"] == {"row": 3, "col": 4}
    assert screen["alt_screen"] is False


async def test_the_cursor_follows(server: Server):
    async with server.link("raw") as link:
        for row, col in ((0, 0), (5, 10), (23, 79)):
            await paint(link, f"\x1b[{row + 1};{col + 1}H")
            assert (await link.screen())["cursor"] == {"row": row, "col": col}


async def test_colours_and_movements_leave_only_text(server: Server):
    async with server.link("raw") as link:
        await paint(link, "\x1b[1;31mred\x1b[0m \x1b[38;5;200mpink\x1b[m\r\nabc\x1b[2DX\x1b]0;a title\x07")
        assert (await link.screen())["lines"][:2] == ["red pink", "aXc"]


async def test_a_long_line_wraps(server: Server):
    async with server.link("raw") as link:
        await paint(link, "x" * 100)
        assert (await link.screen())["lines"][:2] == ["x" * 80, "x" * 20]


async def test_wide_characters_are_one_character_over_two_columns(server: Server):
    async with server.link("raw") as link:
        await paint(link, "日本a")
        screen = await link.screen()
        assert screen["lines"][0] == "日本a"
        assert screen["cursor"] == {"row": 0, "col": 5}


@pytest.mark.parametrize("verb", ["write", "drip"])
async def test_the_alternate_screen_is_told_and_left_again(server: Server, verb: str):
    async with server.link("raw") as link:
        await paint(link, "below")
        await paint(link, "\x1b[?1049h\x1b[Habove", verb=verb, clear=False)
        screen = await link.screen()
        assert (screen["alt_screen"], screen["lines"][0]) == (True, "above")
        await paint(link, "\x1b[?1049l", verb=verb, clear=False)
        screen = await link.screen()
        assert (screen["alt_screen"], screen["lines"][0]) == (False, "below")


@pytest.mark.parametrize(
    ("switches", "alt"), [("\x1b[?1049l\x1b[?1049h", True), ("\x1b[?1049h\x1b[?1049l", False)], ids=["on", "off"]
)
async def test_the_last_switch_in_one_write_counts(server: Server, switches: str, alt: bool):
    async with server.link("raw") as link:
        for start in ("", "\x1b[?1049h"):
            await paint(link, start + switches)
            assert (await link.screen())["alt_screen"] is alt


async def test_no_replacement_character_that_the_program_did_not_write(server: Server):
    async with server.link("all") as link:
        await paint(link, MIXED, verb="drip")
        screen = await link.screen_until(f"[{next(paint_numbers) - 1}]")
        assert screen["lines"][0].startswith("Grüße, Здравствуй, こんにちは, 안녕,")
        texts = [line for frame in link.received if frame["event"] == "screen" for line in frame["lines"]]
        assert not [line for line in texts if "\ufffd" in line]
        raw = b"".join(base64.b64decode(frame["data"]) for frame in link.received if frame["event"] == "output")
        assert MIXED.encode() in raw


@pytest.mark.parametrize("text", ["ñ日🙂e\u0301", "Ж한👍🏽"])
async def test_a_character_may_be_split_anywhere(server: Server, text: str):
    data = text.encode()
    async with server.link("raw") as link:
        await paint(link, text)
        whole = (await link.screen())["lines"][0]
        for cut in range(1, len(data)):
            await paint(link, "")
            for part in (data[:cut], data[cut:]):
                await link.type(order("write", part))
                await link.output_until(part)
                assert "\ufffd" not in "".join((await link.screen())["lines"]), cut
            assert (await link.screen())["lines"][0] == whole, cut


@pytest.mark.parametrize("switch", [b"\x1b[?1049h", b"\x1b[?25;1049h"], ids=["alone", "with-another"])
async def test_the_switch_of_screens_may_be_split_anywhere(server: Server, switch: bytes):
    async with server.link("raw") as link:
        for cut in range(1, len(switch)):
            await paint(link, "")
            assert (await link.screen())["alt_screen"] is False
            for part in (switch[:cut], switch[cut:]):
                await link.type(order("write", part))
                await link.output_until(part)
            assert (await link.screen())["alt_screen"] is True, cut


async def test_a_replacement_character_of_the_program_stays(server: Server):
    async with server.link("raw") as link:
        await paint(link, "a\ufffdb")
        assert (await link.screen())["lines"][0] == "a\ufffdb"


async def test_random_bytes_never_harm_the_server(server: Server):
    noise = bytes((number * 7919 + number // 3) % 256 for number in range(2900))
    async with server.link("raw") as link:
        for verb, size in (("write", 2900), ("drip", 500)):
            await link.type(order(verb, noise[:size] + b"\x1b\\\x1bc\x18[after the noise]"))
            await link.output_until(b"[after the noise]")
            await link.screen()
        await paint(link, "\x1bc\x1b[!pclean")
        assert (await link.screen())["lines"][0] == "clean"


async def test_pictures_are_pushed_until_the_last_change_is_shown(server: Server):
    async with server.link("screen") as link:
        for number in range(100):
            await link.type(order("write", f"\r\nline {number};".encode()))
        last = await link.screen_until("line 99;")
        assert (await link.screen())["lines"] == last["lines"]
        numbers = [frame["seq"] for frame in link.received if frame["event"] == "screen"]
        assert numbers == sorted(numbers)


async def test_seq_grows_with_every_change_and_equal_seq_means_equal_content(server: Server):
    async with server.link("raw") as link:
        seen = {}
        for number in range(5):
            await paint(link, f"change {number}")
            first, second = await link.screen(), await link.screen()
            assert first["seq"] not in seen
            assert first == second
            seen[first["seq"]] = first
        assert list(seen) == sorted(seen)
        assert (await link.status())["screen_seq"] == max(seen)


async def test_a_resize_brings_a_new_picture(server: Server):
    async with server.link("screen") as link:
        before = await link.screen()
        await link.send({"event": "resize", "cols": 60, "rows": 20})
        after = await link.expect(lambda f: f["event"] == "screen" and (f["cols"], f["rows"]) == (60, 20))
        assert after["seq"] > before["seq"]
        await link.send({"event": "resize", "cols": 80, "rows": 24})
        await link.expect(lambda f: f["event"] == "screen" and (f["cols"], f["rows"]) == (80, 24))


async def test_an_idle_terminal_pushes_no_pictures(server: Server):
    async with server.link("raw") as writer:
        await paint(writer, "now idle")
        async with server.link("screen") as link:
            await link.until_pong()
            await link.silence(0.3)


async def test_http_shows_the_same_picture(server: Server):
    async with server.link("raw") as link:
        await paint(link, "one\r\n  two\r\n日本")
        screen = await link.screen()
    body = {key: value for key, value in screen.items() if key != "event"}
    assert server.get("screen?cursor=true").json == body
    assert server.get("screen").json == body | {"cursor": None}
    assert server.get("screen?cursor=false").json == body | {"cursor": None}
    text = server.get("screen/text")
    assert text.headers["content-type"].replace(" ", "").lower() == "text/plain;charset=utf-8"
    assert text.body.decode().rstrip("\n").split("\n") == "\n".join(screen["lines"]).rstrip("\n").split("\n")

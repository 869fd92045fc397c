"""Seed, ``input``, ``input:raw``, ``keys``, ``signal``: the bytes and signals that reach the program."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from .harness import Frame, Link, Server, Servers, error, eventually
from .programs import READY, command, pattern

KEYS: dict[str, bytes] = {
    "enter": b"\r",
    "return": b"\r",
    "tab": b"\t",
    "escape": b"\x1b",
    "esc": b"\x1b",
    "backspace": b"\x7f",
    "delete": b"\x1b[3~",
    "del": b"\x1b[3~",
    "space": b" ",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "home": b"\x1b[H",
    "end": b"\x1b[F",
    "pageup": b"\x1b[5~",
    "page_up": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    "page_down": b"\x1b[6~",
    "insert": b"\x1b[2~",
    "f1": b"\x1bOP",
    "f2": b"\x1bOQ",
    "f3": b"\x1bOR",
    "f4": b"\x1bOS",
    "f5": b"\x1b[15~",
    "f6": b"\x1b[17~",
    "f7": b"\x1b[18~",
    "f8": b"\x1b[19~",
    "f9": b"\x1b[20~",
    "f10": b"\x1b[21~",
    "f11": b"\x1b[23~",
    "f12": b"\x1b[24~",
    **{f"ctrl-{chr(ord('a') + number)}": bytes([number + 1]) for number in range(26)},
}
UNKNOWN_KEYS = [
    *("badkey", "", "ctrl-", "ctrl-cat", "ctrl-1", "ctrl-é", "f0", "f13", "hyper-x", "enter ", "a", "ent\x00er"),
]
SIGNALS = {"HUP": 1, "INT": 2, "QUIT": 3, "USR1": 10, "USR2": 12, "TERM": 15, "CONT": 18, "TSTP": 20}
UNKNOWN_SIGNALS = ["SIGNOPE", "", "SIG", "0", "-1", "99", "1.5", "SIGSIGINT", "INT ", "2x"]
END = b"\x00<end>\x00"

Deliver = Callable[[Server, Link, Frame], Awaitable[None]]


async def by_message(server: Server, link: Link, message: Frame) -> None:
    await link.send(message)


async def by_http(server: Server, link: Link, message: Frame) -> None:
    path = {"input": "input", "input:raw": "input/raw", "keys": "input/keys", "signal": "signal"}[message["event"]]
    reply = server.post(path, {name: value for name, value in message.items() if name != "event"})
    assert reply.status == 200, reply


BOTH = pytest.mark.parametrize("deliver", [by_message, by_http])


@pytest.fixture(scope="module")
def hexer(shared: Servers) -> Server:
    server = shared.start(*command("hexer"))
    server.wait_for_output(READY)
    return server


@pytest.fixture(scope="module")
def signalled(shared: Servers) -> Server:
    server = shared.start(*command("signals"))
    server.wait_for_output(READY)
    return server


async def arrived(link: Link) -> bytes:
    """Every byte that the program has read since the last call, found by a mark sent after them."""
    await link.send({"event": "input:raw", "data": base64.b64encode(END).decode()})
    mark = b"".join(b"<%02x>" % byte for byte in END)
    told = await link.output_until(mark)
    assert told.endswith(mark)
    return bytes(int(code, 16) for code in re.findall(rb"<(..)>", told[: -len(mark)]))


@BOTH
@pytest.mark.parametrize("name", KEYS)
async def test_a_key_is_its_bytes(hexer: Server, deliver: Deliver, name: str):
    async with hexer.link("raw") as link:
        await deliver(hexer, link, {"event": "keys", "keys": [name, name.upper(), name.title()]})
        assert await arrived(link) == KEYS[name] * 3


@BOTH
async def test_all_keys_in_one_message(hexer: Server, deliver: Deliver):
    async with hexer.link("raw") as link:
        await deliver(hexer, link, {"event": "keys", "keys": list(KEYS)})
        assert await arrived(link) == b"".join(KEYS.values())


@pytest.mark.parametrize("name", UNKNOWN_KEYS)
async def test_an_unknown_key_is_named_and_nothing_at_all_is_written(hexer: Server, name: str):
    async with hexer.link("raw") as link:
        for keys in ([name], ["enter", name], [name, "enter"], ["tab", name, "otherbad"]):
            await link.send({"event": "keys", "keys": keys})
            assert await link.receive() == error("BAD_REQUEST", f"unknown key: {name}")
            reply = hexer.post("input/keys", {"keys": keys})
            assert reply.error == (400, "BAD_REQUEST", f"unknown key: {name}")
        assert await arrived(link) == b""


@BOTH
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"text": "hello"}, b"hello"),
        ({"text": "hello", "enter": False}, b"hello"),
        ({"text": "hello", "enter": True}, b"hello\r"),
        ({"text": "", "enter": True}, b"\r"),
        ({"text": ""}, b""),
        ({"text": "two\nlines\n", "enter": True}, b"two\nlines\n\r"),
        ({"text": "Grüße 日本 🙂", "enter": True}, "Grüße 日本 🙂\r".encode()),
        ({"text": "\x03\x04\x1a\x1b[A\x00\x7f"}, b"\x03\x04\x1a\x1b[A\x00\x7f"),
        ({"text": "enter"}, b"enter"),
    ],
    ids=repr,
)
async def test_text_arrives_as_utf8_and_enter_is_a_carriage_return(
    hexer: Server, deliver: Deliver, fields: Frame, expected: bytes
):
    async with hexer.link("raw") as link:
        await deliver(hexer, link, {"event": "input", **fields})
        assert await arrived(link) == expected


@BOTH
async def test_raw_bytes_arrive_unchanged(hexer: Server, deliver: Deliver):
    every = bytes(range(256)) + bytes(reversed(range(256)))
    async with hexer.link("raw") as link:
        await deliver(hexer, link, {"event": "input:raw", "data": base64.b64encode(every).decode()})
        assert await arrived(link) == every


@BOTH
async def test_single_bytes_keep_their_order(hexer: Server, deliver: Deliver):
    async with hexer.link("raw") as link:
        for byte in range(256):
            data = base64.b64encode(bytes([byte])).decode()
            await deliver(hexer, link, {"event": "input:raw", "data": data})
        assert await arrived(link) == bytes(range(256))


@pytest.mark.parametrize(
    "data", ["not base64!", "abc", "abcde", "SGVsbG8", "SGVs\nbG8=", "-_8=", "é", "====", "SGVsbG8=x"]
)
async def test_bad_base64_is_refused_and_nothing_is_written(hexer: Server, data: str):
    async with hexer.link("raw") as link:
        await link.send({"event": "input:raw", "data": data})
        assert await link.receive() == error("BAD_REQUEST", "invalid base64 data")
        assert hexer.post("input/raw", {"data": data}).error == (400, "BAD_REQUEST", "invalid base64 data")
        assert await arrived(link) == b""


async def test_kinds_of_input_on_one_link_keep_their_order(hexer: Server):
    expected = b""
    async with hexer.link("raw") as link:
        for number in range(50):
            await link.send({"event": "input", "text": f"t{number}", "enter": True})
            await link.send({"event": "keys", "keys": ["up", "ctrl-c"]})
            await link.send({"event": "input:raw", "data": base64.b64encode(b"\xff%d" % number).decode()})
            expected += b"t%d\r\x1b[A\x03\xff%d" % (number, number)
        assert await arrived(link) == expected


async def test_input_is_never_answered(hexer: Server):
    async with hexer.link("state") as link:
        for message in (
            {"event": "input", "text": "x", "enter": True},
            {"event": "input:raw", "data": "eA=="},
            {"event": "keys", "keys": ["enter"]},
            {"event": "signal", "signal": "SIGWINCH"},
        ):
            assert await link.answers(message) == []


async def test_bytes_written_counts_the_input(hexer: Server):
    async with hexer.link("state") as link:
        before = (await link.status())["bytes_written"]
        await link.send({"event": "input", "text": "é", "enter": True})
        await link.send({"event": "keys", "keys": ["f5"]})
        await link.send({"event": "input:raw", "data": "AAEC"})

        async def counted() -> int:
            return (await link.status())["bytes_written"] - before

        while await counted() < 11:
            pass
        assert await counted() == 11


async def test_a_program_that_does_not_read_blocks_nobody_and_loses_nothing(servers: Servers):
    data = pattern(256 << 10)
    server = servers.start(*command("sink", str(len(data))))
    server.wait_for_output(READY)
    async with server.link("raw") as link, server.link("state") as other:
        await link.send({"event": "input:raw", "data": base64.b64encode(data).decode()})
        assert await link.until_pong() == []
        assert await other.until_pong() == []
        assert server.get("health").status == 200
        await link.send({"event": "signal", "signal": "USR1"})
        told = await link.output_until(b"\r\n")
        assert told == b"sum %s\r\n" % hashlib.sha256(data).hexdigest().encode()


@BOTH
@pytest.mark.parametrize("name", SIGNALS)
async def test_a_signal_is_known_by_name_and_number_in_any_case(signalled: Server, deliver: Deliver, name: str):
    number = SIGNALS[name]
    async with signalled.link("raw") as link:
        for spelled in (f"SIG{name}", name, name.lower(), f"sig{name.lower()}", f"Sig{name.title()}", str(number)):
            await deliver(signalled, link, {"event": "signal", "signal": spelled})
            assert await link.output_until(b">") == b"<%d>" % number


@BOTH
async def test_a_window_change_signal_can_be_sent(signalled: Server, deliver: Deliver):
    async with signalled.link("raw") as link:
        await deliver(signalled, link, {"event": "signal", "signal": "SIGWINCH"})
        assert (await link.output_until(b">")).startswith(b"<28:")


@pytest.mark.parametrize("name", UNKNOWN_SIGNALS)
async def test_an_unknown_signal_is_named_and_not_sent(signalled: Server, name: str):
    async with signalled.link("raw") as link:
        await link.send({"event": "signal", "signal": name})
        assert await link.receive() == error("BAD_REQUEST", f"unknown signal: {name}")
        assert signalled.post("signal", {"signal": name}).error == (400, "BAD_REQUEST", f"unknown signal: {name}")
        await link.send({"event": "signal", "signal": "USR1"})
        assert await link.output_until(b">") == b"<10>"


async def test_stop_and_continue(servers: Servers):
    server = servers.start(*command("puppet"))
    server.wait_for_output(READY)
    async with server.link("state") as link:
        pid = (await link.status())["pid"]

        def stopped() -> bool:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

        await link.send({"event": "signal", "signal": "STOP"})
        await eventually(stopped, "the program is stopped")
        await link.send({"event": "signal", "signal": "CONT"})
        await eventually(lambda: not stopped(), "the program goes on")


async def test_kill_is_a_signal(servers: Servers):
    server = servers.start(*command("signals"))
    server.wait_for_output(READY)
    async with server.link("state") as link:
        await link.send({"event": "signal", "signal": "9"})
        assert await link.expect("exit") == {"event": "exit", "code": None, "signal": 9}


async def test_a_hundred_lines_come_back_in_order(servers: Servers):
    server = servers.start("sh", "-c", "stty -echo -opost; echo ready; exec cat")
    server.wait_for_output(b"ready")
    lines = [f"line {number} {os.urandom(8).hex()}" for number in range(100)]
    async with server.link("raw") as link:
        for line in lines:
            await link.type(line)
        told = await link.output_until(lines[-1].encode() + b"\n")
    assert told.decode().splitlines() == lines

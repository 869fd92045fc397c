"""Frames that are none, or that are made to be costly: they end their own socket at most, and with the code for it."""

from __future__ import annotations

import asyncio
import struct

import pytest

from .rig import LIMIT, Onion, Talk, of, script

TEXT, BEGIN, MORE, LAST, CLOSE, PING, PONG = 0x81, 0x01, 0x00, 0x80, 0x88, 0x89, 0x8A


def _frame(head: int, payload: bytes, *, masked: bool = True, says: int | None = None) -> bytes:
    """A frame as a client writes it; ``says`` is a length that is not the payload's."""
    size, bit = len(payload) if says is None else says, 0x80 if masked else 0
    if size < 126:
        length = struct.pack("!B", bit | size)
    elif size < 1 << 16:
        length = struct.pack("!BH", bit | 126, size)
    else:
        length = struct.pack("!BQ", bit | 127, size)
    return bytes([head]) + length + (bytes(4) if masked else b"") + payload


BROKEN = {
    "no mask": (_frame(TEXT, b"{}", masked=False), 1002),
    "compressed": (_frame(TEXT | 0x40, b"{}"), 1002),
    "a reserved bit": (_frame(TEXT | 0x10, b"{}"), 1002),
    "a reserved opcode": (_frame(0x83, b"x"), 1002),
    "a reserved control opcode": (_frame(0x8B, b"x"), 1002),
    "a long ping": (_frame(PING, b"x" * 126), 1002),
    "a ping in pieces": (_frame(0x09, b"x"), 1002),
    "the rest of nothing": (_frame(LAST, b"x"), 1002),
    "a message within another": (_frame(BEGIN, b"a") + _frame(TEXT, b"b"), 1002),
    "no UTF-8": (_frame(TEXT, b"\xff"), 1007),
    "in thousands of pieces": (_frame(BEGIN, b'"') + _frame(MORE, b"") * 5000 + _frame(LAST, b'"'), 1009),
    "a size beyond all": (_frame(TEXT, b"x", says=2**63 - 1), 1009),
    "a size that is none": (_frame(TEXT, b"x", says=2**64 - 1), 1009),
    "half a code": (_frame(CLOSE, b"x"), 1002),
    "a code that is none": (_frame(CLOSE, struct.pack("!H", 999)), 1002),
    "a reason that is no text": (_frame(CLOSE, struct.pack("!H", 1000) + b"\xff"), 1007),
}


@pytest.mark.parametrize("connected", [False, True], ids=["before CONNECT", "after CONNECT"])
@pytest.mark.parametrize(("sent", "code"), BROKEN.values(), ids=BROKEN.keys())
async def test_what_is_no_frame_ends_its_own_socket(served: Onion, sent: bytes, code: int, *, connected: bool) -> None:
    async with served.client() as other, served.talk() as talk:
        if connected:
            await talk.connect("framing")
        talk.wire.send_raw(sent)
        async with asyncio.timeout(LIMIT):
            await talk.wire.gone()
        assert talk.wire.close_code == code
        assert await other.status() == "connected"


WHOLE = {
    "a character in two": _frame(BEGIN, b'{"type":"PONG","x":"\xc3') + _frame(LAST, b'\xa9"}'),
    "a ping in between": _frame(BEGIN, b'{"type":') + _frame(PING, b"p") + _frame(LAST, b'"PONG"}'),
    "many pings": _frame(PING, b"x") * 5000,
    "many pongs": _frame(PONG, b"got 1 1") * 5000 + _frame(PONG, b"asked 0.1") * 5000,
    "many that are empty": _frame(TEXT, b"") * 1000,
}


async def _asks(talk: Talk) -> None:
    talk.say("SESSION_STATUS", session={"session_id": "nobody's"})
    await talk.next("SESSION_STATUS")


@pytest.mark.parametrize("sent", WHOLE.values(), ids=WHOLE.keys())
async def test_what_is_odd_but_right_ends_nothing(served: Onion, sent: bytes) -> None:
    async with served.client() as other, served.client() as talk:
        talk.wire.send_raw(sent)
        await _asks(other)
        await _asks(talk)


async def test_half_a_frame_keeps_nobody_waiting_but_its_sender(served: Onion) -> None:
    async with served.client() as talk, served.client() as other:
        talk.wire.send_raw(_frame(TEXT, b'{"type":"INPUT","prompt":"', says=100))
        assert (await other.turn(script("say here")))[-1]["result"] == "here"
        talk.wire.send_raw(b"x" * 72 + b'"}')
        await talk.next("OUTPUT")
        assert len(of(talk.frames, "user_input")) == 1

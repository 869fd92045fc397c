"""A person and our deliveries share one terminal."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from dragoman.agents.terminal.drivers import gate as module
from dragoman.agents.terminal.drivers.gate import InputGate, PersonTyping


class Written:
    """What the program got, and the gate that let it through."""

    def __init__(self, gap: float = 0.0) -> None:
        self.bytes = b""
        self.gate = InputGate(self._take, gap=gap)

    def _take(self, data: bytes) -> None:
        self.bytes += data


async def test_a_person_writes_at_once() -> None:
    written = Written()
    written.gate.person(b"a")
    assert written.bytes == b"a"


async def test_what_is_typed_during_a_delivery_follows_it() -> None:
    written = Written()
    async with written.gate.delivery():
        written.gate.person(b"x")
        assert written.bytes == b""
    assert written.bytes == b"x"


async def test_input_is_held_for_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HOLD", 0.02)
    written = Written()
    async with written.gate.delivery():
        written.gate.person(b"x")
        async with asyncio.timeout(1.0):
            while written.bytes != b"x":
                await asyncio.sleep(0)


async def test_what_was_typed_at_a_dialog_that_is_gone_is_dropped() -> None:
    """A digit meant for one dialog must not answer the next one."""
    written = Written()
    await written.gate.begin()
    written.gate.person(b"1")
    written.gate.end(drop=True)
    assert written.bytes == b""


async def test_a_delivery_waits_while_a_person_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.05)
    written = Written()
    written.gate.person(b"a")
    began = asyncio.get_running_loop().time()
    async with written.gate.delivery():
        assert asyncio.get_running_loop().time() - began >= 0.04


async def test_a_person_who_does_not_pause_is_not_typed_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    written = Written()
    written.gate.person(b"a")
    with pytest.raises(PersonTyping):
        await written.gate.begin()
    monkeypatch.setattr(module, "PAUSE", 0.0)
    async with written.gate.delivery():
        """The refused one has not kept the gate."""


async def test_deliveries_do_not_mix_and_keep_their_distance() -> None:
    written = Written(gap=0.05)
    times: list[float] = []

    async def deliver(text: bytes) -> None:
        async with written.gate.delivery():
            times.append(asyncio.get_running_loop().time())
            for byte in text:
                written._take(bytes((byte,)))
                await asyncio.sleep(0)

    await asyncio.gather(deliver(b"aaa"), deliver(b"bbb"), deliver(b"ccc"))
    assert written.bytes in {b"aaabbbccc", b"aaacccbbb"}
    assert all(later - earlier >= 0.04 for earlier, later in itertools.pairwise(times))


@pytest.mark.parametrize("report", [b"\x1b[I", b"\x1b[O", b"\x1b[<0;3;4M", b"\x1b[?1;2c", b"\x1b]11;rgb:0/0/0\x07"])
async def test_what_a_terminal_sends_by_itself_is_not_typing(report: bytes) -> None:
    written = Written()
    async with written.gate.delivery():
        written.gate.person(report)
        assert written.bytes == report
    assert written.gate.keys == 0

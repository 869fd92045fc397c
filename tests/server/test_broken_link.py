"""A link that fails is our mistake: its client is told by the end of it, and nobody else notices."""

from __future__ import annotations

import asyncio
import logging

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from dragoman.dialects.base import Upgrade, Wire
from dragoman.dialects.frames import text_frame

from .mounted import LIMIT, Named, mounted


class Fragile:
    """A link that echoes, and fails where it is told to."""

    congested = False
    joins = True

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._said: list[bytes] = []
        self.losses = 0

    def receive(self, message: str | bytes) -> None:
        if message == "fail at once":
            raise RuntimeError(message)
        self._said.append(str(message).encode())
        self._wire.wake()

    def pong(self, payload: bytes) -> None:
        """It sends no pings."""

    def pull(self) -> bytes | None:
        if b"fail when asked" in self._said:
            raise RuntimeError("a projection that cannot go on")
        return text_frame(self._said.pop(0)) if self._said else None

    def lost(self) -> None:
        self.losses += 1


class FragileDialect(Named):
    """Its links are kept."""

    def __init__(self) -> None:
        super().__init__("fragile")
        self.links: list[Fragile] = []

    async def open(self, upgrade: Upgrade, wire: Wire) -> Fragile:  # type: ignore[override]
        self.links.append(Fragile(wire))
        return self.links[-1]


@pytest.mark.parametrize("how", ["fail at once", "fail when asked"])
async def test_a_link_that_fails_is_ended_and_no_other(how: str, caplog: pytest.LogCaptureFixture) -> None:
    dialect = FragileDialect()
    with caplog.at_level(logging.ERROR, "dragoman.links"):
        async with mounted([dialect]) as served, asyncio.timeout(LIMIT):
            address = f"ws://127.0.0.1:{served.port}/fragile/ws"
            async with (
                connect(address, compression=None, proxy=None) as failing,
                connect(address, compression=None, proxy=None) as other,
            ):
                await failing.send("hello")
                assert await failing.recv() == "hello"
                for message in (how, "more", "and more"):
                    await failing.send(message)
                with pytest.raises(ConnectionClosed) as closed:
                    await failing.recv()
                assert closed.value.rcvd is not None
                assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1011, "internal error")
                await other.send("still here")
                assert await other.recv() == "still here"
        assert [link.losses for link in dialect.links] == [1, 1]
    assert [record.message for record in caplog.records] == ["a link failed and is ended"]

"""After a large frame there is a pause where frames join, and none where each is one of its own."""

from __future__ import annotations

import asyncio

import pytest
from websockets.asyncio.client import connect

from dragoman.dialects.base import Upgrade, Wire
from dragoman.dialects.frames import text_frame
from dragoman.server.pump import PumpLimits

from .mounted import LIMIT, Named, mounted

LARGE = 2000
LONG = PumpLimits(join_gap=3600.0)
"""A pause that no test outlasts."""


class TwoFrames:
    """Says something large, then something small."""

    congested = False

    def __init__(self, wire: Wire, *, joins: bool) -> None:
        self.joins = joins
        self._frames = [text_frame(b"x" * LARGE), text_frame(b"then")]
        wire.wake()

    def receive(self, message: str | bytes) -> None:
        """There is nothing to be said to it."""

    def pong(self, payload: bytes) -> None:
        """Nor is it pinged."""

    def pull(self) -> bytes | None:
        return self._frames.pop(0) if self._frames else None

    def lost(self) -> None:
        self._frames.clear()


class Joining(Named):
    """Its links' frames join, or do not."""

    def __init__(self, *, joins: bool) -> None:
        super().__init__("two")
        self._joins = joins

    async def open(self, upgrade: Upgrade, wire: Wire) -> TwoFrames:  # type: ignore[override]
        return TwoFrames(wire, joins=self._joins)


async def test_a_frame_that_joins_nothing_waits_for_nothing() -> None:
    async with (
        mounted([Joining(joins=False)], limits=LONG) as served,
        asyncio.timeout(LIMIT),
        connect(f"ws://127.0.0.1:{served.port}/two/ws", compression=None, proxy=None) as link,
    ):
        assert [len(await link.recv()), await link.recv()] == [LARGE, "then"]


async def test_a_frame_that_may_join_others_waits_behind_a_large_one() -> None:
    async with (
        mounted([Joining(joins=True)], limits=LONG) as served,
        asyncio.timeout(LIMIT),
        connect(f"ws://127.0.0.1:{served.port}/two/ws", compression=None, proxy=None) as link,
    ):
        assert len(await link.recv()) == LARGE
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await link.recv()

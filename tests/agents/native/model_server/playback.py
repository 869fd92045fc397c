"""How an answer is given in time: gates, pauses, and where the connection is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from .script import Gate, Pause, Piece


class Door:
    """One gate: a stream that reached it waits until it is opened."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    def open(self) -> None:
        """Let the stream go on."""
        self.opened.set()


class Doors:
    """The gates of a server, by name; the first who asks for one makes it."""

    def __init__(self) -> None:
        self._doors: dict[str, Door] = {}

    def __getitem__(self, name: str) -> Door:
        return self._doors.setdefault(name, Door())

    def reached(self) -> list[str]:
        """Gates at which a stream waits, or has waited."""
        return [name for name, door in self._doors.items() if door.reached.is_set()]


class ConnectionCut(Exception):
    """Here the connection is to be lost."""


class Playback:
    """One answer as it is given: counts its pieces, waits at gates."""

    def __init__(self, doors: Doors, cut_after: int | None) -> None:
        self._doors = doors
        self._left = cut_after

    async def pieces(self, pieces: tuple[Piece, ...]) -> AsyncIterator[str]:
        """The text pieces in their time. Raises ``ConnectionCut`` where the script says so."""
        for piece in pieces:
            if isinstance(piece, str):
                self._count()
                yield piece
            else:
                await self.hold(piece)

    async def whole(self, pieces: tuple[Piece, ...]) -> str:
        """All of them joined, after all waiting."""
        return "".join([piece async for piece in self.pieces(pieces)])

    async def hold(self, piece: Gate | Pause) -> None:
        """Wait as it says."""
        if isinstance(piece, Pause):
            await asyncio.sleep(piece.seconds)
            return
        door = self._doors[piece.name]
        door.reached.set()
        await door.opened.wait()

    def end(self) -> None:
        """No more pieces come. Raises ``ConnectionCut`` where the cut is still to come."""
        if self._left is not None:
            raise ConnectionCut

    def _count(self) -> None:
        if self._left is None:
            return
        if self._left == 0:
            raise ConnectionCut
        self._left -= 1

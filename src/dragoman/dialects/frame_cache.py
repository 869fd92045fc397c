"""Frames that several links share: made once, the same bytes for all."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class FrameCache(Generic[T]):
    """The newest frames by what they hold. ``T`` is what a stream needs to go on after the frame.

    Links that keep up all ask for the same one; those that lag a little, for one of a few. Bounded in number and bytes;
    the oldest go first.
    """

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._size = size
        self._frames: dict[tuple[object, ...], tuple[T, bytes]] = {}
        self._bytes = 0
        self.get = self._frames.get

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, key: tuple[object, ...], after: T, made: bytes) -> None:
        """Keep a frame. One that is larger than half of the room is not kept."""
        if len(made) * 2 > self._size or key in self._frames:
            return
        self._frames[key] = (after, made)
        self._bytes += len(made)
        while len(self._frames) > self._count or self._bytes > self._size:
            self._bytes -= len(self._frames.pop(next(iter(self._frames)))[1])

"""The newest raw bytes of a terminal, addressed by absolute offset (invariant 7)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from .stored_tape import write_stored_tape

CAPACITY = 1024 * 1024
"""Default size of a tape in bytes; also coop's ring size."""

_JOIN_BELOW = 2048
"""Chunks shorter than this are joined with their neighbours: what is left alone costs under 5 % in overhead."""

_BLOCK = 4096
"""A joined block is closed once it is this long. No byte is copied more than twice."""

_TIDY_AT = 64
"""Dead entries at the head of the chunk list before moving the rest down is worth it."""


class RingTape:
    """A tape in memory that holds exactly the newest ``capacity`` bytes.

    Chunks are kept as the immutable objects they came as, so a live reader at the newest one gets that very
    object and nothing is copied; runs of small ones are joined once they are no longer the newest. Memory is at most
    ``capacity`` plus one chunk. ``start`` is the offset of the first byte ever appended here, for a terminal that
    goes on where an earlier run ended.

    For one thread. Implements ``dragoman.hub.ports.Tape``.
    """

    __slots__ = (
        "_capacity",
        "_chunks",
        "_end",
        "_head",
        "_joining",
        "_joining_at",
        "_last",
        "_last_at",
        "_offsets",
        "_start",
    )

    def __init__(self, capacity: int = CAPACITY, start: int = 0) -> None:
        if capacity < 1 or start < 0:
            raise ValueError("a tape needs a capacity of at least 1 and a start of at least 0")
        self._capacity = capacity
        self._start = self._end = start
        # Oldest to newest: the closed chunks from _head on, the block being joined, the newest chunk as it came.
        self._chunks: list[bytes] = []
        self._offsets: list[int] = []
        self._head = 0
        self._joining = bytearray()
        self._joining_at = start
        self._last = b""
        self._last_at = start

    @property
    def capacity(self) -> int:
        """How many bytes stay readable."""
        return self._capacity

    @property
    def start(self) -> int:
        """Offset of the oldest byte still held."""
        return self._start

    @property
    def end(self) -> int:
        """Offset after the newest byte: the total ever written."""
        return self._end

    @property
    def held(self) -> int:
        """Bytes in memory: the readable ones and the unreadable front of the oldest chunk."""
        oldest = self._offsets[self._head] if self._head < len(self._offsets) else self._joining_at
        return self._end - oldest

    @property
    def pieces(self) -> int:
        """Objects those bytes lie in."""
        return len(self._chunks) - self._head + bool(self._joining) + bool(self._last)

    def append(self, chunk: bytes) -> int:
        """Add a chunk and return the offset of its first byte. An empty one changes nothing."""
        offset = self._end
        if not chunk:
            return offset
        self._retire_last()
        self._end = end = offset + len(chunk)
        self._start = max(self._start, end - self._capacity)
        self._last = chunk if len(chunk) <= self._capacity else chunk[-self._capacity :]
        self._last_at = end - len(self._last)
        self._drop_old()
        return offset

    def read(self, offset: int, limit: int | None = None) -> tuple[int, bytes]:
        """Bytes from ``offset`` on, at most ``limit``, and the offset they really start at.

        An offset before ``start`` is moved up to it. One beyond ``end`` is returned as it is, with no bytes.
        """
        if limit is not None and limit < 0:
            raise ValueError("a limit cannot be negative")
        if offset >= self._end:
            return offset, b""
        offset = max(offset, self._start)
        stop = self._end if limit is None else min(self._end, offset + limit)
        if offset >= self._last_at:
            return offset, self._last[offset - self._last_at : stop - self._last_at]
        return offset, b"".join(self._between(offset, stop))

    def save(self, path: Path) -> None:
        """Write the tape to a file that ``StoredTape.open`` reads; see ``write_stored_tape``.

        Blocks on the disk: call it in a worker thread, once nothing is appended any more. Raises ``OSError``.
        """
        write_stored_tape(path, *self.read(self._start))

    def _retire_last(self) -> None:
        """Take the newest chunk into the body of the tape before another takes its place."""
        if len(self._last) < _JOIN_BELOW:
            self._joining += self._last
            if len(self._joining) >= _BLOCK:
                self._close_block()
            return
        self._close_block()
        self._push(self._last_at, self._last)
        self._joining_at = self._last_at + len(self._last)

    def _close_block(self) -> None:
        if not self._joining:
            return
        self._push(self._joining_at, bytes(self._joining))
        self._joining_at += len(self._joining)
        self._joining = bytearray()

    def _push(self, offset: int, chunk: bytes) -> None:
        self._offsets.append(offset)
        self._chunks.append(chunk)

    def _drop_old(self) -> None:
        start = self._start
        chunks, offsets, head = self._chunks, self._offsets, self._head
        while head < len(chunks) and offsets[head] + len(chunks[head]) <= start:
            chunks[head] = b""
            head += 1
        if head == len(chunks) and self._joining_at < start:
            # A tape smaller than a block, or a chunk that pushed everything else out.
            del self._joining[: start - self._joining_at]
            self._joining_at = start
        if head > _TIDY_AT and head * 2 > len(chunks):
            del chunks[:head], offsets[:head]
            head = 0
        self._head = head

    def _between(self, offset: int, stop: int) -> Iterator[bytes | bytearray]:
        """What lies in ``[offset, stop)``; whole chunks are the stored objects themselves."""
        first = max(bisect_right(self._offsets, offset, lo=self._head) - 1, self._head)
        for index in range(first, len(self._chunks)):
            at = self._offsets[index]
            if at >= stop:
                return
            yield self._chunks[index][max(0, offset - at) : stop - at]
        at = self._joining_at
        if self._joining and at < stop:
            yield self._joining[max(0, offset - at) : stop - at]
        if self._last_at < stop:
            yield self._last[: stop - self._last_at]

"""An independent checker of stream offsets: it joins what one client saw and says what does not fit."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

Span = tuple[int, int]


@dataclass
class OffsetOracle:
    """Everything one link learned about the byte stream, joined by absolute offset.

    ``gaps`` and ``overlaps`` concern the pushed chunks alone: where one began after, or before, the end of the one
    before it. ``conflicts`` are offsets at which two chunks, or a chunk and ``truth``, disagree about the bytes:
    a stale or misplaced chunk. A replay may repeat bytes, so it can only conflict.

    ``truth`` is what the program wrote from offset ``base`` on, when the test knows it.
    """

    truth: bytes | None = None
    base: int = 0
    gaps: list[Span] = field(default_factory=list)
    overlaps: list[Span] = field(default_factory=list)
    conflicts: list[Span] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    cursor: int | None = None
    _bytes: bytearray = field(default_factory=bytearray)

    def take(self, frame: dict[str, Any]) -> None:
        """Look at any server message; only ``output`` and ``replay_result`` matter."""
        if frame["event"] == "output":
            self.pushed(frame["offset"], base64.b64decode(frame["data"], validate=True))
        elif frame["event"] == "replay_result":
            self.learn(frame["offset"], base64.b64decode(frame["data"], validate=True))

    def pushed(self, offset: int, data: bytes) -> None:
        """A live chunk: it must start where the last one ended."""
        end = offset + len(data)
        if self.cursor is not None and offset > self.cursor:
            self.gaps.append((self.cursor, offset))
        elif self.cursor is not None and offset < self.cursor:
            self.overlaps.append((offset, min(self.cursor, end)))
        self.cursor = max(end, self.cursor or 0)
        self.learn(offset, data)

    def learn(self, offset: int, data: bytes) -> None:
        """Bytes at an offset, whatever brought them."""
        end = offset + len(data)
        if not data:
            return
        for first, last in self.spans:
            common = max(first, offset), min(last, end)
            if common[0] < common[1] and self._bytes[slice(*common)] != data[common[0] - offset : common[1] - offset]:
                self.conflicts.append(common)
        if self.truth is not None:
            known = max(offset, self.base), end
            told = self.truth[known[0] - self.base : known[1] - self.base]
            if known[0] < known[1] and told != data[known[0] - offset :]:
                self.conflicts.append(known)
        if len(self._bytes) < end:
            self._bytes.extend(bytes(end - len(self._bytes)))
        self._bytes[offset:end] = data
        self._cover(offset, end)

    def joined(self, start: int, end: int) -> bytes:
        """The bytes from ``start`` to ``end``. Raises ``AssertionError`` if any of them was never seen."""
        whole = any(first <= start and end <= last for first, last in self.spans) or start == end
        assert whole, f"wanted {start}..{end}, seen {self.spans}, gaps {self.gaps}"
        return bytes(self._bytes[start:end])

    @property
    def end(self) -> int:
        """The offset after the last byte seen."""
        return len(self._bytes)

    def _cover(self, start: int, end: int) -> None:
        apart = [span for span in self.spans if span[1] < start or span[0] > end]
        touching = [span for span in self.spans if span not in apart]
        apart.append((min([start, *(s for s, _ in touching)]), max([end, *(e for _, e in touching)])))
        self.spans = sorted(apart)

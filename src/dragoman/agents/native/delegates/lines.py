"""What a program says, put together to lines."""

from __future__ import annotations

from collections import deque


class Lines:
    """Lines of at most ``longest`` bytes; longer ones are left out, and counted. Empty ones are nothing."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._whole: deque[bytes] = deque()
        self._piece = bytearray()
        self._too_long = False
        self.skipped = 0
        """Lines left out because they were too long."""

    def __bool__(self) -> bool:
        return bool(self._whole)

    def pop(self) -> bytes:
        """The next whole line, without its end."""
        return self._whole.popleft()

    def take(self, data: bytes) -> None:
        """Take in what was said next."""
        first, *rest = data.split(b"\n")
        self._piece += first
        for piece in rest:
            self._complete()
            self._piece += piece
        if len(self._piece) > self._longest:
            self._too_long = True
            self._piece.clear()

    def end(self) -> None:
        """Nothing more is said; the last line may lack its end."""
        if self._piece or self._too_long:
            self._complete()

    def _complete(self) -> None:
        if self._too_long or len(self._piece) > self._longest:
            self.skipped += 1
        elif line := bytes(self._piece).strip():
            self._whole.append(line)
        self._too_long = False
        self._piece.clear()

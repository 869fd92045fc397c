"""What a command said on one stream, as text of bounded length."""

from __future__ import annotations

import codecs
from collections import deque

SHOWN = 4_000
"""Characters of the newest output that are shown at a time while a command runs."""

_NUL = "\u2400"
"""Stands for a NUL, which ends the text in some places that it is brought to."""


class Output:
    """Whole characters out of a stream that is cut anywhere. Of a long text the beginning and the end are kept.

    ``most`` is how many characters ``text`` gives at most. Bytes that are not UTF-8 become U+FFFD, NULs U+2400.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._start = ""
        self._newest = _Newest(most)
        self._unseen = _Newest(SHOWN)
        self._length = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._add(self._decoder.decode(data))

    def finish(self) -> None:
        """Nothing more comes: a character that is not complete by now never will be."""
        self._add(self._decoder.decode(b"", True))

    def unseen(self) -> str:
        """What came since the last call; of very much the end."""
        text, self._unseen = self._unseen, _Newest(SHOWN)
        return text.last(SHOWN, "[{} characters left out]\n")

    def text(self, spare: int = 0) -> str:
        """All of it, in at most ``most`` characters less ``spare``; what is left out of the middle is named."""
        room = self._most - spare
        forgotten = self._length - len(self._start) - self._newest.kept
        if not forgotten and self._length <= room:
            return self._start + self._newest.text()
        room -= len(_gap(self._length))
        front = room // 2
        kept = self._newest.text() if forgotten else self._start + self._newest.text()
        start = self._start if forgotten else kept
        return start[:front] + _gap(self._length - room) + kept[len(kept) - (room - front) :]

    def _add(self, text: str) -> None:
        if not text:
            return
        text = text.replace("\0", _NUL)
        self._length += len(text)
        self._unseen.add(text)
        fits = self._most - len(self._start)
        self._start += text[:fits]
        if text[fits:]:
            self._newest.add(text[fits:])


def _gap(missing: int) -> str:
    return f"\n[{missing} characters left out]\n"


class _Newest:
    """The end of a text: at least its last ``most`` characters, and not much more."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: deque[str] = deque()
        self._dropped = 0
        self.kept = 0

    def add(self, text: str) -> None:
        self._pieces.append(text)
        self.kept += len(text)
        while self.kept - len(self._pieces[0]) >= self._most:
            first = len(self._pieces.popleft())
            self.kept -= first
            self._dropped += first

    def text(self) -> str:
        return "".join(self._pieces)

    def last(self, most: int, gap: str) -> str:
        """Its last characters, after a word on how many are missing, if any are."""
        text = self.text()
        missing = self._dropped + max(len(text) - most, 0)
        return text if not missing else gap.format(missing) + text[-most:]

"""What happened once, however many ways tell of it.

Calls and messages are the ledger's business (``agents.common.ledger``). Here is all else: starts, stops, ends, notices.
Each source is believed to tell a thing once: what it tells a second time is a second thing.
"""

from __future__ import annotations

from collections import deque

SAME_SECONDS = 60.0
"""For which what one source has told may still be told by another: files are read later than posts arrive."""

KEPT = 64
"""Of one kind that are remembered."""

KINDS = 256
"""Kinds that are remembered; notices are of as many kinds as they have texts."""


class _One:
    def __init__(self, at: float, source: str, words: str | None) -> None:
        self.at = at
        self.told_by = {source}
        self.words = words


class Occurrences:
    """Of one session. Times are those of a clock that never runs backwards, in seconds."""

    def __init__(self) -> None:
        self._known: dict[str, deque[_One]] = {}

    def news(self, kind: str, source: str, now: float, words: str | None = None) -> bool:
        """Whether this is the first that is told of it. ``words`` tell two of a kind apart where both have some."""
        known = self._known.pop(kind, None) or deque(maxlen=KEPT)
        self._known[kind] = known
        if len(self._known) > KINDS:
            del self._known[next(iter(self._known))]
        while known and now - known[0].at > SAME_SECONDS:
            known.popleft()
        for one in known:
            if source not in one.told_by and (words is None or one.words is None or words == one.words):
                one.told_by.add(source)
                one.words = one.words or words
                return False
        known.append(_One(now, source, words))
        return True

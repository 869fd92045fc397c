"""Events that were: the newest of all sessions at hand, everything else from the disk (seed: Request History).

What is read again is told as it was told live: with the same ids, oldest first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from dragoman.hub.events import Event
from dragoman.hub.permissions import LOCAL
from dragoman.hub.registry import Registry

from .frames import encode
from .projection import TOLD_TAGS, Story, story_of_row
from .settings import CinSettings

LOOK_BACK = 3
"""Facts read for each event that is wanted: many only say what an event leans on."""

MOST_FACTS = 20_000
"""Facts that one request may read."""


Past = tuple[str, int, bytes]
"""Session, seq, the event as JSON."""


class History:
    """Kept up to date by ``told`` while the feed runs; ``begin`` reads what was before."""

    def __init__(self, registry: Registry, settings: CinSettings) -> None:
        self._registry = registry
        self._settings = settings
        self._kept: deque[Past] = deque()
        self._bytes = 0
        self._whole = False
        self.begun = False

    def __len__(self) -> int:
        return len(self._kept)

    def told(self, session: str, seq: int, event: bytes) -> None:
        """An event is told to everybody."""
        self._kept.append((session, seq, event))
        self._bytes += len(event)
        self._trim()

    async def begin(self) -> None:
        """Fetch the newest events from before the feed ran; those told meanwhile stay behind them."""
        read = await self._read(self._settings.history_events, None)
        known = {(session, seq) for session, seq, _ in self._kept}
        self._whole = len(read) < self._settings.history_events
        for one in reversed(read):
            if one[:2] not in known:
                self._kept.appendleft(one)
                self._bytes += len(one[2])
        self._trim()
        self.begun = True

    def end(self) -> None:
        """Nobody keeps it up to date any more."""
        self._kept.clear()
        self._bytes, self.begun = 0, False

    def at_hand(self, limit: int, sessions: Iterable[str] | None = None) -> list[bytes]:
        """The newest events of these sessions among those at hand, oldest first."""
        wanted = None if sessions is None else set(sessions)
        found: list[bytes] = []
        for session, _, event in reversed(self._kept):
            if len(found) == limit:
                break
            if wanted is None or session in wanted:
                found.append(event)
        found.reverse()
        return found

    async def page(self, limit: int, session: str | None = None) -> list[bytes]:
        """The newest events, of one session or of all, oldest first; no more than ``history_bytes``."""
        if limit <= 0:
            return []
        limit = min(limit, self._settings.history_events)
        chosen = None if session is None else (session,)
        if self.begun:
            found = self.at_hand(limit, chosen)
            if len(found) == limit or self._whole:
                return found
        read = await self._read(limit, chosen)
        return [event for _, _, event in self._bounded(read)]

    def _bounded(self, events: list[Past]) -> list[Past]:
        size, first = 0, len(events)
        while first and size + len(events[first - 1][2]) <= self._settings.history_bytes:
            first -= 1
            size += len(events[first][2])
        return events[first:]

    async def _read(self, limit: int, sessions: Sequence[str] | None) -> list[Past]:
        """The newest events from the disk, as far back as it takes."""
        facts = min(limit * LOOK_BACK, MOST_FACTS)
        while True:
            placed = await self._registry.journal.newest(facts, sessions, facts=TOLD_TAGS)
            told = self._tell(placed)
            if len(told) >= limit or len(placed) < facts or facts >= MOST_FACTS:
                return told[-limit:]
            facts = min(facts * 2, MOST_FACTS)

    def _tell(self, placed: Iterable[tuple[str, Event]]) -> list[Past]:
        rows = {row.session: row for row in self._registry.rows(LOCAL)}
        stories: dict[str, Story] = {}
        told: list[Past] = []
        for session, event in placed:
            row = rows.get(session)
            if row is None:
                continue  # dropped meanwhile
            story = stories.get(session)
            if story is None:
                story = stories[session] = story_of_row(row)
            made = story.tell(event)
            if made is not None:
                told.append((session, event.seq, encode(made)))
        return told

    def _trim(self) -> None:
        kept, settings = self._kept, self._settings
        while len(kept) > settings.history_events or (self._bytes > settings.history_bytes and kept):
            self._bytes -= len(kept.popleft()[2])
            self._whole = False

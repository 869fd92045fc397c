"""Watching the list of sessions: one message per session that changed, the newest state of each."""

from __future__ import annotations

from dragoman.dialects.frame_cache import FrameCache
from dragoman.dialects.frames import text_frame
from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import Principal

from .bodies import ListQuery
from .frames import encode
from .replies import Rows
from .ring import Ring, Stream
from .views import show_row


def list_rows(rows: list[SessionRow], query: ListQuery, most: int) -> Rows:
    """The rows that the query asks for; of too many the newest."""
    wanted = [row for row in rows if _matches(row, query)]
    limit = min(query.limit or most, most)
    return Rows(sessions=tuple(map(show_row, wanted[-limit:])), has_more=len(wanted) > limit)


def _matches(row: SessionRow, query: ListQuery) -> bool:
    return query.status in (None, row.status) and query.kind in (None, row.kind)


class RowStream(Stream):
    """The changed rows that a link has not been told of yet: at most one per session."""

    __slots__ = ("_changed", "_frames", "_principal")

    def __init__(self, ring: Ring, principal: Principal, frames: RowFrames) -> None:
        super().__init__(ring)
        self._principal = principal
        self._frames = frames
        self._changed: dict[str, SessionRow] = {}

    def changed(self, row: SessionRow) -> None:
        """A row is new; one that waits for its turn is replaced."""
        if self._principal.may_see(row.session):
            self._changed[row.session] = row
            self.ready()

    def pull(self) -> bytes | None:
        if not self._changed:
            return None
        return self._frames.frame(self._changed.pop(next(iter(self._changed))))


class RowFrames:
    """``session`` messages, made once for all links that watch."""

    def __init__(self, count: int, size: int) -> None:
        self._cache: FrameCache[None] = FrameCache(count, size)

    def frame(self, row: SessionRow) -> bytes:
        """The message that tells of this row."""
        key = (row.session, row.head, row.dropped_at)
        known = self._cache.get(key)
        if known is not None:
            return known[1]
        made = text_frame(b'{"type":"session",%b' % encode(show_row(row))[1:])
        self._cache.put(key, None, made)
        return made

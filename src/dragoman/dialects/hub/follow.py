"""Following a session's log: batches of events as shared frames, from memory or, when far behind, from the journal."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from dragoman.dialects.frame_cache import FrameCache
from dragoman.hub.errors import Gone as LogGone
from dragoman.hub.errors import HubError
from dragoman.hub.session import Session
from dragoman.hub.tasks import TaskOwner

from .errors import INTERNAL, Problem, problem_of
from .frames import events_frame, frame, stream_error
from .replies import Gone
from .ring import Ring, Stream
from .settings import HubDialectSettings

log = logging.getLogger("dragoman.links")

FIRST_FETCH = 16
"""Events of a first read from the journal, before it is known how large this session's events are."""


class EventStream(Stream):
    """One followed session of one link. ``over`` is called when the log is gone or cannot be read."""

    __slots__ = (
        "_cache",
        "_coalesce",
        "_fetched",
        "_fetches",
        "_follower",
        "_limit",
        "_lost",
        "_over",
        "_stop",
        "session",
        "waiting",
    )

    def __init__(
        self,
        ring: Ring,
        session: Session,
        after: int,
        *,
        coalesce: bool,
        cache: FrameCache[int],
        fetches: Fetches,
        over: Callable[[EventStream], None],
    ) -> None:
        """Raises ``InvalidRequest`` for a cursor beyond the log."""
        super().__init__(ring)
        self.session = session
        self.waiting = False
        self._follower = session.follow(after)
        self._coalesce = coalesce
        self._cache = cache
        self._fetches = fetches
        self._limit = FIRST_FETCH
        self._fetched: bytes | None = None
        self._lost: bytes | None = None
        self._over = over
        self._stop = session.watch(self.ready)

    def pull(self) -> bytes | None:
        if self.waiting:
            return self._take_fetched()
        follower, session = self._follower, self.session
        cursor, head = follower.cursor, session.shown.seq
        if cursor >= head:
            return self._farewell()
        key = (session.id, cursor, head, self._coalesce)
        known = self._cache.get(key)
        if known is not None:
            follower.cursor = known[0]
            return known[1]
        events = follower.take()
        if events is None:
            return self._from_journal()
        follower.cursor, made = events_frame(session.id, events, self._fetches.frame_bytes, coalesce=self._coalesce)
        self._cache.put(key, follower.cursor, made)
        return made

    def _from_journal(self) -> bytes | None:
        if self._lost is not None:
            return self._farewell()
        self._fetches.ask(self)
        return None

    def dropped(self) -> None:
        """The session's log is gone: send what memory still holds, then say so."""
        self._lost = frame(Gone(self.session.id, "events"))
        self.ready()

    def end(self) -> None:
        if self.ended:
            return
        super().end()
        self._stop()
        self._fetches.release(self)

    async def fetch(self) -> None:
        """Read a batch from the journal and make its frame. Its size follows from what the last one weighed."""
        try:
            events = await self._follower.fetch(self._limit)
        except LogGone:
            self._lose(frame(Gone(self.session.id, "events")))
            return
        except HubError as error:
            self.fail(problem_of(error))
            return
        if not events:
            self._fetches.release(self)
            return
        size = self._fetches.frame_bytes
        last, made = events_frame(self.session.id, events, size, coalesce=self._coalesce)
        self._follower.cursor = last
        count = last - events[0].seq + 1
        self._limit = max(1, min(self.session.limits.read_batch, 2 * self._limit, 1 + size * count // len(made)))
        self._fetched = made

    def fail(self, problem: Problem) -> None:
        """The journal cannot be read: say so, and that nothing more comes here."""
        self._lose(stream_error(problem, session=self.session.id, stream="events"))

    def _take_fetched(self) -> bytes | None:
        made, self._fetched = self._fetched, None
        if made is not None:
            self._fetches.release(self)
        return made

    def _lose(self, last_words: bytes) -> None:
        self._lost = last_words
        self._fetches.release(self)
        self.ready()

    def _farewell(self) -> bytes | None:
        if self._lost is not None:
            self.end()
            self._over(self)
        return self._lost


class Fetches:
    """A link's reads from the journal: few at a time, and none while its frames of the last ones are not sent."""

    def __init__(self, tasks: TaskOwner, settings: HubDialectSettings) -> None:
        self.frame_bytes = settings.events_frame
        self._tasks = tasks
        self._slots = settings.fetches
        self._holding: set[EventStream] = set()
        self._asking: deque[EventStream] = deque()

    def ask(self, stream: EventStream) -> None:
        """Read for this stream as soon as a slot is free."""
        stream.waiting = True
        if len(self._holding) < self._slots:
            self._begin(stream)
        else:
            self._asking.append(stream)

    def release(self, stream: EventStream) -> None:
        """What was read for this stream is on its way (or not wanted any more)."""
        stream.waiting = False
        if stream in self._asking:
            self._asking.remove(stream)
        self._holding.discard(stream)
        while self._asking and len(self._holding) < self._slots:
            self._begin(self._asking.popleft())

    def _begin(self, stream: EventStream) -> None:
        self._holding.add(stream)
        self._tasks.start(self._run(stream), f"fetch:{stream.session.id}")

    async def _run(self, stream: EventStream) -> None:
        try:
            if not stream.ended:
                await stream.fetch()
        except Exception:
            log.exception("session %s cannot be read", stream.session.id)
            stream.fail(INTERNAL)
        stream.ready()

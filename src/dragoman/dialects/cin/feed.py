"""What every link is told, made once: frames in one order for all, bounded in bytes, each link with its place in it.

The feed sees every event of every session as it becomes durable, and says what follows from it in one step: that the
session was made or changed, what it asks, the event itself. It runs while there is a link.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from dragoman.hub.events import (
    AnyFact,
    DecisionOpened,
    DecisionResolved,
    DecisionRevised,
    Event,
    SessionClosed,
    SessionCreated,
    UsageReported,
)
from dragoman.hub.journal import SessionRow
from dragoman.hub.log import SessionLog
from dragoman.hub.permissions import LOCAL
from dragoman.hub.registry import Registry

from . import messages as wire
from .answers import asked_now, is_elsewhere, number_of
from .asking import prompt_of
from .cards import GitOf, card, differs, status_of
from .frames import Frames, encode
from .projection import Story, story_of_state
from .settings import CinSettings
from .tokens import TokenCounts

KEPT_DELETED = 1000
"""Sessions that are gone, for links that have not been told yet."""


class Asked(NamedTuple):
    """What a session asks from here on; None: nothing any more."""

    session: str
    decision: str | None


class Entry(NamedTuple):
    """Frames that leave together. ``event`` is the frame of the event among them, ``seq`` its place in the session's
    log (0: the entry is of no log); ``kind`` and ``session`` are what a subscription asks for."""

    before: bytes
    event: bytes
    session: str = ""
    seq: int = 0
    kind: str = ""
    asked: Asked | None = None


class Reader(Protocol):
    """A link, as the feed knows it. ``place`` is that of the next entry it is to be told."""

    @property
    def place(self) -> int: ...
    def fall_behind(self, cursors: dict[str, int]) -> None:
        """What it has not been told is let go; ``cursors`` say how far in each session it has come."""


Told = Callable[[str, int, bytes], None]
"""Takes each event that was told: session, seq, the event as JSON."""


class Feed:
    """See the module. ``place`` numbers entries from the start of the feed; ``end`` is that of the next one."""

    def __init__(self, registry: Registry, frames: Frames, settings: CinSettings, *, git_of: GitOf, told: Told) -> None:
        self._registry = registry
        self._frames = frames
        self._settings = settings
        self._git_of = git_of
        self._told = told
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self.start = 0
        self.rows: dict[str, SessionRow] = {}
        self.heads: dict[str, int] = {}
        self.asked: dict[str, str] = {}
        """Session -> the decision that its clients are shown."""
        self.newest = ""
        """The session of the newest event."""
        self.deleted: dict[str, SessionRow] = {}
        """Sessions that went while the feed ran, as they last were."""
        self.tokens = TokenCounts()
        self._stories: dict[str, Story] = {}
        self._links: dict[Reader, Callable[[], None]] = {}
        self._waking = False
        self._listing: asyncio.TimerHandle | None = None
        self._resolving: DecisionOpened | None = None
        """What the outcome that is being told is of."""
        self._last_asked = -1
        """The newest entry that asks something."""
        self._joined: tuple[int, int, bytes, int] = (0, 0, b"", 0)
        """Place, the place behind, the frames, and where the feed ended when they were joined."""
        self._stop: Callable[[], None] | None = None

    # Life

    @property
    def running(self) -> bool:
        return self._stop is not None

    def run(self) -> None:
        """See everything from now on."""
        rows = self._registry.rows(LOCAL)
        self.rows = {row.session: row for row in rows if row.status != "closed"}
        self.heads = {row.session: row.head for row in rows}
        newest = max(self.rows.values(), key=lambda row: row.active_at, default=None)
        self.newest = newest.session if newest is not None else ""
        for session in self._registry.live():
            self._ask_first(session)
        self._stop = self._registry.witness(self)

    def rest(self) -> None:
        """Nobody is told any more: forget it all."""
        if self._stop is not None:
            self._stop()
            self._stop = None
        if self._listing is not None:
            self._listing.cancel()
            self._listing = None
        self.start += len(self._entries)
        self._entries.clear()
        self._bytes = 0
        self._stories.clear()
        self.asked.clear()
        self.deleted.clear()

    def _ask_first(self, session: SessionLog) -> None:
        opened = asked_now(session.shown.decisions)
        if opened is not None:
            self.asked[session.id] = opened.decision

    # For links

    @property
    def end(self) -> int:
        return self.start + len(self._entries)

    def add(self, link: Reader, wake: Callable[[], None]) -> None:
        """Wake this link whenever there is more."""
        self._links[link] = wake

    def remove(self, link: Reader) -> None:
        self._links.pop(link, None)

    def at(self, place: int) -> Entry:
        """The entry there. It must not have been let go."""
        return self._entries[place - self.start]

    def asks_after(self, place: int) -> bool:
        """Whether something is asked, or no longer asked, from there on."""
        return self._last_asked >= place

    def joined(self, place: int, size: int) -> tuple[bytes, int]:
        """Frames from there on, about ``size`` bytes, and the place behind them.

        The same bytes for all links that have come as far.
        """
        end = self.end
        if self._joined[0] == place and self._joined[1] <= end and self._joined[3] == end:
            return self._joined[2], self._joined[1]
        parts: list[bytes] = []
        at, taken = place, 0
        while at < end and taken < size:
            entry = self._entries[at - self.start]
            parts += entry[:2]
            taken += len(entry.before) + len(entry.event)
            at += 1
        frames = b"".join(parts)
        self._joined = (place, at, frames, end)
        return frames, at

    def cursors_at(self, place: int) -> dict[str, int]:
        """For every session the seq up to which a link at ``place`` has been told."""
        cursors = dict(self.heads)
        seen: set[str] = set()
        for at in range(place - self.start, len(self._entries)):
            entry = self._entries[at]
            if entry.seq and entry.session not in seen:
                seen.add(entry.session)
                cursors[entry.session] = entry.seq - 1
        return cursors

    def cards(self) -> list[bytes]:
        """Every session now, oldest first."""
        return [encode(card(row, self._git_of)) for row in self.rows.values()]

    def card(self, session: str) -> wire.Session:
        return card(self.rows[session], self._git_of)

    # What is told

    def before(self, session: SessionLog, event: Event) -> None:
        """See ``hub.log.Witness``."""
        if isinstance(event.fact, DecisionResolved):
            self._resolving = session.shown.decisions.get(event.fact.decision)
        if session.id not in self._stories:
            self._stories[session.id] = story_of_state(session.shown)

    def after(self, session: SessionLog, event: Event) -> None:
        """See ``hub.log.Witness``."""
        fact, name = event.fact, session.id
        self.heads[name] = event.seq
        if isinstance(fact, SessionCreated):
            self._stories[name] = story_of_state(session.shown)
        told = self._stories[name].tell(event)
        kind, body = "", b""
        if told is not None:
            kind, body = told.__struct_config__.tag, encode(told)  # type: ignore[assignment]
            self.newest = name
        before, asked = self._changes(session, event)
        if told is None and not before:
            return
        if told is not None:
            self._told(name, event.seq, body)
        self._put(Entry(before, self._frames.event(body) if body else b"", name, event.seq, str(kind), asked))

    def committed(self) -> None:
        """See ``hub.log.Witness``."""
        self._wake_soon()

    def announce(self, name: str, data: object) -> None:
        """Tell all links of something that is in no log."""
        self._put(Entry(self._frames.extension(name, data), b""))
        self._wake_soon()

    def relay(self, frame: bytes) -> None:
        """Hand a client's message on."""
        self._put(Entry(frame, b""))
        self._wake_soon()

    def refreshed(self, session: str) -> None:
        """Something that its card shows and no log holds is new: its folder's git status."""
        if session in self.rows:
            changed = self.card(session)
            before = self._frames.plain("session:updated", encode(changed))
            if changed.git_status is not None:
                status = wire.FolderStatus(session_id=session, status=changed.git_status)
                before += self._frames.plain("cin:git_status", encode(status))
            self._put(Entry(before, b"", session))
            self._list_soon()
            self._wake_soon()

    def list_frame(self) -> bytes:
        """The legacy list of all sessions."""
        return self._frames.plain("sessions", b"[%b]" % b",".join(self.cards()))

    # Inside

    def _changes(self, session: SessionLog, event: Event) -> tuple[bytes, Asked | None]:
        """The frames that go before the event, and what the session asks from here on, where that changes."""
        fact, name = event.fact, session.id
        row, old = session.row(), self.rows.get(name)
        if isinstance(fact, SessionClosed):
            return self._deleted(name, row), self._no_longer_asked(name)
        self.rows[name] = row
        frames, asked = b"", None
        if old is None:
            frames = self._session("session:created", name, at_once=True)
        elif status_of(old) != status_of(row):
            frames = self._session("session:status", name)
        elif differs(old, row):
            frames = self._session("session:updated", name)
        if isinstance(fact, DecisionOpened | DecisionRevised | DecisionResolved):
            more, asked = self._asks(session, fact)
            frames += more
        elif isinstance(fact, UsageReported) and self.tokens.add(name, fact):
            frames += self._frames.extension("tokens", self.tokens.of(name))
        return frames, asked

    def _session(self, kind: str, name: str, *, at_once: bool = False) -> bytes:
        frames = self._frames.plain(kind, encode(self.card(name)))
        if self._frames.twins:
            if at_once:
                return frames + self.list_frame()
            self._list_soon()
        return frames

    def _deleted(self, name: str, row: SessionRow) -> bytes:
        """The last Session object, with the state that it had."""
        last = self.rows.pop(name, row)
        self._keep_deleted(last)
        self._stories.pop(name, None)
        self.tokens.forget(name)
        frames = self._frames.plain("session:deleted", encode(card(last, self._git_of)))
        return frames + self.list_frame() if self._frames.twins else frames

    def _keep_deleted(self, row: SessionRow) -> None:
        self.deleted[row.session] = row
        if len(self.deleted) > KEPT_DELETED:
            del self.deleted[next(iter(self.deleted))]

    def _asks(
        self, session: SessionLog, fact: DecisionOpened | DecisionRevised | DecisionResolved
    ) -> tuple[bytes, Asked | None]:
        """Clients are shown one decision of a session at a time (invariant 4): answers may name none."""
        name, shown = session.id, self.asked.get(session.id)
        if isinstance(fact, DecisionResolved):
            if shown != fact.decision:
                return b"", None
            frames = self._frames.resolved(_resolved(name, fact, self._resolving))
            self.asked.pop(name)
            more, asked = self._next(session, fact)
            return frames + more, asked or Asked(name, None)
        before = session.shown.decisions.get(shown or "")
        if shown not in (None, fact.decision) and (before is None or not is_elsewhere(before)):
            return b"", None
        return self._next(session, fact)

    def _next(self, session: SessionLog, fact: AnyFact) -> tuple[bytes, Asked | None]:
        opened = asked_now(session.shown.decisions)
        if opened is None:
            return b"", None
        if self.asked.get(session.id) == opened.decision and not isinstance(fact, DecisionRevised):
            return b"", None
        self.asked[session.id] = opened.decision
        return self._frames.prompt(prompt_of(session.id, opened)), Asked(session.id, opened.decision)

    def _no_longer_asked(self, name: str) -> Asked | None:
        return Asked(name, None) if self.asked.pop(name, None) is not None else None

    def _put(self, entry: Entry) -> None:
        if entry.asked is not None:
            self._last_asked = self.end
        self._entries.append(entry)
        self._bytes += len(entry.before) + len(entry.event)
        if self._bytes > self._settings.feed_bytes:
            self._let_go()

    def _let_go(self) -> None:
        """Of the oldest quarter; who has not come past it is told the rest from the disk."""
        keep = self._settings.feed_bytes * 3 // 4
        count, size = 0, self._bytes
        for entry in self._entries:
            if size <= keep or count == len(self._entries) - 1:
                break
            size -= len(entry.before) + len(entry.event)
            count += 1
        first = self.start + count
        for link in tuple(self._links):
            if link.place < first:
                link.fall_behind(self.cursors_at(link.place))
        for _ in range(count):
            self._entries.popleft()
        self.start, self._bytes = first, size

    def _list_soon(self) -> None:
        if self._frames.twins and self._listing is None:
            self._listing = asyncio.get_running_loop().call_later(self._settings.list_seconds, self._list)

    def _list(self) -> None:
        self._listing = None
        self._put(Entry(self.list_frame(), b""))
        self._wake_soon()

    def _wake_soon(self) -> None:
        if not self._waking:
            self._waking = True
            asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._waking = False
        for wake in tuple(self._links.values()):
            wake()


def _resolved(session: str, fact: DecisionResolved, opened: DecisionOpened | None) -> wire.PermissionResolved:
    number = None if opened is None or fact.answer is None else number_of(opened, fact.answer)
    return wire.PermissionResolved(session_id=session, decision_id=fact.decision, response=number)

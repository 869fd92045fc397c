"""Terminal streams: raw output as binary frames, with what concerns it in between, in order.

A binary frame of the server is u32 handle, u64 offset (both big-endian), bytes. The handle stands for the session and
is the same for every link of this server process, so that a frame is made once for all links at that offset. A client's
is u32 handle, bytes: raw input.

One ``Feed`` per attached session listens to the terminal and to the log; each link's ``OutputStream`` is an offset.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Collection

import msgspec

from dragoman.dialects.frame_cache import FrameCache
from dragoman.dialects.frames import binary_frame
from dragoman.hub.errors import HubError
from dragoman.hub.events import AgentExited, AgentStarted, Event
from dragoman.hub.ports import Terminal
from dragoman.hub.session import Session

from .errors import INTERNAL, problem_of
from .frames import frame, stream_error
from .replies import Ended, Gone, Resized, Skipped, Started
from .ring import Ring, Stream
from .settings import HubDialectSettings

_HEADER = struct.Struct("!IQ")
_HANDLE = struct.Struct("!I")


def raw_input(message: bytes) -> tuple[int, bytes] | None:
    """Handle and bytes of a client's binary message; None when it is too short to be one."""
    if len(message) < _HANDLE.size:
        return None
    return _HANDLE.unpack_from(message)[0], message[_HANDLE.size :]


class Mark(msgspec.Struct, frozen=True):
    """A message that belongs behind the bytes up to ``offset``."""

    offset: int
    frame: bytes


class OutputStream(Stream):
    """One attached terminal of one link. ``over`` is called when its tape cannot be read any more."""

    __slots__ = ("_feed", "_last_words", "_marks", "_over", "offset")

    def __init__(self, ring: Ring, feed: Feed, offset: int, *, over: Callable[[OutputStream], None]) -> None:
        super().__init__(ring)
        self.offset = offset
        self._feed = feed
        self._marks: deque[Mark] = deque(maxlen=feed.settings.marks)
        self._last_words: bytes | None = None
        self._over = over
        feed.add(self)

    @property
    def session(self) -> Session:
        return self._feed.session

    @property
    def handle(self) -> int:
        return self._feed.handle

    def pull(self) -> bytes | None:
        feed = self._feed
        end, offset = feed.terminal.tape.end, self.offset
        if self._marks:
            if self._marks[0].offset <= offset:
                return self._marks.popleft().frame
            end = min(end, self._marks[0].offset)
        if offset >= end:
            return None if self._last_words is None else self._fail(self._last_words)
        end = min(end, offset + feed.settings.terminal_frame)
        known = feed.cache.get((feed.handle, offset, end))
        if known is not None:
            self.offset = end
            return known[1]
        return self._read(offset, end)

    def put(self, mark: Mark) -> None:
        """Say this behind the bytes up to the mark. Of very many that wait, the oldest go."""
        self._marks.append(mark)
        self.ready()

    def dropped(self) -> None:
        """The session is gone, and its terminal with it: send what is held, then say so."""
        self._last_words = frame(Gone(self.session.id, "output"))
        self.ready()

    def end(self) -> None:
        if not self.ended:
            super().end()
            self._feed.remove(self)

    def _read(self, offset: int, end: int) -> bytes:
        feed = self._feed
        tape = feed.terminal.tape
        if tape.start > offset:
            self.offset = tape.start
            return frame(Skipped(session=feed.session.id, from_=offset, to=tape.start))
        try:
            data = tape.read(offset, end - offset)[1]
        except (HubError, OSError) as error:
            problem = problem_of(error) if isinstance(error, HubError) else INTERNAL
            return self._fail(stream_error(problem, session=feed.session.id, stream="output"))
        made = binary_frame(_HEADER.pack(feed.handle, offset), data)
        self.offset = end
        feed.cache.put((feed.handle, offset, end), None, made)
        return made

    def _fail(self, last_words: bytes) -> bytes:
        self.end()
        self._over(self)
        return last_words


class Feed:
    """What all links attached to one terminal share. Implements ``TerminalWatcher``."""

    def __init__(
        self,
        handle: int,
        session: Session,
        terminal: Terminal,
        *,
        cache: FrameCache[None],
        settings: HubDialectSettings,
        unused: Callable[[], None],
    ) -> None:
        self.handle = handle
        self.session = session
        self.terminal = terminal
        self.cache = cache
        self.settings = settings
        self._unused = unused
        self._streams: list[OutputStream] = []
        self._cursor = session.shown.seq
        self._run = session.shown.runs
        self._stops = (terminal.watch(self), session.watch(self._logged))

    def add(self, stream: OutputStream) -> None:
        """A link attaches. One that comes after the end is told of it behind the bytes that are still held."""
        self._streams.append(stream)
        shown = self.session.shown
        if shown.exit is not None:
            left = shown.exit
            stream.put(self._ended(left.code, left.signal, left.cause, shown.tape_end))
        stream.ready()

    def remove(self, stream: OutputStream) -> None:
        """A link detaches; with the last one the feed ends."""
        self._streams.remove(stream)
        if not self._streams:
            for stop in self._stops:
                stop()
            self._unused()

    def readers(self) -> Collection[OutputStream]:
        return self._streams

    def tape_grew(self) -> None:
        for stream in tuple(self._streams):
            stream.ready()

    def screen_changed(self) -> None:
        """Pictures are asked for, never sent by themselves."""

    def resized(self) -> None:
        terminal, at = self.terminal, self.terminal.tape.end
        said = Resized(session=self.session.id, cols=terminal.cols, rows=terminal.rows, offset=at)
        self._put(Mark(at, frame(said)))

    def _logged(self) -> None:
        """Starts and ends are told once they are durable, in the order of the log."""
        while self._cursor < self.session.shown.seq:
            events = self.session.recent(self._cursor)
            if not events:  # more in one commit than memory holds: what the log says of it is with the followers
                self._cursor = self.session.shown.seq
                return
            self._cursor = events[-1].seq
            for event in events:
                self._tell(event)

    def _tell(self, event: Event) -> None:
        fact = event.fact
        end = self.terminal.tape.end
        if isinstance(fact, AgentExited):
            at = fact.tape_offset if fact.tape_offset is not None else end
            self._put(self._ended(fact.code, fact.signal, fact.cause, at))
        elif isinstance(fact, AgentStarted):
            self._run = fact.run
            at = fact.tape_offset if fact.tape_offset is not None else end
            said = Started(session=self.session.id, run=fact.run, offset=at, cols=fact.cols, rows=fact.rows)
            self._put(Mark(at, frame(said)))

    def _ended(self, code: int | None, signal: int | None, cause: str, at: int) -> Mark:
        said = Ended(session=self.session.id, run=self._run, code=code, signal=signal, cause=cause, offset=at)
        return Mark(at, frame(said))

    def _put(self, mark: Mark) -> None:
        for stream in tuple(self._streams):
            stream.put(mark)


class Feeds:
    """The feeds of a server process, and the handle that stands for each session in binary frames."""

    def __init__(self, settings: HubDialectSettings) -> None:
        self._settings = settings
        self._cache: FrameCache[None] = FrameCache(settings.shared_frames, settings.shared_bytes)
        self._handles: dict[str, int] = {}
        self._newest = 0
        self._feeds: dict[str, Feed] = {}

    def feed(self, session: Session, terminal: Terminal) -> Feed:
        """The session's feed; made when nobody is attached yet."""
        found = self._feeds.get(session.id)
        if found is None:
            found = Feed(
                self.handle(session.id),
                session,
                terminal,
                cache=self._cache,
                settings=self._settings,
                unused=lambda: self._close(session.id),
            )
            self._feeds[session.id] = found
        return found

    def forget(self, session: str) -> None:
        """The session is gone. Its handle is not used again."""
        self._handles.pop(session, None)

    def handle(self, session: str) -> int:
        """What stands for the session in binary frames."""
        handle = self._handles.get(session)
        if handle is None:
            self._newest = handle = self._newest + 1
            self._handles[session] = handle
        return handle

    def _close(self, session: str) -> None:
        del self._feeds[session]

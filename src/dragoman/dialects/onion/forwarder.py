"""One link's reading of one session: what is to be sent next, from a cursor on. No I/O, and a cursor, not a queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from dragoman.dialects.frame_cache import FrameCache
from dragoman.dialects.frames import text_frame
from dragoman.dialects.reading import EventSource
from dragoman.hub.errors import Gone
from dragoman.hub.events import Event
from dragoman.hub.permissions import Principal, Right
from dragoman.hub.tasks import TaskOwner

from . import messages as wire
from .asking import Ask
from .errors import GONE
from .projection import WITHDRAWN, Projection, Said
from .view import Place, SessionView


class Outgoing(msgspec.Struct, frozen=True):
    """A frame, and what it shows: the question that it asks, the ERROR text of a failed turn, whether the client is to
    prove that it has got it (``second`` with its id), whether it is the last one (``gone``). ``seq`` is the log's."""

    frame: bytes
    seq: int
    ask: Ask | None = None
    second: bool = False
    failed: str | None = None
    gone: bool = False


class Forwarder:
    """See the module. ``wake`` is called when there is something to send. What ``principal`` may do can change."""

    def __init__(
        self,
        view: SessionView,
        wire_id: str,
        start: Place,
        principal: Principal,
        *,
        tolerate: Sequence[str],
        tasks: TaskOwner,
        shared: FrameCache[None],
        wake: Callable[[], None],
    ) -> None:
        self.view = view
        self.wire_id = wire_id
        self.cursor = start.cursor
        self._skip = start.skip
        self._name = msgspec.json.encode(wire_id)
        self.principal = principal
        self._hidden = frozenset(_IF_TOLERATED) - frozenset(tolerate)
        self._sync = "session_sync" in tolerate
        self._tasks = tasks
        self._shared = shared
        self._wake = wake
        self._own: Projection | None = None
        self._remaking = False
        self._waiting: deque[Outgoing] = deque()
        self._events = EventSource(view.session, start.cursor, tasks=tasks, wake=wake)

    @property
    def gone(self) -> bool:
        """Whether the rest of the log was dropped."""
        return self._events.gone

    def close(self) -> None:
        """Nothing more is wanted."""
        self._events.close()

    def shows(self, said: Said) -> bool:
        """Whether this link is told of it: what only others may answer is shown to them."""
        return said.ask is None or not said.ask.needs_approve or Right.APPROVE in self.principal.rights

    def again(self, seq: int, said: Said) -> None:
        """Send what was said before the cursor, ahead of everything."""
        if self.shows(said):
            self._waiting.append(self._stream(seq, said))

    def next(self) -> Outgoing | None:
        """The next frame; None when there is none for now."""
        while not self._waiting:
            event = self._events.peek()
            if event is None:
                return None
            said = self._of(event)
            if said is None:
                return None
            self._events.skip()
            self.cursor = event.seq
            said, self._skip = said[self._skip :], 0
            self._waiting.extend(out for each in said for out in self._frames(event.seq, each))
        return self._waiting.popleft()

    def _of(self, event: Event) -> Sequence[Said] | None:
        """What the event says; None while that is being made again."""
        said = self.view.said(event)
        if said is not None:
            self._own = None
            return said
        if self._own is not None:
            return self._own.project(event)
        if not self._remaking:
            self._remaking = True
            self._tasks.start(self._remake(), "remake")
        return None

    async def prepare(self) -> None:
        """Read what is needed to begin where the view does not reach back to. Raises ``Gone``."""
        self._own = await self.view.before(self.cursor)

    async def _remake(self) -> None:
        try:
            await self.prepare()
        except Gone:
            self._events.gone = True
        finally:
            self._remaking = False
            self._wake()

    def _frames(self, seq: int, said: Said) -> list[Outgoing]:
        if said.ended is not None:
            return self._ending(seq, said)
        if said.closed:
            return [Outgoing(_control(wire.Error(message=GONE)), seq, gone=True)]
        if said.withdrawn:
            return [Outgoing(_control(wire.Error(message=WITHDRAWN)), seq)]
        if said.tolerance in self._hidden or not self.shows(said):
            return []
        return [self._stream(seq, said)]

    def _stream(self, seq: int, said: Said) -> Outgoing:
        frame = self._cached((seq, said.id, said.second), lambda: text_frame(wire.addressed(said.body, self._name)))
        return Outgoing(frame, seq, ask=said.ask, second=said.second)

    def _ending(self, seq: int, said: Said) -> list[Outgoing]:
        ended = said.ended
        assert ended is not None
        if ended.problem is not None:
            return [Outgoing(_control(wire.Error(message=ended.problem)), seq, failed=ended.problem)]
        outcome = self.view.outcome(ended)
        output = self._cached((seq, "output"), lambda: text_frame(outcome.output(self.wire_id)))
        if not self._sync:
            return [Outgoing(output, seq)]
        sync = self._cached(
            (seq, "sync"), lambda: text_frame(wire.addressed(outcome.sync(self.wire_id, seq), self._name))
        )
        return [Outgoing(sync, seq), Outgoing(output, seq)]

    def _cached(self, what: tuple[object, ...], make: Callable[[], bytes]) -> bytes:
        """Made once for all links that show this session by this name."""
        if self.view.links < 2:
            return make()
        key = (self.view.session.id, self.wire_id, *what)
        known = self._shared.get(key)
        if known is not None:
            return known[1]
        made = make()
        self._shared.put(key, None, made)
        return made


_IF_TOLERATED = ("assistant", "assistant_delta")
"""Stream events that are sent only where they are tolerated."""


def _control(message: wire.Control) -> bytes:
    return text_frame(wire.encode(message))

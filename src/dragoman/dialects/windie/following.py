"""One conversation as one link is told it: a place in its log, and the projection that stands there."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.dialects.frame_cache import FrameCache
from dragoman.dialects.frames import text_frame
from dragoman.dialects.reading import EventSource
from dragoman.hub.clock import iso_time
from dragoman.hub.events import Event
from dragoman.hub.session import Session
from dragoman.hub.tasks import TaskOwner

from .conversations import ref_of
from .messages import Error, StreamingComplete, Turn, encode_event
from .projection import Projection, Said, beginning

Frames = FrameCache[None]
"""Frames by user, session, place, and whether they are for the link that runs the tools in them."""


class Following:
    """``link`` is the id of the link, ``user_id`` what its user is called on the wire.

    ``start`` is where in the log it begins, with the projection that stands there; else it is where the session is now,
    or before its open turn. ``only`` is the one turn that is told, up to its end.
    """

    def __init__(
        self,
        session: Session,
        *,
        link: str,
        user_id: str,
        frames: Frames,
        tasks: TaskOwner,
        wake: Callable[[], None],
        start: tuple[int, Projection] | None = None,
        only: str | None = None,
    ) -> None:
        self.session = session
        self._link = link
        self._user_id = user_id
        self._frames = frames
        self.cursor, self._projection = start if start is not None else beginning(session.shown)
        self.began = self.cursor
        self.ended = False
        """Whether the one turn that was to be told has ended."""
        self._only = only
        self._muted: set[str] = set()
        self._source = EventSource(session, self.cursor, tasks=tasks, wake=wake)

    @property
    def gone(self) -> bool:
        """The session's log was dropped: there is nothing more to tell."""
        return self._source.gone

    @property
    def at_rest(self) -> bool:
        """Whether nothing is left to tell, and nothing runs."""
        return self.cursor >= self.session.shown.seq and not self.session.state.unsettled

    def mute(self, turn_ref: str) -> None:
        """Tell nothing more of this turn: its client has stopped it."""
        self._muted.add(turn_ref)

    def take(self, until: int | None = None) -> bytes | None:
        """The frames of the next event that says something, up to ``until``; None when there is none for now."""
        while (until is None or self.cursor < until) and (event := self._source.peek()) is not None:
            made = self._made(event)
            self._source.skip()
            self.cursor = event.seq
            if made:
                return made
        return None

    def close(self) -> None:
        """No more wakes."""
        self._source.close()

    def _made(self, event: Event) -> bytes:
        said = [each for each in self._projection.take(event) if self._is_told(each)]
        if not said:
            self._unmute(event)
            return b""
        own = any(each.client == self._link for each in said)
        key = (self._user_id, self.session.id, event.seq, own)
        known = self._frames.get(key)
        if known is not None:
            return known[1]
        made = b"".join(text_frame(self._encoded(each)) for each in said)
        self._frames.put(key, None, made)
        return made

    def _is_told(self, said: Said) -> bool:
        if self._only is None:
            return said.turn_ref not in self._muted
        if said.turn_ref != self._only or self.ended:
            return False
        self.ended = isinstance(said.payload, Error | StreamingComplete)
        return True

    def _unmute(self, event: Event) -> None:
        """Once nothing runs or waits here, no turn is left that could be muted."""
        if self._muted and event.seq >= self.session.head and not self.session.state.unsettled:
            self._muted.clear()

    def _encoded(self, said: Said) -> bytes:
        turn = Turn(
            user_id=self._user_id,
            session_id=self.session.id,
            conversation_ref=ref_of(self.session),
            turn_ref=said.turn_ref,
        )
        payload = said.shown_to(self._link)
        return encode_event(turn, payload, timestamp=iso_time(said.at), sequence=said.sequence)

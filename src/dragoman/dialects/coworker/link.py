"""A coworker link: what one client is told, and what it asks (seed: Connection). No I/O, and a cursor, not a queue."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from dragoman.dialects.base import Wire
from dragoman.dialects.frames import text_frame
from dragoman.dialects.reading import EventSource
from dragoman.hub.errors import HubError, LimitReached, StorageUnavailable
from dragoman.hub.events import Event
from dragoman.hub.permissions import Principal
from dragoman.hub.session import Session

from . import client_messages as asked
from . import messages as wire
from .commands import BUSY_REFUSES, Commands
from .errors import BUSY, BUSY_TEXT, FAILED_TEXT, INTERNAL, error, refusal
from .features import Features
from .projection import Projection

if TYPE_CHECKING:
    from .dialect import CoworkerDialect

log = logging.getLogger("dragoman.links")

FULL_FRAME = 64 * 1024
"""Bytes of messages that leave together, when so much is there."""

GONE = (1001, "the session is gone")
"""How a link ends that has not been told all of a log that was dropped: it would wait for ever."""


class CoworkerLink:
    """One client. Implements ``Link``."""

    joins = False
    """Every message is a frame of its own: a pause would only delay it."""

    def __init__(
        self,
        dialect: CoworkerDialect,
        session: Session,
        projection: Projection,
        principal: Principal,
        wire_: Wire,
        features: Features,
        opening: list[wire.ServerMessage],
    ) -> None:
        self.session = session
        self.principal = principal
        self.features = features
        self.cursor = projection.state.seq
        self._dialect = dialect
        self._wire = wire_
        self._projection = projection
        self._replies = dialect.replies()
        self._opening: bytes | None = b"".join(text_frame(wire.encode(message)) for message in opening)
        self._events = EventSource(session, self.cursor, tasks=dialect.tasks, wake=wire_.wake)
        self._commands = Commands(self, dialect.around)
        self._load = 0
        self._gone = False
        self._over = False

    def begin(self) -> None:
        """The providers are told of as they become known (spec §1.1)."""
        self._later(self._commands.introduce_providers())

    # Link

    @property
    def congested(self) -> bool:
        return self._load >= self._dialect.settings.commands or self._replies.full

    def receive(self, message: str | bytes) -> None:
        try:
            decoded = asked.decode(message, self.session.id, self._dialect.around.methods)
        except asked.ProtocolProblem as problem:
            self.say(wire.Error(session_id=self.session.id, message=str(problem), code=problem.code, source="protocol"))
            return
        if isinstance(decoded, BUSY_REFUSES) and self.session.busy:
            self.say(error(self.session.id, BUSY_TEXT, BUSY))
            return
        try:
            work = self._commands.handle(decoded)
        except HubError as problem:
            self._refuse(problem)
        else:
            if work is not None:
                self._later(work)

    def pong(self, payload: bytes) -> None:
        """This link sends no pings of its own: its answers carry the id of what they answer."""

    def pull(self) -> bytes | None:
        if self._opening is not None:
            opening, self._opening = self._opening, None
            return opening
        reply = self._replies.take(self.cursor)
        if reply is None and self._events.gone and not self._over:
            self._over = True
            self._wire.close(*GONE)
        return reply if reply is not None else self._told()

    def lost(self) -> None:
        if not self._gone:
            self._gone = True
            self._events.close()
            self._dialect.left(self)

    # For commands

    def say(self, message: wire.ServerMessage) -> None:
        """Reply, behind everything that the log says up to now."""
        if not self._gone:
            self._replies.put(text_frame(wire.encode(message)), self.session.head)
            self._wire.wake()

    def grant(self, features: Iterable[str]) -> None:
        """The client knows these features, and is told which it has and what it was told by then.

        The cursor is that of the moment at which this leaves: frames before it may carry later ones than there are now,
        and whoever went back to an earlier one would be told twice.
        """
        self.features = self.features.also(features)
        self._dialect.granted(self)
        self._replies.put(self._granted, self.session.head)
        self._wire.wake()

    # Out

    def _told(self) -> bytes | None:
        """What the log says next, as much as leaves together; replies have their place in between."""
        frames: list[bytes] = []
        size = 0
        while size < FULL_FRAME and (event := self._events.peek()) is not None:
            made = self._dialect.frames(self, event, self._projection)
            self._events.skip()
            self.cursor = event.seq
            if made:
                frames.append(made)
                size += len(made)
            reply = self._replies.take(self.cursor)
            if reply is not None:
                frames.append(reply)
                size += len(reply)
        return b"".join(frames) if frames else None

    def _granted(self) -> bytes:
        names = self.features.names
        return text_frame(wire.encode(wire.Features(session_id=self.session.id, features=names, cursor=self.cursor)))

    # In

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        if self._dialect.closing:
            work.close()
            self._refuse(LimitReached("the server stops"))
            return
        self._load += 1
        self._dialect.tasks.start(self._run(work), "request")

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except HubError as problem:
            self._refuse(problem)
        except Exception:
            log.exception("a request failed")
            self.say(error(self.session.id, FAILED_TEXT, INTERNAL))
        finally:
            self._load -= 1
            if not self._gone:
                self._wire.wake()

    def _refuse(self, problem: HubError) -> None:
        self.say(refusal(self.session.id, problem))
        if isinstance(problem, StorageUnavailable):
            self._replies.release()
            self._wire.wake()


def frames_of(projection: Projection, event: Event, features: Features) -> bytes:
    """What an event says to a link with these features, as frames one behind the other."""
    said = [message for message in projection.project(event) if features.wants(message)]
    encoded = [wire.encode(message) for message in said]
    if encoded and features.resume:
        encoded[-1] = b'%b,"cursor":%d}' % (encoded[-1][:-1], event.seq)
    return b"".join(map(text_frame, encoded))

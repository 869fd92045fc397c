"""What one link is told without asking each time: followed logs, attached terminals, the list of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dragoman.hub.errors import InvalidRequest, LimitReached
from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import Principal
from dragoman.hub.session import Session

from . import messages as ask
from .commands import watched
from .follow import EventStream, Fetches
from .replies import Attached, Empty, Followed, Rows
from .ring import Ring, Stream
from .rows import RowStream
from .streams import OutputStream

if TYPE_CHECKING:
    from .dialect import HubDialect

Wish = ask.Follow | ask.Attach


class Subscriptions:
    """The streams of one link. A stream says nothing before its request was answered: ``begin`` lets it."""

    def __init__(self, dialect: HubDialect, principal: Principal, ring: Ring) -> None:
        self._dialect = dialect
        self._settings = dialect.settings
        self._commands = dialect.commands
        self._principal = principal
        self._ring = ring
        self._fetches = Fetches(dialect.tasks, dialect.settings)
        self._rows: RowStream | None = None
        self._follows: dict[str, EventStream] = {}
        self._outputs: dict[str, OutputStream] = {}
        self._handles: dict[int, OutputStream] = {}
        self._wishes: dict[tuple[type, str], Wish] = {}
        self._fresh: list[Stream] = []

    def begin(self) -> None:
        """What announced the newest streams is on its way: they may follow."""
        fresh, self._fresh = self._fresh, []
        for stream in fresh:
            stream.begin()

    def session(self, name: str) -> Session | None:
        """The session, if one of the streams has it at hand."""
        stream = self._outputs.get(name) or self._follows.get(name)
        return stream.session if stream is not None else None

    def behind_handle(self, handle: int) -> Session | None:
        """The session that a handle of this link stands for."""
        stream = self._handles.get(handle)
        return stream.session if stream is not None else None

    def row_changed(self, row: SessionRow) -> None:
        """A session's row is new; ``dropped_at`` says that its log is gone."""
        if self._rows is not None:
            self._rows.changed(row)
        if row.dropped_at is None:
            return
        if (follow := self._follows.get(row.session)) is not None:
            follow.dropped()
        if (output := self._outputs.get(row.session)) is not None:
            output.dropped()

    def end(self) -> None:
        """The link is gone."""
        self._wishes.clear()
        for stream in (*self._follows.values(), *self._outputs.values()):
            stream.end()

    # The list of sessions

    def watch(self, asked: ask.Watch) -> Rows:
        """The rows now; from here on every change is told."""
        rows = self._commands.rows(self._principal, asked)
        if self._rows is None:
            self._rows = RowStream(self._ring, self._principal, self._dialect.row_frames)
            self._fresh.append(self._rows)
        return rows

    def unwatch(self) -> Empty:
        if self._rows is not None:
            self._rows.end()
            self._rows = None
        return Empty()

    # Logs and terminals

    def wish(self, wish: Wish) -> None:
        """A stream is asked for; ``grant`` follows."""
        self._wishes[type(wish), wish.session] = wish

    async def grant(self, wish: Wish) -> Followed | Attached:
        """Load the session and begin the stream, unless that was taken back, or asked again, meanwhile."""
        key = (type(wish), wish.session)
        try:
            session = await self._commands.session(self._principal, wish.session)
            wanted = self._wishes.get(key) is wish
            if isinstance(wish, ask.Follow):
                return self._follow(session, wish, wanted=wanted)
            return self._attach(session, wish, wanted=wanted)
        finally:
            if self._wishes.get(key) is wish:
                del self._wishes[key]

    def unfollow(self, session: str) -> Empty:
        self._wishes.pop((ask.Follow, session), None)
        if (stream := self._follows.get(session)) is not None:
            stream.end()
            self._unfollowed(stream)
        return Empty()

    def detach(self, session: str) -> Empty:
        self._wishes.pop((ask.Attach, session), None)
        if (stream := self._outputs.get(session)) is not None:
            stream.end()
            self._detached(stream)
        return Empty()

    def _follow(self, session: Session, asked: ask.Follow, *, wanted: bool) -> Followed:
        after = asked.after if asked.after is not None else session.shown.seq
        if wanted:
            _check_room(self._follows, session.id, self._settings.follows, "follows")
            stream = EventStream(
                self._ring,
                session,
                after,
                coalesce=asked.coalesce,
                cache=self._dialect.event_frames,
                fetches=self._fetches,
                over=self._unfollowed,
            )
            self.unfollow(session.id)
            self._follows[session.id] = stream
            self._fresh.append(stream)
        return Followed(session.id, after, session.shown.seq)

    def _attach(self, session: Session, asked: ask.Attach, *, wanted: bool) -> Attached:
        terminal = watched(self._principal, session)
        tape = terminal.tape
        picture = self._commands.screen(self._principal, session, styled=asked.styled) if asked.screen else None
        offset = asked.offset
        if offset is None:
            offset = picture.tape_offset if picture is not None else tape.end
        if offset > tape.end:
            raise InvalidRequest(f"offset {offset} is beyond the tape, which ends at {tape.end}")
        if wanted:
            _check_room(self._outputs, session.id, self._settings.attachments, "attachments")
            self.detach(session.id)
            stream = OutputStream(self._ring, self._dialect.feeds.feed(session, terminal), offset, over=self._detached)
            self._outputs[session.id] = self._handles[stream.handle] = stream
            self._fresh.append(stream)
        return Attached(
            session=session.id,
            handle=self._dialect.feeds.handle(session.id),
            run=session.shown.runs,
            offset=offset,
            start=tape.start,
            end=tape.end,
            cols=terminal.cols,
            rows=terminal.rows,
            running=terminal.running,
            screen=picture,
        )

    def _unfollowed(self, stream: EventStream) -> None:
        if self._follows.get(stream.session.id) is stream:
            del self._follows[stream.session.id]

    def _detached(self, stream: OutputStream) -> None:
        if self._outputs.get(stream.session.id) is stream:
            del self._outputs[stream.session.id]
            del self._handles[stream.handle]


def _check_room(streams: Mapping[str, Stream], session: str, most: int, name: str) -> None:
    if session not in streams and len(streams) >= most:
        raise LimitReached(f"this link has {most} {name} ({name})")

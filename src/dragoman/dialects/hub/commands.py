"""What a client may ask of the hub: one function per wish, the same for WebSocket and HTTP.

Each takes who asks and the typed body, checks rights through the hub, and returns a typed result or raises a
``HubError``.
"""

from __future__ import annotations

import msgspec

from dragoman.hub.errors import HubError, InvalidRequest, NotRunning, Unsupported
from dragoman.hub.events import Event, Json
from dragoman.hub.permissions import Principal, Right
from dragoman.hub.ports import Terminal
from dragoman.hub.providers import Providers
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.hub.skills import Skills

from . import bodies
from .errors import check_json
from .frames import encode
from .providers import ProviderCommands
from .replies import (
    At,
    Cancelled,
    Created,
    Empty,
    Health,
    NewestEvents,
    Page,
    Picture,
    Rows,
    Submitted,
    TapePiece,
    Typed,
    show_screen,
)
from .rows import list_rows
from .settings import HubDialectSettings
from .views import PlacedEvent, Snapshot, place, show_event, show_state
from .workspace import WorkspaceCommands

VIA = "hub"
"""How this dialect names itself in the log."""

_FIXED = frozenset({"cwd", "kind", "agent", "owner", "options"})
"""What a session is made with and no client may change."""


class Commands:
    """See the module."""

    def __init__(
        self,
        registry: Registry,
        settings: HubDialectSettings,
        providers: Providers | None = None,
        skills: Skills | None = None,
    ) -> None:
        self.registry = registry
        self.settings = settings
        self.providers = ProviderCommands(providers)
        self.workspace = WorkspaceCommands(registry, skills, via=VIA)

    def health(self) -> Health:
        """Whether the server can do its work."""
        journal, sessions = self.registry.journal, len(self.registry.rows(_COUNTER))
        return Health("ok" if journal.problem is None else "degraded", journal.epoch, sessions, journal.problem)

    # Sessions

    def rows(self, principal: Principal, query: bodies.ListQuery) -> Rows:
        return list_rows(self.registry.rows(principal), query, self.settings.rows)

    async def session(self, principal: Principal, session: str) -> Session:
        """Raises ``UnknownSession``, ``Gone``."""
        return await self.registry.get(principal, session)

    async def create(self, principal: Principal, body: bodies.CreateBody) -> Created:
        """All or nothing: a session that cannot be started is dropped again."""
        check_json([body.options, body.settings], self.settings.json_depth)
        _check_settings(body.settings)
        try:
            session = await self.registry.create(
                principal,
                kind=body.kind,
                cwd=body.cwd,
                agent=body.agent,
                title=body.title,
                options=body.options,
                settings=body.settings,
            )
        except OSError as error:
            raise InvalidRequest(f"{body.cwd!r} cannot be used: {error.strerror}") from error
        if body.start:
            try:
                await session.start(principal)
            except HubError:
                await self.registry.delete(principal, session.id)
                raise
        return Created(session.id, session.shown.seq)

    async def delete(self, principal: Principal, session: str) -> Empty:
        await self._end(principal, session, "deleted")
        await self.registry.delete(principal, session)
        return Empty()

    async def start(self, principal: Principal, session: str) -> At:
        found = await self.session(principal, session)
        await found.start(principal)
        return At(found.shown.seq)

    async def close(self, principal: Principal, session: str) -> At:
        return At((await self._end(principal, session, "closed")).shown.seq)

    async def _end(self, principal: Principal, session: str, reason: str) -> Session:
        found = await self.session(principal, session)
        principal.check(session, Right.WRITE)
        await found.close(reason, by=principal.id, budget=self.settings.close_budget)
        return found

    async def snapshot(self, principal: Principal, session: str) -> Snapshot:
        return show_state((await self.session(principal, session)).shown)

    async def change(self, principal: Principal, session: str, body: bodies.SettingsBody) -> At:
        changes = body.settings
        check_json(changes, self.settings.json_depth)
        _check_settings(changes)
        found = await self.session(principal, session)
        return At((await found.change_settings(principal, changes)).seq)

    # The log

    async def events(self, principal: Principal, session: str, query: bodies.EventsQuery) -> Page:
        """One page, bounded in count and bytes. Raises ``InvalidRequest`` for a cursor beyond the log."""
        found = await self.session(principal, session)
        limit = min(query.limit or self.settings.page_events, self.settings.page_events)
        head = found.shown.seq
        if query.after is not None and query.before is not None:
            raise InvalidRequest("after and before cannot go together")
        if query.after is not None:
            if query.after > head:
                raise InvalidRequest(f"cursor {query.after} is beyond the log, which ends at {head}")
            events = self._fitting(await found.read(query.after, limit))
            return _page(session, events, head, has_more=bool(events) and events[-1].seq < head)
        before = min(query.before if query.before is not None else head + 1, head + 1)
        events = await found.read_back(before, limit) if before > 1 else []
        events = self._fitting(events[::-1])[::-1]
        return _page(session, events, head, has_more=bool(events) and events[0].seq > 1)

    async def newest(self, principal: Principal, query: bodies.NewestQuery) -> NewestEvents:
        limit = min(query.limit or self.settings.page_events, self.settings.page_events)
        room = self.settings.page_bytes
        placed: list[PlacedEvent] = []
        for session, event in reversed(await self.registry.newest(principal, limit)):
            shown = place(session, event)
            room -= len(encode(shown))
            if placed and room < 0:
                break
            placed.append(shown)
        return NewestEvents(placed[::-1])

    def _fitting(self, events: list[Event]) -> list[Event]:
        """As many of the first events, as shown, as one page holds."""
        room = self.settings.page_bytes
        fitting: list[Event] = []
        for event in map(show_event, events):
            room -= len(encode(event))
            if fitting and room < 0:
                break
            fitting.append(event)
        return fitting

    # Turns and decisions

    async def submit(self, principal: Principal, session: str, body: bodies.PromptBody) -> Submitted:
        found = await self.session(principal, session)
        receipt = await found.submit(
            principal, body.text, via=VIA, client_message_id=body.client_message_id, when_busy=body.when_busy
        )
        return Submitted(receipt.prompt, receipt.seq, receipt.disposition, receipt.turn, receipt.duplicate)

    async def withdraw(self, principal: Principal, session: str, prompt: str) -> At:
        found = await self.session(principal, session)
        await found.withdraw(principal, prompt)
        return At(found.shown.seq)

    async def answer(self, principal: Principal, session: str, decision: str, body: bodies.AnswerBody) -> At:
        check_json(body.answer, self.settings.json_depth)
        answer = msgspec.structs.replace(body.answer, withheld=False)  # the hub's own mark
        found = await self.session(principal, session)
        return At((await found.answer(principal, decision, answer, via=VIA)).seq)

    async def cancel(self, principal: Principal, session: str, body: bodies.CancelBody) -> Cancelled:
        found = await self.session(principal, session)
        return Cancelled(await found.cancel(principal, body.turn, via=VIA))

    # The conversation as a whole

    async def reset_history(self, principal: Principal, session: str) -> At:
        found = await self.session(principal, session)
        return At((await found.reset_history(principal)).seq)

    async def merge_history(self, principal: Principal, session: str, body: bodies.HistoryBody) -> At:
        found = await self.session(principal, session)
        return At((await found.merge_history(principal, body.messages, replace=body.replace, via=VIA)).seq)

    async def compact(self, principal: Principal, session: str) -> At:
        found = await self.session(principal, session)
        await found.compact(principal)
        return At(found.shown.seq)

    # The terminal: these wait for nothing, so that what is typed stays in order

    def type_in(self, principal: Principal, session: Session, body: bodies.InputBody) -> Typed:
        terminal = session.control(principal)
        if body.keys is not None:
            if body.text is not None or body.data is not None or body.enter:
                raise InvalidRequest("keys cannot go together with text, data or enter")
            return self.press(principal, session, body.keys)
        data = (body.text or "").encode() + (body.data or b"") + (b"\r" if body.enter else b"")
        if not data:
            raise InvalidRequest("there is nothing to type: give text, data, enter or keys")
        _running(terminal).write(data)
        return Typed(len(data))

    def write(self, principal: Principal, session: Session, data: bytes) -> None:
        """Raw input. Raises ``NotRunning``, ``InputRefused``."""
        _running(session.control(principal)).write(data)

    def press(self, principal: Principal, session: Session, keys: tuple[str, ...]) -> Typed:
        return Typed(_running(session.control(principal)).press(keys))

    def resize(self, principal: Principal, session: Session, body: bodies.ResizeBody) -> Empty:
        _running(session.control(principal)).resize(body.cols, body.rows, principal.id)
        return Empty()

    def signal(self, principal: Principal, session: Session, body: bodies.SignalBody) -> Empty:
        _running(session.control(principal)).signal(body.signal)
        return Empty()

    def screen(self, principal: Principal, session: Session, *, styled: bool) -> Picture:
        """Raises ``Unsupported`` when the session keeps no picture."""
        screen = watched(principal, session).screen
        if screen is None:
            raise Unsupported("this session runs without a screen model")
        return show_screen(screen.snapshot(), screen.styled() if styled else None)

    def tape(self, principal: Principal, session: Session, query: bodies.TapeQuery) -> TapePiece:
        tape = watched(principal, session).tape
        limit = min(query.limit or self.settings.tape_chunk, self.settings.tape_chunk)
        wanted = query.offset if query.offset is not None else max(tape.start, tape.end - limit)
        if wanted > tape.end:
            raise InvalidRequest(f"offset {wanted} is beyond the tape, which ends at {tape.end}")
        start, data = tape.read(wanted, limit)
        return TapePiece(start, start + len(data), tape.end, data)


_COUNTER = Principal("health", frozenset({Right.READ}))


def watched(principal: Principal, session: Session) -> Terminal:
    """The terminal, to look at. Raises ``NotRunning`` when the session has none."""
    principal.check(session.id, Right.READ)
    if session.terminal is None:
        raise NotRunning(f"session {session.id!r} has no terminal")
    return session.terminal


def _check_settings(changes: dict[str, Json]) -> None:
    if fixed := _FIXED & changes.keys():
        raise InvalidRequest(f"cannot be set: {', '.join(sorted(fixed))}")
    if not isinstance(changes.get("title", ""), str):
        raise InvalidRequest("the title must be a string")


def _running(terminal: Terminal) -> Terminal:
    """``terminal``, if what is sent to it now can reach a program: never a silent loss."""
    if not terminal.running:
        raise NotRunning("the program does not run")
    return terminal


def _page(session: str, events: list[Event], head: int, *, has_more: bool) -> Page:
    first, last = (events[0].seq, events[-1].seq) if events else (None, None)
    return Page(session, events, first, last, head, has_more)

"""The wire contract of the hub dialect, the other half: every answer and every message of the server, as types.

The answer to a WebSocket request is ``{"type": "ok", "id": ...}`` with the fields of its result; over HTTP the result
is the whole body. Spelled as on the wire; ``docs/dialects/hub.md`` says the same in prose.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from dragoman.hub.events import Event, Json
from dragoman.hub.ports import CursorPosition, ScreenSnapshot, StyledRun
from dragoman.hub.providers import AuthMethod, ProviderEntry, ProviderStatus

from .errors import Problem
from .ops import RequestId
from .views import PlacedEvent, Row, Snapshot


class Empty(msgspec.Struct, frozen=True):
    """Done; there is nothing more to say."""


class Rows(msgspec.Struct, frozen=True):
    """Sessions, oldest first. ``has_more``: older ones were left out."""

    sessions: tuple[Row, ...]
    has_more: bool


class Created(msgspec.Struct, frozen=True):
    """The new session, and the cursor it is at now."""

    session: str
    seq: int


class At(msgspec.Struct, frozen=True):
    """Durable: everything the command did is in the log up to ``seq``."""

    seq: int


class ProviderList(msgspec.Struct, frozen=True):
    """The providers, in the order in which they are chosen where nobody chose."""

    providers: tuple[ProviderEntry, ...]


class ProviderStatuses(msgspec.Struct, frozen=True):
    """How they stand, in the same order."""

    statuses: tuple[ProviderStatus, ...]


class KeyForgotten(msgspec.Struct, frozen=True):
    """``removed`` is false when no key was kept."""

    removed: bool


class AuthMethods(msgspec.Struct, frozen=True):
    """By provider, the best way first."""

    methods: dict[str, tuple[AuthMethod, ...]]


class Followed(msgspec.Struct, frozen=True):
    """Events behind ``after`` follow; ``head`` is the newest now."""

    session: str
    after: int
    head: int


class Page(msgspec.Struct, frozen=True):
    """A piece of the log in order, ``first`` to ``last`` (null when empty). ``has_more``: there is more in the
    direction of paging: behind ``last`` with ``after``, else before ``first``. ``head`` is the newest now."""

    session: str
    events: list[Event]
    first: int | None
    last: int | None
    head: int
    has_more: bool


class NewestEvents(msgspec.Struct, frozen=True):
    """The newest events of all sessions in the order they were written, newest last."""

    events: list[PlacedEvent]


class Submitted(msgspec.Struct, frozen=True):
    """The prompt is durable at ``seq``. ``disposition``: ``started`` (as ``turn``, null if it ended already),
    ``queued`` or ``steering``. ``duplicate``: this message id was accepted before; nothing new was recorded."""

    prompt: str
    seq: int
    disposition: str
    turn: str | None
    duplicate: bool


class Cancelled(msgspec.Struct, frozen=True):
    """That turn has ended."""

    turn: str


class RejectedTool(msgspec.Struct, frozen=True):
    """A tool that was not taken, and why."""

    name: str
    reason: str


class DeclaredTools(msgspec.Struct, frozen=True):
    """These tools can be called while the link lives; ``client`` is how the log names it."""

    seq: int
    client: str
    accepted: tuple[str, ...]
    rejected: tuple[RejectedTool, ...]


class Typed(msgspec.Struct, frozen=True):
    """How many bytes went to the program."""

    bytes: int


class Picture(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The terminal as a person sees it. ``seq`` grows with every change; ``tape_offset`` is the offset of the first
    byte that is not in the picture yet. ``styled`` holds the same lines with their looks, when asked for."""

    lines: tuple[str, ...]
    cols: int
    rows: int
    alt_screen: bool
    cursor: CursorPosition
    cursor_visible: bool
    seq: int
    tape_offset: int
    title: str | None = None
    styled: tuple[tuple[StyledRun, ...], ...] | None = None


class Attached(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Binary messages with this ``handle`` follow, from ``offset`` on. ``start`` is the oldest byte still held, ``end``
    the newest now; ``run`` counts the program's starts."""

    session: str
    handle: int
    run: int
    offset: int
    start: int
    end: int
    cols: int
    rows: int
    running: bool
    screen: Picture | None = None


class TapePiece(msgspec.Struct, frozen=True):
    """Raw output: ``data`` (base64) starts at ``offset``, the next piece at ``next``; all of it ends at ``end``."""

    offset: int
    next: int
    end: int
    data: bytes


class Health(msgspec.Struct, frozen=True):
    """``status``: ``ok``, or ``degraded`` while the journal cannot write (``problem``)."""

    status: str
    epoch: str
    sessions: int
    problem: str | None


Result = (
    Empty
    | Rows
    | Created
    | At
    | Followed
    | Page
    | NewestEvents
    | Submitted
    | Cancelled
    | DeclaredTools
    | Typed
    | Picture
    | Attached
    | TapePiece
    | Snapshot
)


class Limits(msgspec.Struct, frozen=True):
    """What the server takes and gives at most, for this link."""

    message: int
    commands: int
    follows: int
    attachments: int
    page_events: int


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first message of every link. ``heartbeat``: seconds between two heartbeats."""

    protocol: int
    epoch: str
    principal: str
    rights: tuple[str, ...]
    heartbeat: float
    limits: Limits


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """The server lives. ``at``: milliseconds since 1970."""

    at: int


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """A session that was followed (``events``) or attached (``output``) was dropped; nothing more of it comes."""

    session: str
    stream: Literal["events", "output"]


class CallToRun(msgspec.Struct, frozen=True):
    """One call of a tool that the link runs."""

    call: str
    tool: str
    input: Json


class Calls(msgspec.Struct, frozen=True, kw_only=True, tag="calls"):
    """Run these one after the other, then end them: one with ``end_tool``, a ``bundle`` with ``end_tools``."""

    session: str
    turn: str | None
    bundle: str | None
    calls: tuple[CallToRun, ...]


class CallOver(msgspec.Struct, frozen=True, tag="call_over"):
    """That call has its result, from the link or without it: no other is taken."""

    session: str
    call: str


class SignInLine(msgspec.Struct, frozen=True, kw_only=True, tag="sign_in_line"):
    """A line of what a provider's program says while this link signs in there with the request ``request``."""

    request: RequestId
    provider: str
    line: str


class Skipped(msgspec.Struct, frozen=True, tag="skipped"):
    """Bytes ``from`` to ``to`` are no longer held: the stream goes on at ``to``."""

    session: str
    from_: int = msgspec.field(name="from")
    to: int


class Resized(msgspec.Struct, frozen=True, tag="resized"):
    """The terminal has this size from ``offset`` on."""

    session: str
    cols: int
    rows: int
    offset: int


class Started(msgspec.Struct, frozen=True, tag="started"):
    """A program was started in an attached terminal; its first byte is at ``offset``."""

    session: str
    run: int
    offset: int
    cols: int | None
    rows: int | None


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The program ended and all its bytes were sent. ``cause``: ``exit``, ``signal``, ``closed``, ``server-lost``."""

    session: str
    run: int
    code: int | None
    signal: int | None
    cause: str
    offset: int


class StreamError(Problem, frozen=True, tag="error"):
    """An error that answers no request: a message that could not be read, refused raw input, or (with ``stream``) the
    end of what was followed (``events``) or attached (``output``)."""

    id: RequestId = None
    session: str | None = None
    stream: Literal["events", "output"] | None = None


def show_screen(snapshot: ScreenSnapshot, styled: tuple[tuple[StyledRun, ...], ...] | None) -> Picture:
    """The picture on the wire."""
    return Picture(
        lines=snapshot.lines,
        cols=snapshot.cols,
        rows=snapshot.rows,
        alt_screen=snapshot.alt_screen,
        cursor=snapshot.cursor,
        cursor_visible=snapshot.cursor_visible,
        seq=snapshot.seq,
        tape_offset=snapshot.tape_offset,
        title=snapshot.title,
        styled=styled,
    )

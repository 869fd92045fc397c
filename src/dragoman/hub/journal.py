"""The journal: the durable store of all logs, as an interface.

One writer. ``append`` only queues, in order; what has become durable is told to the hub through one callback per
commit, and only then does anyone see it. So no reader can ever hold a ``seq`` that a crash takes back (invariant 1),
and an acknowledgement is simply "the callback has passed my seq" (invariant 3).

Implementations: ``dragoman.hub.sqlite`` (WAL, group commit) and ``dragoman.hub.memory`` (tests).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from .events import Event, Json


class SessionRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the registry must know of a session without reading its log: one index row.

    It is a projection of the session's state, written with the events that changed it. ``unsettled`` is true while
    something (a turn, an executor, a decision) would have to be put right if the server were lost now.
    ``dropped_at`` marks a tombstone: the log is gone, only the fact that it was is kept.

    ``active_at`` is when something happened last, in milliseconds since 1970; ``rests`` whether a turn has ended and
    nothing was begun since; ``tool`` the newest open call of the agent itself, not of a sub-agent's; ``agent_session``
    the agent's own name for its session; ``asks`` the kind of its oldest open decision. ``detail`` holds what lists
    show of settings and options.
    """

    session: str
    kind: str
    agent: str
    cwd: str
    title: str
    owner: str
    status: str
    created_at: int
    changed_at: int
    head: int
    unsettled: bool = False
    dropped_at: int | None = None
    active_at: int = 0
    rests: bool = False
    tool: str | None = None
    agent_session: str | None = None
    asks: str | None = None
    detail: dict[str, Json] = {}


class Snapshot(msgspec.Struct, frozen=True):
    """A session's folded state (``data``, JSON) and the cursor it is valid at."""

    seq: int
    data: bytes


DurableCallback = Callable[[Mapping[str, int]], None]
"""Called on the event loop after each commit: session id -> highest ``seq`` that is now durable."""


class Journal(Protocol):
    """See the module. Every method is called on the event loop; none blocks it."""

    @property
    def epoch(self) -> str:
        """A random id for this run of the server; every event carries it."""

    @property
    def problem(self) -> str | None:
        """Why writing fails right now (disk full…), or None. While set, the hub takes no new commands."""

    @property
    def full(self) -> bool:
        """Whether the queue's named limit is reached: only what settles something may still be appended."""

    async def open(self, on_durable: DurableCallback) -> list[SessionRow]:
        """Take ownership and return every session's row, newest change last, tombstones included.

        Raises ``DataFolderError`` when the store is in use, damaged, foreign or newer than this program.
        """

    def append(self, event: Event, row: SessionRow, *, key: str | None = None, encoded: bytes | None = None) -> None:
        """Queue one event of session ``row.session`` and the row that holds after it.

        ``key`` makes the event findable by a client's message id; ``encoded`` is the fact as ``encode_fact`` gives it,
        from who has it at hand. Order of calls is order on disk. Never refuses:
        the caller looks at ``full`` first. Raises ``ValueError`` or ``TypeError`` for what only a mistake of ours can
        bring: a ``seq`` that does not follow, a dropped session, a fact that is no JSON.
        """

    def append_streamed(self, session: str, event: Event, encoded: bytes) -> None:
        """Queue one event that changes nothing of its session's row but ``head`` and ``changed_at``.

        As ``append`` with the row that was last given, and those two of the event, would do.
        """

    async def read(self, session: str, after: int, limit: int) -> list[Event]:
        """Up to ``limit`` durable events with ``seq > after``, in order."""

    async def read_back(self, session: str, before: int, limit: int) -> list[Event]:
        """The newest ``limit`` durable events with ``seq < before``, in ascending order."""

    async def newest(
        self, limit: int, sessions: Sequence[str] | None = None, *, facts: Collection[str] | None = None
    ) -> list[tuple[str, Event]]:
        """The newest ``limit`` events over all (or the given) sessions in store-wide order, oldest first.

        ``facts`` are the tags of those that count; all of them by default.
        """

    async def find_key(self, session: str, key: str) -> int | None:
        """The ``seq`` of the event appended with this key, or None."""

    async def snapshot(self, session: str) -> Snapshot | None:
        """The newest stored snapshot of the session's state."""

    def put_snapshot(self, session: str, snapshot: Snapshot) -> None:
        """Queue a snapshot; it replaces the one before. Losing it only costs a longer fold."""

    async def alias(self, dialect: str, principal: str, name: str) -> str | None:
        """The session that a client's own string stands for."""

    async def bind_alias(self, dialect: str, principal: str, name: str, session: str) -> None:
        """Make that string stand for the session; returns once durable. An earlier binding is replaced.

        This, ``drop`` and ``forget`` raise ``StorageUnavailable`` at once, queueing nothing, while there is a problem;
        when trouble starts while they wait they raise too, but what they asked for stays queued and still happens.
        """

    async def drop(self, row: SessionRow) -> None:
        """Remove the session's events, snapshot, keys and aliases, keeping ``row`` (``dropped_at``) as tombstone."""

    async def forget(self, session: str) -> None:
        """Remove the tombstone too."""

    async def flush(self) -> None:
        """Wait until all that was queued before this call is durable. Raises ``StorageUnavailable`` if it cannot be."""

    async def close(self) -> None:
        """Flush what can be flushed and give the store up."""

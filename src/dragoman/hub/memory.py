"""A journal in memory, for tests: the same semantics as on disk, and faults on demand.

What is queued becomes durable in a later turn of the event loop, never within ``append``, so that whoever takes an
append for an acknowledgement fails here as it would on a disk. Facts and rows are kept encoded, so that what cannot
be written to a disk cannot be written here either.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import msgspec

from .errors import StorageUnavailable, UnknownSession
from .events import Event, decode_fact, encode_fact, tag_of
from .journal import DurableCallback, SessionRow, Snapshot

QUEUE_EVENTS = 100_000
"""Events and other changes waiting to become durable at which the journal is ``full``."""

QUEUE_BYTES = 64 * 1024 * 1024
"""Bytes of facts and snapshots waiting to become durable at which the journal is ``full``."""

FLUSH_LIMIT = 5.0
"""Seconds that a flush, a binding or a drop waits while nothing can be written."""


@dataclass(slots=True)
class _Record:
    position: int
    at: int
    epoch: str
    fact: bytes


@dataclass(slots=True)
class _Log:
    """One session as stored: record ``n`` holds ``seq`` n + 1."""

    row: bytes
    changed: int
    dropped: bool = False
    records: list[_Record] = field(default_factory=list)
    keys: dict[str, int] = field(default_factory=dict)
    snapshot: Snapshot | None = None

    def event(self, seq: int) -> Event:
        record = self.records[seq - 1]
        return Event(seq, record.at, record.epoch, decode_fact(record.fact))


@dataclass(slots=True)
class MemoryStore:
    """What has become durable. It outlives a journal: give it to the next one to play a restart."""

    logs: dict[str, _Log] = field(default_factory=dict)
    aliases: dict[tuple[str, str, str], str] = field(default_factory=dict)
    position: int = 0


@dataclass(slots=True)
class _Order:
    """One queued change. ``head`` is the event it makes durable, ``key`` that event's key."""

    apply: Callable[[], None]
    size: int = 0
    head: tuple[str, int] | None = None
    key: tuple[str, str] | None = None


@dataclass(slots=True)
class _Head:
    """What the loop knows of a session without looking into the store."""

    queued: int
    dropped: bool
    row: SessionRow


class MemoryJournal:
    """See the module and ``dragoman.hub.journal.Journal``. Every method belongs to the event loop that opened it."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        *,
        epoch: str | None = None,
        queue_events: int = QUEUE_EVENTS,
        queue_bytes: int = QUEUE_BYTES,
        flush_limit: float = FLUSH_LIMIT,
    ) -> None:
        self.store = store if store is not None else MemoryStore()
        self._epoch = epoch if epoch is not None else secrets.token_hex(8)
        self._queue_events = queue_events
        self._queue_bytes = queue_bytes
        self._flush_limit = flush_limit
        self._heads: dict[str, _Head] = {}
        self._keys: dict[tuple[str, str], int] = {}
        self._queue: list[_Order] = []
        self._queued_bytes = 0
        self._problem: str | None = None
        self._scheduled = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_durable: DurableCallback | None = None

    # -- faults on demand ------------------------------------------------------------------

    def fail(self, reason: str) -> None:
        """From now on nothing becomes durable and ``problem`` is ``reason``, until ``heal``."""
        self._problem = reason

    def heal(self) -> None:
        """Writing works again: what waited becomes durable, in order, in the next turn of the loop."""
        self._problem = None
        self._schedule()

    def crash(self) -> MemoryStore:
        """End as if killed: what was not durable is lost. Returns the store, for the next journal."""
        self._queue.clear()
        self._on_durable = None
        self._loop = None
        return self.store

    # -- Journal ---------------------------------------------------------------------------

    @property
    def epoch(self) -> str:
        return self._epoch

    @property
    def problem(self) -> str | None:
        return self._problem

    @property
    def full(self) -> bool:
        return len(self._queue) >= self._queue_events or self._queued_bytes >= self._queue_bytes

    async def open(self, on_durable: DurableCallback) -> list[SessionRow]:
        self._loop = asyncio.get_running_loop()
        self._on_durable = on_durable
        self._heads.clear()
        rows = []
        for log in sorted(self.store.logs.values(), key=lambda log: log.changed):
            row = msgspec.json.decode(log.row, type=SessionRow)
            self._heads[row.session] = _Head(row.head, log.dropped, row)
            rows.append(row)
        return rows

    def append(self, event: Event, row: SessionRow, *, key: str | None = None, encoded: bytes | None = None) -> None:
        self._check_open()
        head = self._heads.get(row.session)
        expected = 1 if head is None else head.queued + 1
        if head is not None and head.dropped:
            raise ValueError(f"session {row.session!r} was dropped")
        if event.seq != expected or row.head != expected or row.dropped_at is not None:
            raise ValueError(f"session {row.session!r} expects seq {expected}, got {event.seq}, head {row.head}")
        fact = encode_fact(event.fact) if encoded is None else encoded
        encoded_row = msgspec.json.encode(row)
        if key is not None:
            key.encode()
            self._keys.setdefault((row.session, key), expected)
        self._heads[row.session] = _Head(expected, dropped=False, row=row)
        self._put(
            _Order(
                lambda: self._apply_event(row.session, event, fact, encoded_row, key),
                size=len(fact),
                head=(row.session, expected),
                key=None if key is None else (row.session, key),
            )
        )

    def append_streamed(self, session: str, event: Event, encoded: bytes) -> None:
        head = self._heads.get(session)
        if head is None:
            raise ValueError(f"session {session!r} has no row yet")
        self.append(event, msgspec.structs.replace(head.row, head=event.seq, changed_at=event.at), encoded=encoded)

    async def read(self, session: str, after: int, limit: int) -> list[Event]:
        return await self._read(session, lambda head: range(max(after, 0) + 1, min(max(after, 0) + limit, head) + 1))

    async def read_back(self, session: str, before: int, limit: int) -> list[Event]:
        def wanted(head: int) -> range:
            last = min(before - 1, head)
            return range(max(last - limit, 0) + 1, last + 1)

        return await self._read(session, wanted)

    async def newest(
        self, limit: int, sessions: Sequence[str] | None = None, *, facts: Collection[str] | None = None
    ) -> list[tuple[str, Event]]:
        await self._turn()
        found = sorted(
            (record.position, name, seq)
            for name, log in self.store.logs.items()
            if sessions is None or name in sessions
            for seq, record in enumerate(log.records, start=1)
            if facts is None or tag_of(log.event(seq).fact) in facts
        )
        return [(name, self.store.logs[name].event(seq)) for _, name, seq in found[max(len(found) - limit, 0) :]]

    async def find_key(self, session: str, key: str) -> int | None:
        queued = self._keys.get((session, key))
        if queued is not None:
            return queued
        log = await self._living(session)
        return None if log is None else log.keys.get(key)

    async def snapshot(self, session: str) -> Snapshot | None:
        log = await self._living(session)
        return None if log is None else log.snapshot

    def put_snapshot(self, session: str, snapshot: Snapshot) -> None:
        self._check_open()
        head = self._heads.get(session)
        if head is None or head.dropped or self.full:
            return
        self._put(_Order(lambda: self._apply_snapshot(session, snapshot), size=len(snapshot.data)))

    async def alias(self, dialect: str, principal: str, name: str) -> str | None:
        await self._turn()
        return self.store.aliases.get((dialect, principal, name))

    async def bind_alias(self, dialect: str, principal: str, name: str, session: str) -> None:
        self._check_open()
        self._check_writable()
        "".join((dialect, principal, name, session)).encode()
        self._put(_Order(lambda: self.store.aliases.__setitem__((dialect, principal, name), session)))
        await self.flush()

    async def drop(self, row: SessionRow) -> None:
        self._check_open()
        head = self._heads.get(row.session)
        if head is None:
            raise UnknownSession(row.session)
        if row.dropped_at is None:
            raise ValueError("a tombstone needs dropped_at")
        encoded = msgspec.json.encode(row)
        self._check_writable()
        head.dropped = True
        self._forget_keys(row.session)
        self._put(_Order(lambda: self._apply_drop(row.session, encoded)))
        await self.flush()

    async def forget(self, session: str) -> None:
        self._check_open()
        head = self._heads.get(session)
        if head is None:
            return
        if not head.dropped:
            raise ValueError(f"session {session!r} must be dropped before it is forgotten")
        self._check_writable()
        del self._heads[session]
        self._put(_Order(lambda: self._apply_forget(session)))
        await self.flush()

    async def flush(self) -> None:
        loop = self._check_open()
        if not self._queue:
            return
        waiter: asyncio.Future[None] = loop.create_future()
        self._put(_Order(lambda: None if waiter.done() else waiter.set_result(None)))
        done, _ = await asyncio.wait([waiter], timeout=self._flush_limit)
        if not done:
            waiter.cancel()
            raise StorageUnavailable(self._problem or "the journal does not write")

    async def close(self) -> None:
        if self._loop is None:
            return
        self._commit()
        self.crash()

    # -- inside ----------------------------------------------------------------------------

    def _check_open(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise StorageUnavailable("the journal is not open")
        return self._loop

    def _check_writable(self) -> None:
        if self._problem is not None or self.full:
            raise StorageUnavailable(self._problem or "too much waits to be written")

    def _put(self, order: _Order) -> None:
        self._queue.append(order)
        self._queued_bytes += order.size
        self._schedule()

    def _schedule(self) -> None:
        if self._loop is not None and not self._scheduled and self._queue:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        self._scheduled = False
        if self._problem is not None or self._on_durable is None:
            return
        orders, self._queue, self._queued_bytes = self._queue, [], 0
        heads: dict[str, int] = {}
        for order in orders:
            order.apply()
            if order.head is not None:
                heads[order.head[0]] = order.head[1]
            if order.key is not None:
                self._keys.pop(order.key, None)
        if heads:
            self._on_durable(heads)

    async def _turn(self) -> None:
        """Let others run, as a real read does."""
        self._check_open()
        await asyncio.sleep(0)

    async def _living(self, session: str) -> _Log | None:
        """What is stored of a session that was not dropped."""
        await self._turn()
        head = self._heads.get(session)
        return None if head is None or head.dropped else self.store.logs.get(session)

    async def _read(self, session: str, wanted: Callable[[int], range]) -> list[Event]:
        """What was durable when it was asked for, unless it was dropped meanwhile."""
        stored = self.store.logs.get(session)
        chosen = range(0) if stored is None else wanted(len(stored.records))
        log = await self._living(session)
        return [log.event(seq) for seq in chosen] if log is not None and log is stored else []

    def _forget_keys(self, session: str) -> None:
        for queued in [queued for queued in self._keys if queued[0] == session]:
            del self._keys[queued]

    def _next_position(self) -> int:
        self.store.position += 1
        return self.store.position

    def _apply_event(self, session: str, event: Event, fact: bytes, row: bytes, key: str | None) -> None:
        position = self._next_position()
        log = self.store.logs.setdefault(session, _Log(row, position))
        log.row, log.changed = row, position
        log.records.append(_Record(position, event.at, event.epoch, fact))
        if key is not None:
            log.keys.setdefault(key, event.seq)

    def _apply_snapshot(self, session: str, snapshot: Snapshot) -> None:
        log = self.store.logs.get(session)
        if log is not None and not log.dropped:
            log.snapshot = snapshot

    def _apply_drop(self, session: str, row: bytes) -> None:
        self.store.logs[session] = _Log(row, self._next_position(), dropped=True)
        self._unbind(session)

    def _apply_forget(self, session: str) -> None:
        self.store.logs.pop(session, None)
        self._unbind(session)

    def _unbind(self, session: str) -> None:
        for name in [name for name, bound in self.store.aliases.items() if bound == session]:
            del self.store.aliases[name]

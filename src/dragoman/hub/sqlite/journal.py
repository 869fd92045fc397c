"""The journal that the hub sees: the event loop's side of the writer and the readers."""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dragoman.hub.errors import DataFolderError, StorageUnavailable, UnknownSession
from dragoman.hub.events import Event, encode_fact
from dragoman.hub.journal import DurableCallback, SessionRow, Snapshot

from .batch import Batch, MovedRow, Order, Row, bind_order, drop_orders, encode_row, forget_orders
from .reader import READERS, Readers
from .schema import SCHEMA, Schema
from .stored import load
from .writer import BATCH_BYTES, BATCH_EVENTS, Writer

QUEUE_EVENTS = 100_000
"""Events and other changes waiting to become durable at which the journal is ``full``."""

QUEUE_BYTES = 64 * 1024 * 1024
"""Bytes of facts and snapshots waiting to become durable at which the journal is ``full``."""

FLUSH_LIMIT = 5.0
"""Seconds without any commit after which a flush, a binding or a drop gives up waiting."""

CLOSE_LIMIT = 1.0
"""Seconds without any commit after which ``close`` gives up what is queued; and then as long for the thread to end."""

GIVE_WAY_AFTER = 0.005
"""Seconds that a change or a read may wait before the loop makes room for the threads."""

GIVE_WAY_FOR = 0.00005
"""Seconds that it then stands still, which is about what a thread needs to wake up."""

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Head:
    """What the loop knows of a session: its number, the newest ``seq`` queued and the newest that is durable."""

    number: int
    queued: int
    durable: int
    row: SessionRow
    """The last one that was given; of what was streamed since it knows neither place nor time."""
    is_dropped: bool = False


class SqliteJournal:
    """See ``dragoman.hub.journal.Journal``. All methods belong to the event loop that opened it.

    Facts and rows are encoded in ``append``: so the limit counts true bytes, and what cannot be encoded is refused
    to the one who brought it instead of standing in the way of all others.
    """

    def __init__(
        self,
        path: Path,
        *,
        epoch: str | None = None,
        queue_events: int = QUEUE_EVENTS,
        queue_bytes: int = QUEUE_BYTES,
        flush_limit: float = FLUSH_LIMIT,
        close_limit: float = CLOSE_LIMIT,
        batch_events: int = BATCH_EVENTS,
        batch_bytes: int = BATCH_BYTES,
        readers: int = READERS,
        schema: Schema = SCHEMA,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        """``path`` is the file; its folder must exist and be ours alone (``dragoman.hub.folder``).

        ``connection`` is the class of the writing connection; tests give one that fails.
        """
        self._path = path
        self._epoch = epoch if epoch is not None else secrets.token_hex(8)
        self._queue_events = queue_events
        self._queue_bytes = queue_bytes
        self._flush_limit = flush_limit
        self._close_limit = close_limit
        self._batch_events = batch_events
        self._batch_bytes = batch_bytes
        self._schema = schema
        self._factory = connection
        self._heads: dict[str, _Head] = {}
        self._keys: dict[tuple[str, str], int] = {}
        self._epochs: dict[int, str] = {}
        self._epoch_numbers: dict[str, int] = {}
        self._readers = Readers(path, self._epochs, threads=readers)
        self._writer: Writer | None = None
        self._is_closed = False
        self._position = 0
        self._durable_position = 0
        self._number = 0
        self._waiting = 0
        self._waiting_bytes = 0
        self._commits = 0
        self._newest: Batch | None = None
        self._is_watching = False
        self._is_waking = False
        self._reading = 0
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def epoch(self) -> str:
        return self._epoch

    @property
    def problem(self) -> str | None:
        return None if self._writer is None else self._writer.problem

    @property
    def full(self) -> bool:
        return self._waiting >= self._queue_events or self._waiting_bytes >= self._queue_bytes

    # -- opening and closing ---------------------------------------------------------------

    async def open(self, on_durable: DurableCallback) -> list[SessionRow]:
        self._loop = asyncio.get_running_loop()
        self._on_durable = on_durable
        try:
            stored = await self._readers.run(lambda: load(self._path, self._schema, self._factory))
        except BaseException:
            await self._readers.close()
            raise
        self._position = self._durable_position = stored.position
        self._number = stored.number
        self._epochs.update(stored.epochs)
        self._epoch_numbers.update((epoch, number) for number, epoch in stored.epochs.items())
        for row, number in stored.rows:
            self._heads[row.session] = _Head(number, row.head, row.head, row, row.dropped_at is not None)
        self._writer = Writer(
            stored.connection,
            self._path,
            purges=stored.purges,
            done=self._tell,
            batch_events=self._batch_events,
            batch_bytes=self._batch_bytes,
        )
        self._writer.start()
        return [row for row, _ in stored.rows]

    async def close(self) -> None:
        if self._writer is None or self._is_closed:
            return
        self._is_closed = True
        try:
            await self._settled(self._close_limit)
        except StorageUnavailable as error:
            _log.error("%s is closed with %d changes unwritten: %s", self._path, self._waiting, error)
        # Last of all connections the writer's: then SQLite empties the write-ahead log and removes it.
        await self._readers.close()
        self._writer.stop()
        if not await asyncio.to_thread(self._writer.join, self._close_limit):
            _log.error("%s: the disk does not answer; its writer is left behind", self._path)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(StorageUnavailable("the journal was closed before this was durable"))

    # -- writing ---------------------------------------------------------------------------

    def append(self, event: Event, row: SessionRow, *, key: str | None = None, encoded: bytes | None = None) -> None:
        writer = self._check_open()
        session = row.session
        head = self._heads.get(session)
        expected = 1 if head is None else head.queued + 1
        if head is not None and head.is_dropped:
            raise ValueError(f"session {session!r} was dropped")
        if event.seq != expected or row.head != expected or row.dropped_at is not None:
            raise ValueError(f"session {session!r} expects seq {expected}, got {event.seq}, head {row.head}")
        fact, encoded_row = encode_fact(event.fact) if encoded is None else encoded, encode_row(row)
        epoch = self._epoch_numbers.get(event.epoch) or self._number_epoch(writer, event.epoch)
        if key is not None:
            key.encode()
            self._keys.setdefault((session, key), expected)
        if head is None:
            self._number += 1
            head = self._heads[session] = _Head(self._number, 0, 0, row)
        head.queued, head.row = expected, row
        self._position += 1
        stored = Row(head.number, session, expected, self._position, encoded_row)
        self._queued(writer, writer.append(stored, expected, event.at, epoch, fact, key), len(fact))

    def append_streamed(self, session: str, event: Event, encoded: bytes) -> None:
        writer, head = self._check_open(), self._heads.get(session)
        if head is None or head.is_dropped:
            raise ValueError(f"session {session!r} {'has no row yet' if head is None else 'was dropped'}")
        seq = event.seq
        if seq != head.queued + 1:
            raise ValueError(f"session {session!r} expects seq {head.queued + 1}, got {seq}")
        epoch = self._epoch_numbers.get(event.epoch) or self._number_epoch(writer, event.epoch)
        head.queued = seq
        self._position += 1
        moved = MovedRow(head.number, session, seq, self._position, head.row, event.at)
        self._queued(writer, writer.append(moved, seq, event.at, epoch, encoded, None), len(encoded))

    def _queued(self, writer: Writer, batch: Batch, size: int) -> None:
        self._count(batch, size)
        if not self._is_waking:
            self._is_waking = True
            self._loop.call_soon(self._wake, writer)

    def _wake(self, writer: Writer) -> None:
        """At the end of this turn of the loop: what was appended in it becomes durable together.

        Woken by the first event, the writer would commit it alone, and contend with the loop for the rest.
        """
        self._is_waking = False
        writer.wake()

    def put_snapshot(self, session: str, snapshot: Snapshot) -> None:
        writer = self._check_open()
        head = self._heads.get(session)
        if head is None or head.is_dropped or self.full:
            return
        self._count(writer.put_snapshot(head.number, snapshot.seq, snapshot.data), len(snapshot.data))

    async def bind_alias(self, dialect: str, principal: str, name: str, session: str) -> None:
        self._check_open()
        self._check_writable()
        "".join((dialect, principal, name, session)).encode()
        await self._order(bind_order(dialect, principal, name, session))

    async def drop(self, row: SessionRow) -> None:
        self._check_open()
        head = self._heads.get(row.session)
        if head is None:
            raise UnknownSession(row.session)
        if row.dropped_at is None:
            raise ValueError("a tombstone needs dropped_at")
        encoded, number = encode_row(row), head.number
        self._check_writable()
        head.is_dropped = True
        for queued in [queued for queued in self._keys if queued[0] == row.session]:
            del self._keys[queued]
        self._position += 1
        await self._order(
            *drop_orders(row.session, number, row.head, self._position, row.dropped_at, encoded),
            purge=number,
        )

    async def forget(self, session: str) -> None:
        self._check_open()
        head = self._heads.get(session)
        if head is None:
            return
        if not head.is_dropped:
            raise ValueError(f"session {session!r} must be dropped before it is forgotten")
        self._check_writable()
        del self._heads[session]
        await self._order(*forget_orders(session, head.number))

    async def flush(self) -> None:
        self._check_open()
        await self._settled(self._flush_limit)

    async def _order(self, *orders: Order, purge: int | None = None) -> None:
        """Queue the statements and wait until they are durable.

        Raises ``StorageUnavailable`` when that takes too long: a trouble that began just now. They stay queued and take
        effect as soon as they can, because what was queued after them may build on them.
        """
        self._count(self._check_open().put_orders(*orders, purge=purge), 0)
        await self._settled(self._flush_limit)

    async def _settled(self, limit: float) -> None:
        """Wait until all that is queued now is durable; at most ``limit`` seconds without any commit."""
        if self._newest is None:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._newest.waiters.append(waiter)
        self._waiters.add(waiter)
        try:
            commits = -1
            while not waiter.done():
                if commits == self._commits:
                    raise StorageUnavailable(self.problem or f"the disk has not answered for {limit:g} seconds")
                commits = self._commits
                await asyncio.wait([waiter], timeout=limit)
            waiter.result()
        finally:
            self._waiters.discard(waiter)

    def _check_open(self) -> Writer:
        if self._writer is None or self._is_closed:
            raise StorageUnavailable("the journal is not open")
        return self._writer

    def _check_writable(self) -> None:
        """Refuse before anything is queued what the caller would wait for in vain."""
        if self.problem is not None or self.full:
            raise StorageUnavailable(self.problem or "too much waits to be written")

    def _count(self, batch: Batch, size: int) -> None:
        self._newest = batch
        self._waiting += 1
        self._waiting_bytes += size
        self._watch()

    def _watch(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            self._loop.call_later(GIVE_WAY_AFTER, self._give_way)

    def _give_way(self) -> None:
        """Let the writer and the readers have the interpreter lock.

        A loop that always has something to do and never waits in a system call takes the lock back before any other
        thread has woken up, for seconds on end (measured: nothing became durable in 2 s; with this, within 30 ms).
        """
        self._is_watching = False
        if self._reading or (self._newest is not None and self.problem is None):
            time.sleep(GIVE_WAY_FOR)
            self._watch()

    def _number_epoch(self, writer: Writer, epoch: str) -> int:
        epoch.encode()
        number = len(self._epochs) + 1
        self._epochs[number] = epoch
        self._epoch_numbers[epoch] = number
        writer.put_epoch(number, epoch)
        return number

    def _tell(self, batch: Batch) -> None:
        """Called in the writer's thread after each commit."""
        # A loop that has ended without closing the journal has nobody left to tell.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._has_become_durable, batch)

    def _has_become_durable(self, batch: Batch) -> None:
        self._commits += 1
        self._waiting -= batch.count
        self._waiting_bytes -= batch.size
        self._durable_position = batch.position or self._durable_position
        if batch is self._newest:
            self._newest = None
        heads: dict[str, int] = {}
        for row in batch.rows.values():
            heads[row.session] = row.head
            head = self._heads.get(row.session)
            if head is not None and head.number == row.number:
                head.durable = row.head
        for keyed in batch.keyed:
            self._keys.pop(keyed, None)
        for waiter in batch.waiters:
            if not waiter.done():
                waiter.set_result(None)
        if heads:
            self._on_durable(heads)

    # -- reading ---------------------------------------------------------------------------

    async def read(self, session: str, after: int, limit: int) -> list[Event]:
        first = max(after, 0) + 1
        return await self._read(session, lambda head: (first, min(first + limit - 1, head)))

    async def read_back(self, session: str, before: int, limit: int) -> list[Event]:
        def bounds(head: int) -> tuple[int, int]:
            last = min(before - 1, head)
            return max(last - limit, 0) + 1, last

        return await self._read(session, bounds)

    async def newest(
        self, limit: int, sessions: Sequence[str] | None = None, *, facts: Collection[str] | None = None
    ) -> list[tuple[str, Event]]:
        self._check_open()
        if limit <= 0:
            return []
        return await self._from_disk(self._readers.newest(limit, self._durable_position, sessions, facts))

    async def find_key(self, session: str, key: str) -> int | None:
        self._check_open()
        head = self._living(session)
        if head is None or not _is_text(key):
            return None
        queued = self._keys.get((session, key))
        if queued is not None:
            return queued
        return await self._from_disk(self._readers.key(head.number, key))

    async def snapshot(self, session: str) -> Snapshot | None:
        self._check_open()
        head = self._living(session)
        return None if head is None else await self._from_disk(self._readers.snapshot(head.number))

    async def alias(self, dialect: str, principal: str, name: str) -> str | None:
        self._check_open()
        if not _is_text(dialect, principal, name):
            return None
        return await self._from_disk(self._readers.alias(dialect, principal, name))

    def _living(self, session: str) -> _Head | None:
        head = self._heads.get(session)
        return None if head is None or head.is_dropped else head

    async def _read(self, session: str, bounds: Callable[[int], tuple[int, int]]) -> list[Event]:
        """Neither beyond the newest ``seq`` that the hub was told of, nor short of it."""
        self._check_open()
        head = self._living(session)
        if head is None:
            return []
        first, last = bounds(head.durable)
        if first > last:
            return []
        try:
            return await self._from_disk(self._readers.events(session, head.number, first, last))
        except DataFolderError:
            if head.is_dropped:
                return []
            raise

    async def _from_disk(self, reading: Awaitable[_T]) -> _T:
        self._reading += 1
        self._watch()
        try:
            return await reading
        finally:
            self._reading -= 1


def _is_text(*texts: str) -> bool:
    """Whether it can be stored: a lone surrogate, as in an undecodable path, cannot."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True

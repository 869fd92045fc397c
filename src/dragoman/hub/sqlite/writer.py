"""The one thread that writes. It takes whatever has queued since its last commit, and never waits for more."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic

from .batch import Batch, MovedRow, Order, Row
from .schema import connect, transaction

BATCH_EVENTS = 1024
"""Changes in one transaction at most: what comes first must not wait for a long queue to be written."""

BATCH_BYTES = 4 * 1024 * 1024
"""Bytes of facts and snapshots in one transaction at most (a single larger one is a transaction of its own)."""

RETRY_FIRST = 0.05
"""Seconds before a failed commit is tried again; doubled with every failure."""

RETRY_MOST = 2.0
"""Seconds between tries at most."""

PURGE_EVENTS = 512
"""Events of dropped sessions taken off the disk between two commits at most."""

PURGE_SECONDS = 0.01
"""What others should wait for that: it takes fewer events if they are large or the disk is slow."""

FREE_PAGES_KEPT = 1024
"""Free pages that stay in the file (4 MiB) for what will be written next; a quarter of the file stays too."""

VACUUM_PAGES = 256
"""Free pages given back to the disk between two commits."""

CHECKPOINT_PAGES = 2000
"""Pages (8 MiB) in the write-ahead log after which SQLite moves them into the file, readers permitting."""

WAL_BYTES = 16 * 1024 * 1024
"""What the write-ahead log is cut back to when SQLite starts it anew."""

WAL_BYTES_MOST = 64 * 1024 * 1024
"""Size of the write-ahead log at which the writer waits for the readers, so that it cannot grow for ever."""

WAL_EVERY = 1.0
"""Seconds between two looks at its size."""

READERS_WAIT = 0.25
"""Seconds that it then waits for them."""

LOCK_WAIT = 5.0
"""Seconds to wait for another program that has the file locked (an SQLite shell, a backup)."""

_log = logging.getLogger(__name__)


class Writer:
    """Owns the writing connection. The methods up to ``join`` belong to the event loop, the rest to the thread."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        *,
        purges: list[int],
        done: Callable[[Batch], None],
        batch_events: int = BATCH_EVENTS,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        """``done`` is called in the thread, once for every commit; ``purges`` are the numbers of dropped sessions."""
        self.problem: str | None = None
        self._connection = connection
        self._path = path
        self._wal = path.with_name(path.name + "-wal")
        self._wal_most = WAL_BYTES_MOST
        self._wal_after = 0.0
        self._purge_step = PURGE_EVENTS
        self._done = done
        self._batch_events = batch_events
        self._batch_bytes = batch_bytes
        self._purges = deque(purges)
        self._may_shrink = True
        self._tidy_after = 0.0
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)
        """What the thread waits for; whoever need not wake it takes the lock alone, which costs a fifth of that."""
        self._queue: deque[Batch] = deque()
        self._stopping = False
        # A disk that never answers must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="journal-write", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def append(self, row: Row | MovedRow, seq: int, at: int, epoch: int, fact: bytes, key: str | None) -> Batch:
        """Queue one event; returns the batch that it is in. ``wake`` is to follow, once for many."""
        with self._lock:
            batch = self._open_batch()
            batch.add_event(row, seq, at, epoch, fact)
            if key is not None:
                batch.add_key(row, key)
        return batch

    def wake(self) -> None:
        """Begin with what has queued."""
        with self._ready:
            self._ready.notify()

    def put_epoch(self, number: int, epoch: str) -> None:
        """Queue the number that stands for an epoch in the events after it."""
        with self._ready:
            self._open_batch().epochs += (number, epoch)

    def put_snapshot(self, number: int, seq: int, data: bytes) -> Batch:
        """Queue a snapshot; returns its batch."""
        with self._ready:
            batch = self._open_batch()
            batch.add_snapshot(number, seq, data)
            self._ready.notify()
        return batch

    def put_orders(self, *orders: Order, purge: int | None = None) -> Batch:
        """Queue statements to run after all that came before; returns their batch.

        ``purge`` is the number of a session whose log may be taken off the disk once they are durable.
        """
        with self._ready:
            batch = self._queue[-1] if self._queue else self._new_batch()
            batch.add_orders(*orders)
            if purge is not None:
                batch.purged.append(purge)
            self._ready.notify()
        return batch

    def stop(self) -> None:
        """Let the thread end after what it is doing now."""
        with self._ready:
            self._stopping = True
            self._ready.notify()

    def join(self, timeout: float) -> bool:
        """Wait for the thread, which gives the connection up. False if the disk does not let it end."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _open_batch(self) -> Batch:
        """The newest batch, if it may take another event."""
        if not self._queue:
            return self._new_batch()
        batch = self._queue[-1]
        if batch.orders or batch.count >= self._batch_events or batch.size >= self._batch_bytes:
            return self._new_batch()
        return batch

    def _new_batch(self) -> Batch:
        batch = Batch()
        self._queue.append(batch)
        return batch

    # -- the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        with closing(self._connection):
            while not self._stopping:
                batch = self._take()
                if batch is not None and not self._commit(batch):
                    return
                self._tidy()

    def _take(self) -> Batch | None:
        """The oldest batch, or None when there is something to tidy up meanwhile, or it is time to stop."""
        with self._ready:
            while not self._queue and not self._stopping:
                pause = self._until_tidy()
                if pause == 0:
                    return None
                self._ready.wait(pause)
            return self._queue.popleft() if self._queue and not self._stopping else None

    def _commit(self, batch: Batch) -> bool:
        """Write the batch, however often it takes. False if it is time to stop before that succeeds."""
        pause = RETRY_FIRST
        error = self._attempt(batch, again=False)
        while error is not None:
            self._report(error)
            if self._stops_within(pause):
                return False
            pause = min(pause * 2, RETRY_MOST)
            error = self._attempt(batch, again=True)
        if self.problem is not None:
            self.problem = None
            _log.warning("%s is written again", self._path)
        self._purges.extend(batch.purged)
        self._done(batch)
        return True

    def _attempt(self, batch: Batch, *, again: bool) -> Exception | None:
        connection = self._connection
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if again and batch.is_stored(connection):
                return None
            with transaction(connection):
                batch.write(connection)
        except Exception as error:  # noqa: BLE001 - whatever it is, the batch is kept and the thread lives on
            return error
        return None

    def _report(self, error: Exception) -> None:
        text = f"the journal cannot be written: {_describe(error)}"
        if self.problem is None:
            _log.error("%s: %s; trying again", self._path, text)
        self.problem = text

    def _stops_within(self, pause: float) -> bool:
        with self._ready:
            return self._ready.wait_for(lambda: self._stopping, pause)

    # -- housekeeping ----------------------------------------------------------------------

    def _until_tidy(self) -> float | None:
        """Seconds until there is something to tidy up; None if there is nothing."""
        if not self._purges and not self._may_shrink:
            return None
        return max(self._tidy_after - monotonic(), 0)

    def _tidy(self) -> None:
        """One small step, so that nobody waits long behind it. It is not urgent: a failure only puts it off."""
        now = monotonic()
        if now < self._tidy_after:
            return
        try:
            if now >= self._wal_after:
                self._wal_after = now + WAL_EVERY
                self._bound_wal()
            if self._purges:
                self._purge(self._purges[0])
            elif self._may_shrink:
                self._shrink()
        except (sqlite3.Error, OSError) as error:
            _log.info("%s: tidying up put off: %s", self._path, error)
            self._tidy_after = monotonic() + RETRY_MOST

    def _purge(self, number: int) -> None:
        """Take some events of a dropped session off the disk, and with the last of them all that is left of it."""
        begun, step = monotonic(), self._purge_step
        with transaction(self._connection):
            gone = self._connection.execute(
                "DELETE FROM events WHERE position IN"
                " (SELECT position FROM events WHERE number = ? ORDER BY seq LIMIT ?)",
                (number, step),
            ).rowcount
            if gone < step:
                self._connection.execute("DELETE FROM keys WHERE number = ?", (number,))
                self._connection.execute("DELETE FROM purges WHERE number = ?", (number,))
        if gone < step:
            self._purges.popleft()
            self._may_shrink = True
            return
        taken = monotonic() - begun
        self._purge_step = max(step // 2, 1) if taken > PURGE_SECONDS else min(step * 2, PURGE_EVENTS)

    def _shrink(self) -> None:
        free, pages = self._pragma("freelist_count"), self._pragma("page_count")
        if free <= max(FREE_PAGES_KEPT, pages // 4):
            self._may_shrink = False
            return
        self._connection.execute(f"PRAGMA incremental_vacuum({VACUUM_PAGES})").fetchall()

    def _bound_wal(self) -> None:
        """Readers in a row can keep SQLite from starting the write-ahead log anew: then wait for them, once."""
        size = self._wal.stat().st_size if self._wal.exists() else 0
        if size <= self._wal_most:
            return
        self._connection.execute(f"PRAGMA busy_timeout = {int(READERS_WAIT * 1000)}")
        try:
            is_busy = self._pragma("wal_checkpoint(TRUNCATE)")
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {int(LOCK_WAIT * 1000)}")
        self._wal_most = WAL_BYTES_MOST + (size if is_busy else 0)

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])


def connect_writer(path: Path, factory: type[sqlite3.Connection]) -> sqlite3.Connection:
    """The writing connection. Raises ``sqlite3.Error``, also where the file system cannot hold a shared log."""
    connection = connect(path, "rw", factory)
    try:
        _set_up(connection)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise sqlite3.OperationalError("the file system does not support a write-ahead log")
    for pragma in (
        "synchronous = FULL",
        # What was deleted is overwritten, also in free pages: a dropped session can no longer be read.
        "secure_delete = ON",
        f"busy_timeout = {int(LOCK_WAIT * 1000)}",
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        f"journal_size_limit = {WAL_BYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _describe(error: Exception) -> str:
    name = getattr(error, "sqlite_errorname", None)
    if name == "SQLITE_FULL":
        return "the disk is full"
    return str(error) if name is None else f"{error} ({name})"

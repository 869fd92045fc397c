"""The logs of all runs in one SQLite file: appended by one thread, in as few commits as there is time for.

What was put is durable when its future says so. If a commit fails, nothing after it is written either until the store
is loaded anew: what is on the disk is then all that there is.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from dragoman.hub.durable_folder import sync_folder

from .errors import RunsUnavailable
from .state import Recorded, Run, fold

SNAPSHOT_EVERY = 256
"""Events of a run between two of its snapshots: what is folded at a start at most."""

BATCH = 256
"""Puts in one commit at most: what comes first must not wait for a long queue to be written."""

LOCK_WAIT = 5.0
"""Seconds to wait for another program that has the file locked (an SQLite shell, a backup)."""

CLOSE_WAIT = 5.0
"""Seconds that closing waits for the disk."""

APPLICATION_ID = 0x64726772
VERSION = 1

_TABLES = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
CREATE TABLE IF NOT EXISTS runs (number INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, seq INTEGER, state BLOB);
CREATE TABLE IF NOT EXISTS events (
    number INTEGER NOT NULL, seq INTEGER NOT NULL, fact BLOB NOT NULL, PRIMARY KEY (number, seq)
) WITHOUT ROWID;
"""

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """One fact more in the log of a run, and the run after it. ``number`` is the run's place in the queue."""

    number: int
    run: Run
    fact: Recorded


class Known(NamedTuple):
    """A run as the disk has it."""

    number: int
    run: Run


class _Put(NamedTuple):
    rows: tuple[tuple[int, int, str, bytes, bytes | None], ...]
    gone: tuple[int, ...]
    done: asyncio.Future[None]


class RunStore:
    """Belongs to one event loop. Every method raises ``RunsUnavailable`` if the disk fails or the store is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: deque[_Put] = deque()
        self._ready = threading.Condition()
        self._failed = self._closed = False
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="runs-read")
        # A disk that never answers must not keep the process from ending.
        self._thread = threading.Thread(target=self._write_on, name="runs-write", daemon=True)
        self._reading: sqlite3.Connection | None = None
        self._writing: sqlite3.Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> list[Known]:
        """Make the file if it is not there, and return all runs, in the order of their numbers."""
        self._loop = asyncio.get_running_loop()
        await self._aside(self._connect)
        self._thread.start()
        return await self.load()

    async def load(self) -> list[Known]:
        """All runs as they are on the disk. What failed before is forgotten: it was answered so."""
        known = await self._aside(self._load)
        with self._ready:
            self._failed = False
        return known

    def put(self, entries: Sequence[Entry], gone: Sequence[int] = ()) -> asyncio.Future[None]:
        """Append facts, and drop the runs ``gone``, all or nothing; done when that is durable.

        The future raises ``RunsUnavailable`` if nothing of it was written.
        """
        assert self._loop is not None
        done: asyncio.Future[None] = self._loop.create_future()
        put = _Put(tuple(map(_row, entries)), tuple(gone), done)
        with self._ready:
            if self._failed or self._closed:
                done.set_exception(RunsUnavailable("runs cannot be kept now"))
                return done
            self._queue.append(put)
            self._ready.notify()
        return done

    async def read(self, number: int, after: int, limit: int) -> list[tuple[int, Recorded]]:
        """Facts of a run after ``after``, exclusive, with their numbers; those that are durable."""
        return await self._aside(lambda: self._read(number, after, limit))

    async def close(self) -> None:
        """Write what was put and let go of the file."""
        with self._ready:
            self._closed = True
            self._ready.notify()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, CLOSE_WAIT)
        is_stuck = self._thread.is_alive()
        if is_stuck:
            _log.error("%s: the disk does not answer; what was not written is lost", self._path)
        for connection in (self._reading, None if is_stuck else self._writing):
            if connection is not None:
                await asyncio.get_running_loop().run_in_executor(self._executor, connection.close)
        self._executor.shutdown(wait=False)

    async def _aside(self, work: Callable[[], _T]) -> _T:
        """Do what blocks in the reading thread."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except (sqlite3.Error, OSError, msgspec.MsgspecError, ValueError) as error:
            _log.error("%s cannot be read: %s", self._path, error)
            raise RunsUnavailable("runs cannot be read now") from error
        except RuntimeError as error:
            raise RunsUnavailable("runs are closed") from error

    # -- the reading thread ----------------------------------------------------------------

    def _connect(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._writing = self._connection()
        self._writing.execute("PRAGMA journal_mode = WAL")
        self._writing.execute("PRAGMA synchronous = FULL")
        self._check_version(self._writing)
        self._writing.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
        self._path.chmod(0o600)
        sync_folder(self._path.parent)
        self._reading = self._connection()

    def _connection(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=LOCK_WAIT, isolation_level=None, check_same_thread=False)

    def _check_version(self, connection: sqlite3.Connection) -> None:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > VERSION:
            raise ValueError(f"{self._path} is of version {version}, and {VERSION} is the newest that is known here")

    def _load(self) -> list[Known]:
        assert self._reading is not None
        rows = self._reading.execute("SELECT number, seq, state FROM runs ORDER BY number").fetchall()
        return [Known(number, self._folded(number, seq, state)) for number, seq, state in rows]

    def _folded(self, number: int, seq: int | None, state: bytes | None) -> Run:
        run = None
        if state is not None:
            try:
                run = msgspec.msgpack.decode(state, type=Run)
            except msgspec.MsgspecError:
                _log.info("%s: the snapshot of run %s is of another version; all its log is read", self._path, number)
        for found, fact in self._facts(number, (seq or 0) if run is not None else 0, -1):
            run = fold(run, found, fact)
        if run is None:
            raise ValueError(f"run {number} has no log")
        return run

    def _read(self, number: int, after: int, limit: int) -> list[tuple[int, Recorded]]:
        return self._facts(number, after, limit)

    def _facts(self, number: int, after: int, limit: int) -> list[tuple[int, Recorded]]:
        assert self._reading is not None
        rows = self._reading.execute(
            "SELECT seq, fact FROM events WHERE number = ? AND seq > ? ORDER BY seq LIMIT ?", (number, after, limit)
        )
        return [(seq, msgspec.json.decode(fact, type=Recorded)) for seq, fact in rows]

    # -- the writing thread ----------------------------------------------------------------

    def _write_on(self) -> None:
        while puts := self._take():
            error = self._commit(puts)
            if error is not None:
                _log.error("%s cannot be written: %s", self._path, error)
                puts += self._give_up()
            # A loop that has ended without closing the store has nobody left to tell.
            with suppress(RuntimeError):
                assert self._loop is not None
                self._loop.call_soon_threadsafe(_tell, puts, error)

    def _take(self) -> list[_Put]:
        with self._ready:
            self._ready.wait_for(lambda: self._queue or self._closed)
            return [self._queue.popleft() for _ in range(min(len(self._queue), BATCH))]

    def _give_up(self) -> list[_Put]:
        """What was put after something that failed builds on it."""
        with self._ready:
            self._failed = True
            rest = list(self._queue)
            self._queue.clear()
        return rest

    def _commit(self, puts: list[_Put]) -> Exception | None:
        connection = self._writing
        assert connection is not None
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                for put in puts:
                    _write(connection, put)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits must be told and the thread lives on
            return error
        return None


def _row(entry: Entry) -> tuple[int, int, str, bytes, bytes | None]:
    run = entry.run
    is_kept = not run.is_active or run.last_event_seq % SNAPSHOT_EVERY == 0
    state = msgspec.msgpack.encode(run) if is_kept else None
    return entry.number, run.last_event_seq, run.run_id, msgspec.json.encode(entry.fact), state


def _write(connection: sqlite3.Connection, put: _Put) -> None:
    for number, seq, run_id, fact, state in put.rows:
        if seq == 1:
            connection.execute("INSERT INTO runs (number, run_id) VALUES (?, ?)", (number, run_id))
        connection.execute("INSERT INTO events (number, seq, fact) VALUES (?, ?, ?)", (number, seq, fact))
        if state is not None:
            connection.execute("UPDATE runs SET seq = ?, state = ? WHERE number = ?", (seq, state, number))
    for number in put.gone:
        connection.execute("DELETE FROM events WHERE number = ?", (number,))
        connection.execute("DELETE FROM runs WHERE number = ?", (number,))


def _tell(puts: list[_Put], error: Exception | None) -> None:
    for put in puts:
        if put.done.done():
            continue
        if error is None:
            put.done.set_result(None)
        else:
            put.done.set_exception(RunsUnavailable("runs cannot be kept now"))

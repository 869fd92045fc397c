"""Reading beside the writer: a few connections of their own in a few threads of their own.

Facts are fetched many at a time as one JSON text and decoded in one go: SQLite gives the interpreter lock away for
every row that Python asks for, and beside a busy event loop winning it back costs up to 5 ms (measured: 560
events/s row by row, 50,000 in lumps; beside an idle loop the two are equal).
"""

from __future__ import annotations

import asyncio
import heapq
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import msgspec

from dragoman.hub.errors import StorageUnavailable
from dragoman.hub.events import AnyFact, Event, decode_fact
from dragoman.hub.journal import Snapshot

from .schema import connect, damaged, is_damage

READERS = 2
"""Threads that read, each with a connection."""

LUMP_BYTES = 256 * 1024
"""About how much is decoded in one go, so that the event loop gets its turn in between."""

LUMP_EVENTS = 512
"""How many events are decoded in one go at most."""

_FIRST_LUMP = 64

_T = TypeVar("_T")
_ranged = msgspec.json.Decoder(list[tuple[int, int, int, AnyFact]])
_integers = msgspec.json.Decoder(list[int])
_pairs = msgspec.json.Decoder(list[tuple[int, int]])
_placed = msgspec.json.Decoder(list[tuple[str, int, int, int, AnyFact]])

_RANGE = (
    "SELECT '[' || group_concat('[' || seq || ',' || at || ',' || epoch || ',' || fact || ']') || ']' FROM"
    " (SELECT seq, at, epoch, fact FROM events WHERE number = ? AND seq BETWEEN ? AND ? ORDER BY seq)"
)

_PLACED = (
    "SELECT '[' || group_concat("
    "'[' || json_quote(session) || ',' || seq || ',' || at || ',' || epoch || ',' || fact || ']') || ']' FROM"
    " (SELECT session, seq, at, epoch, fact FROM events JOIN sessions USING (number) WHERE {} ORDER BY position)"
)
_FACTS = "SELECT session, seq, CAST(fact AS BLOB) FROM events JOIN sessions USING (number) WHERE {} ORDER BY position"
_CHANGED = (
    "SELECT '[' || group_concat('[' || changed || ',' || number || ']') || ']' FROM"
    " (SELECT changed, number FROM sessions"
    " WHERE session IN (SELECT value FROM json_each(?)) AND dropped_at IS NULL ORDER BY changed DESC)"
)
_NEWEST = (
    "SELECT position FROM events JOIN sessions USING (number) WHERE position <= ? AND dropped_at IS NULL"
    " AND (? = '' OR json_extract(fact, '$.type') IN (SELECT value FROM json_each(?)))"
    " ORDER BY position DESC LIMIT ?"
)
_NEWEST_OF = (
    "SELECT position FROM events WHERE number = ? AND position <= ?"
    " AND (? = '' OR json_extract(fact, '$.type') IN (SELECT value FROM json_each(?)))"
    " ORDER BY seq DESC LIMIT ?"
)
_POSITIONS = "SELECT '[' || group_concat(position) || ']' FROM ({})"


class Readers:
    """The pool. ``epochs`` (number -> epoch) is shared with whoever adds to it before such an event is written."""

    def __init__(self, path: Path, epochs: Mapping[int, str], *, threads: int = READERS) -> None:
        self._path = path
        self._epochs = epochs
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="journal-read")
        self._idle: SimpleQueue[sqlite3.Connection] = SimpleQueue()

    async def run(self, work: Callable[[], _T]) -> _T:
        """Anything that would block the loop, in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def events(self, session: str, number: int, first: int, last: int) -> list[Event]:
        """Events ``first`` to ``last``. Raises ``DataFolderError`` if one is missing or cannot be decoded."""
        return await self._query(lambda connection: _Log(connection, self._epochs).read(session, number, first, last))

    async def newest(
        self, limit: int, last: int, sessions: Sequence[str] | None, facts: Collection[str] | None = None
    ) -> list[tuple[str, Event]]:
        """The newest events up to position ``last``, oldest first; of these facts only, where any are named."""
        return await self._query(lambda connection: _Log(connection, self._epochs).newest(limit, last, sessions, facts))

    async def key(self, number: int, key: str) -> int | None:
        """The ``seq`` stored for a key."""
        query = "SELECT seq FROM keys WHERE number = ? AND key = ?"
        found = await self._query(lambda connection: connection.execute(query, (number, key)).fetchone())
        return None if found is None else int(found[0])

    async def snapshot(self, number: int) -> Snapshot | None:
        """The stored snapshot."""
        query = "SELECT seq, data FROM snapshots WHERE number = ?"
        found = await self._query(lambda connection: connection.execute(query, (number,)).fetchone())
        return None if found is None else Snapshot(found[0], found[1])

    async def alias(self, dialect: str, principal: str, name: str) -> str | None:
        """The stored binding."""
        query = "SELECT CAST(session AS BLOB) FROM aliases WHERE dialect = ? AND principal = ? AND name = ?"
        found = await self._query(lambda connection: connection.execute(query, (dialect, principal, name)).fetchone())
        return None if found is None else bytes(found[0]).decode()

    async def close(self) -> None:
        """Wait for what is being read and give the connections up."""
        await asyncio.to_thread(self._pool.shutdown)
        while not self._idle.empty():
            self._idle.get().close()

    async def _query(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        return await self.run(lambda: self._with_connection(work))

    def _with_connection(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        try:
            connection = self._take()
            try:
                return work(connection)
            finally:
                self._idle.put(connection)
        except _Damage as error:
            raise damaged(self._path, str(error)) from error
        except sqlite3.Error as error:
            if is_damage(error):
                raise damaged(self._path, str(error)) from error
            raise StorageUnavailable(f"the journal cannot be read: {error}") from error

    def _take(self) -> sqlite3.Connection:
        try:
            return self._idle.get_nowait()
        except Empty:
            connection = connect(self._path, "ro")
            # JSON goes into the decoder as it is.
            connection.text_factory = bytes
            return connection


class _Damage(Exception):
    """What is stored is not what was: a hole, or something unreadable."""


class _Log:
    """Reads events. What is stored of a session never changes, it can only go as a whole."""

    def __init__(self, connection: sqlite3.Connection, epochs: Mapping[int, str]) -> None:
        self._connection = connection
        self._epochs = epochs

    def read(self, session: str, number: int, first: int, last: int) -> list[Event]:
        events: list[Event] = []
        step = _FIRST_LUMP
        while first <= last:
            upto = min(first + step - 1, last)
            lump = self._one(_RANGE, number, first, upto) or b"[]"
            rows = self._decode(_ranged, lump, "number = ? AND seq BETWEEN ? AND ?", number, first, upto)
            if [row[0] for row in rows] != list(range(first, upto + 1)):
                raise _Damage(f"session {session}, seq {_first_hole(first, [row[0] for row in rows])} is missing")
            events += [Event(seq, at, self._epoch(epoch), fact) for seq, at, epoch, fact in rows]
            first, step = upto + 1, _next_step(step, len(lump))
        return events

    def newest(
        self, limit: int, last: int, sessions: Sequence[str] | None, facts: Collection[str] | None
    ) -> list[tuple[str, Event]]:
        tags = "" if facts is None else msgspec.json.encode(sorted(facts)).decode()
        # In one transaction: a session that is just being taken off the disk is not a damaged one.
        self._connection.execute("BEGIN")
        try:
            if sessions is None:
                positions = self._newest_of_all(limit, last, tags)
            else:
                positions = self._newest_of(limit, last, sessions, tags)
            return self._at(positions, whole=facts is None)
        finally:
            self._connection.execute("COMMIT")

    def _newest_of_all(self, limit: int, last: int, tags: str) -> list[int]:
        """Positions in ascending order."""
        return sorted(self._positions(_NEWEST, last, tags, tags, limit))

    def _newest_of(self, limit: int, last: int, sessions: Sequence[str], tags: str) -> list[int]:
        """Positions in ascending order. Sessions that cannot have any of the newest are not looked into."""
        candidates = self._one(_CHANGED, msgspec.json.encode(sessions).decode())
        newest: list[int] = []
        for changed, number in [] if candidates is None else _pairs.decode(candidates):
            if len(newest) == limit and changed < newest[0]:
                break
            for position in self._positions(_NEWEST_OF, number, last, tags, tags, limit):
                if len(newest) < limit:
                    heapq.heappush(newest, position)
                else:
                    heapq.heappushpop(newest, position)
        return sorted(newest)

    def _at(self, positions: list[int], *, whole: bool) -> list[tuple[str, Event]]:
        """The events at these positions; ``whole``: they hold the newest of some sessions without a hole."""
        events: list[tuple[str, Event]] = []
        heads: dict[str, int] = {}
        step = _FIRST_LUMP
        while positions:
            wanted, positions = positions[:step], positions[step:]
            chosen = f"position IN ({','.join(map(str, wanted))})"
            lump = self._one(_PLACED.format(chosen)) or b"[]"
            for session, seq, at, epoch, fact in self._decode(_placed, lump, chosen):
                if whole and seq != heads.get(session, seq - 1) + 1:
                    raise _Damage(f"session {session}, seq {heads[session] + 1} is missing")
                heads[session] = seq
                events.append((session, Event(seq, at, self._epoch(epoch), fact)))
            step = _next_step(step, len(lump))
        return events

    def _epoch(self, number: int) -> str:
        try:
            return self._epochs[number]
        except KeyError:
            raise _Damage(f"no epoch has the number {number}") from None

    def _decode(self, decoder: msgspec.json.Decoder[list[_T]], lump: bytes, where: str, *values: int) -> list[_T]:
        try:
            return decoder.decode(lump)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._culprit(where, *values) from error

    def _culprit(self, where: str, *values: int) -> _Damage:
        """Which of the events cannot be decoded."""
        for session, seq, fact in self._connection.execute(_FACTS.format(where), values):
            try:
                decode_fact(fact)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                return _Damage(f"session {session.decode()}, seq {seq} cannot be decoded: {error}")
        return _Damage(f"events where {where} {values} cannot be decoded")

    def _positions(self, query: str, *values: int | str) -> list[int]:
        lump = self._one(_POSITIONS.format(query), *values)
        return [] if lump is None else _integers.decode(lump)

    def _one(self, query: str, *values: int | str) -> Any:
        row = self._connection.execute(query, values).fetchone()
        return None if row is None else row[0]


def _first_hole(first: int, found: Sequence[int]) -> int:
    for seq in found:
        if seq != first:
            break
        first += 1
    return first


def _next_step(step: int, size: int) -> int:
    """Half as many events at a time if they are large, twice as many if they are small."""
    return max(step // 2, 1) if size > LUMP_BYTES else min(step * 2, LUMP_EVENTS)

"""One transaction's worth of changes, and the statements that write it.

Everything in a batch may be written again after a failure without harm, except its events; ``is_stored`` tells
whether they made it, for the case that a COMMIT failed and succeeded at once.
"""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from dragoman.hub.journal import SessionRow

encode_row = msgspec.json.Encoder().encode
"""A session's row as JSON."""

Value = int | str | bytes | None
"""What a statement's parameter may be."""

Order = tuple[str, tuple[Value, ...]]
"""A statement and its parameters."""


class Bulk:
    """One INSERT for many rows, in as few statements as possible.

    SQLite gives the interpreter lock away for every statement and must win it back from a busy event loop, which
    costs up to 5 ms each; ``executemany`` pays that for every row (measured beside a spinning thread: 400 rows/s,
    against 12,000 in statements of up to 128 rows). The sizes are powers of two, so that few statements do for any
    number of rows and all of them stay prepared.
    """

    _SIZES = (128, 64, 32, 16, 8, 4, 2, 1)

    def __init__(self, head: str, row: str, tail: str = "") -> None:
        self._width = row.count("?")
        self._statements = [(size, f"{head} VALUES {','.join([row] * size)} {tail}") for size in self._SIZES]

    def insert(self, connection: sqlite3.Connection, values: list[Value]) -> None:
        """Insert the rows whose columns ``values`` holds one after the other."""
        start = 0
        for size, statement in self._statements:
            step = size * self._width
            while len(values) - start >= step:
                connection.execute(statement, values[start : start + step])
                start += step


_EPOCHS = Bulk("INSERT OR IGNORE INTO epochs (number, epoch)", "(?,?)")
_EVENTS = Bulk("INSERT INTO events (position, number, seq, at, epoch, fact)", "(?,?,?,?,?,CAST(? AS TEXT))")
_ROWS = Bulk(
    "INSERT INTO sessions (number, session, head, changed, row)",
    "(?,?,?,?,CAST(? AS TEXT))",
    "ON CONFLICT (number) DO UPDATE SET head = excluded.head, changed = excluded.changed, row = excluded.row",
)
_KEYS = Bulk("INSERT OR IGNORE INTO keys (number, key, seq)", "(?,?,?)")
_SNAPSHOTS = Bulk(
    "INSERT INTO snapshots (number, seq, data)",
    "(?,?,?)",
    "ON CONFLICT (number) DO UPDATE SET seq = excluded.seq, data = excluded.data",
)


class Row(NamedTuple):
    """A session's row after a change, as the columns of ``sessions``; ``changed`` is the change's position."""

    number: int
    session: str
    head: int
    changed: int
    row: bytes


class MovedRow(msgspec.Struct, frozen=True, gc=False):
    """A row of which only place and time changed since ``base``: encoded once for a batch, not for each of its events.

    Nothing of it can be what no disk holds: ``base`` was encoded when it was given.
    """

    number: int
    session: str
    head: int
    changed: int
    base: SessionRow
    at: int

    def encoded(self) -> Row:
        """As the row that it stands for."""
        row = msgspec.structs.replace(self.base, head=self.head, changed_at=self.at)
        return Row(self.number, self.session, self.head, self.changed, encode_row(row))


@dataclass(slots=True, eq=False)
class Batch:
    """Changes in the order they take effect: everything but ``orders``, then ``orders``.

    A batch that holds an order takes nothing else after it. ``size`` is in bytes of facts and snapshots.
    """

    size: int = 0
    count: int = 0
    position: int = 0
    epochs: list[Value] = field(default_factory=list)
    events: list[Value] = field(default_factory=list)
    rows: dict[int, Row | MovedRow] = field(default_factory=dict)
    keys: list[Value] = field(default_factory=list)
    keyed: list[tuple[str, str]] = field(default_factory=list)
    snapshots: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    orders: list[Order] = field(default_factory=list)
    purged: list[int] = field(default_factory=list)
    waiters: list[asyncio.Future[None]] = field(default_factory=list)

    def add_event(self, row: Row | MovedRow, seq: int, at: int, epoch: int, fact: bytes) -> None:
        """One event, at the position of its row's change."""
        self.events += (row.changed, row.number, seq, at, epoch, fact)
        self.rows[row.number] = row
        self.position = row.changed
        self.size += len(fact)
        self.count += 1

    def add_key(self, row: Row | MovedRow, key: str) -> None:
        """Make the event that ``row`` came with findable. The first event of a key keeps it."""
        self.keys += (row.number, key, row.head)
        self.keyed.append((row.session, key))

    def add_snapshot(self, number: int, seq: int, data: bytes) -> None:
        """The last one of a session wins."""
        self.snapshots[number] = (seq, data)
        self.size += len(data)
        self.count += 1

    def add_orders(self, *orders: Order) -> None:
        """Statements to run after all else, which may be run twice without harm."""
        self.orders += orders
        self.count += 1

    def heads(self) -> dict[str, int]:
        """Session -> the highest ``seq`` that this batch makes durable."""
        return {row.session: row.head for row in self.rows.values()}

    def write(self, connection: sqlite3.Connection) -> None:
        """Run all statements, inside a transaction."""
        _EPOCHS.insert(connection, self.epochs)
        _EVENTS.insert(connection, self.events)
        rows = (row.encoded() if isinstance(row, MovedRow) else row for row in self.rows.values())
        _ROWS.insert(connection, [value for row in rows for value in row])
        _KEYS.insert(connection, self.keys)
        _SNAPSHOTS.insert(connection, [v for number, held in self.snapshots.items() for v in (number, *held)])
        for statement, values in self.orders:
            connection.execute(statement, values)

    def is_stored(self, connection: sqlite3.Connection) -> bool:
        """Whether an earlier attempt took effect although it was reported as failed."""
        if not self.events:
            return False
        found = connection.execute("SELECT 1 FROM events WHERE position = ?", (self.position,)).fetchone()
        return found is not None


def bind_order(dialect: str, principal: str, name: str, session: str) -> Order:
    """Let a client's string stand for a session."""
    return "INSERT OR REPLACE INTO aliases VALUES (?,?,?,?)", (dialect, principal, name, session)


def drop_orders(session: str, number: int, head: int, changed: int, dropped_at: int, row: bytes) -> tuple[Order, ...]:
    """Make a session a tombstone. Its log may be long: it is only marked, and goes bit by bit, also after a restart."""
    return (
        (
            "UPDATE sessions SET head = ?, changed = ?, dropped_at = ?, row = CAST(? AS TEXT) WHERE number = ?",
            (head, changed, dropped_at, row, number),
        ),
        ("DELETE FROM snapshots WHERE number = ?", (number,)),
        ("DELETE FROM aliases WHERE session = ?", (session,)),
        ("INSERT OR IGNORE INTO purges VALUES (?)", (number,)),
    )


def forget_orders(session: str, number: int) -> tuple[Order, ...]:
    """Remove a tombstone."""
    return (
        ("DELETE FROM sessions WHERE number = ?", (number,)),
        ("DELETE FROM aliases WHERE session = ?", (session,)),
    )

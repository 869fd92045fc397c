"""sqlite3 alone, as durable as ours: ``python -m bench.bare.sqlite FOLDER EVENTS``

Writes events of the same size in transactions of 200, then reads them back in order and decodes each with msgspec into
the same type. Prints both as events per second.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from pathlib import Path
from typing import Literal

import msgspec

BATCH = 200


class Delta(msgspec.Struct, frozen=True, tag_field="type", tag="part.delta"):
    """As the hub's own, without what it is not given."""

    turn: str
    part: str
    kind: Literal["text", "reasoning", "tool_input"]
    text: str


class Note(msgspec.Struct, frozen=True, tag_field="type", tag="note"):
    """Makes the type a union, as a log's must be."""

    text: str


def main(folder: Path, events: int) -> None:
    path = folder / "bare.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE events (session INTEGER, seq INTEGER, at INTEGER, fact BLOB)")
    connection.execute("CREATE UNIQUE INDEX by_seq ON events (session, seq)")
    written, read = _write(connection, events), _read(connection, events)
    connection.close()
    print(json.dumps({"written": written, "read": read}), flush=True)


def _write(connection: sqlite3.Connection, events: int) -> float:
    encode = msgspec.json.Encoder().encode
    fact = Delta("00000000-0000-4000-8000-000000000000", "part-1", "text", "x" * 110)
    began = time.perf_counter()
    for first in range(0, events, BATCH):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO events VALUES (?, ?, ?, ?)",
            [
                (number % BATCH, number // BATCH, 1_700_000_000_000, encode(fact))
                for number in range(first, first + BATCH)
            ],
        )
        connection.execute("COMMIT")
    return events / (time.perf_counter() - began)


def _read(connection: sqlite3.Connection, events: int) -> float:
    decode = msgspec.json.Decoder(Delta | Note).decode
    began = time.perf_counter()
    found = [
        (seq, at, decode(fact))
        for seq, at, fact in connection.execute("SELECT seq, at, fact FROM events ORDER BY rowid")
    ]
    taken = time.perf_counter() - began
    assert len(found) == events
    return events / taken


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

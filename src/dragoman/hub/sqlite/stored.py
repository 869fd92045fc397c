"""What a store holds when it is opened: all that the journal keeps in memory of it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dragoman.hub.errors import DataFolderError
from dragoman.hub.journal import SessionRow

from .schema import Schema, damaged, prepare
from .writer import connect_writer

_decode_row = msgspec.json.Decoder(SessionRow).decode


@dataclass(frozen=True, slots=True)
class Stored:
    """``rows`` are with their numbers, newest change last; ``position`` and ``number`` are the highest in use."""

    connection: sqlite3.Connection
    rows: list[tuple[SessionRow, int]]
    epochs: dict[int, str]
    purges: list[int]
    position: int
    number: int


def load(path: Path, schema: Schema, factory: type[sqlite3.Connection]) -> Stored:
    """Make or check the file and read its index. The connection is the one to write with.

    Raises ``DataFolderError`` when the file cannot be used.
    """
    prepare(path, schema)
    try:
        connection = connect_writer(path, factory)
    except sqlite3.Error as error:
        raise DataFolderError(f"cannot use {path}: {error}") from error
    try:
        return _read(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise damaged(path, str(error)) from error
    except DataFolderError:
        connection.close()
        raise


def _read(connection: sqlite3.Connection, path: Path) -> Stored:
    position, number = connection.execute(
        "SELECT max(ifnull((SELECT max(position) FROM events), 0), ifnull((SELECT max(changed) FROM sessions), 0)),"
        " max(ifnull((SELECT max(number) FROM sessions), 0), ifnull((SELECT max(number) FROM purges), 0))"
    ).fetchone()
    return Stored(
        connection,
        rows=_rows(connection, path),
        epochs=dict(connection.execute("SELECT number, epoch FROM epochs").fetchall()),
        purges=[purge for (purge,) in connection.execute("SELECT number FROM purges")],
        position=position,
        number=number,
    )


def _rows(connection: sqlite3.Connection, path: Path) -> list[tuple[SessionRow, int]]:
    rows = []
    for session, number, row in connection.execute(
        "SELECT session, number, CAST(row AS BLOB) FROM sessions ORDER BY changed"
    ):
        try:
            rows.append((_decode_row(row), number))
        except msgspec.MsgspecError as error:
            raise damaged(path, f"the row of session {session}: {error}") from error
    return rows

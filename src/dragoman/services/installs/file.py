"""The file: one row for each install, in SQLite, for its owner's eyes only.

It is written seldom, so it has a rollback journal rather than a write-ahead log: one file, which can be read from a
disk that takes nothing. All of it belongs to one thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from dragoman.hub.durable_folder import sync_folder

from .problems import InstallsUnavailable
from .records import Install, InstallRecord

APPLICATION_ID = 0x4452474E
"""``DRGN``: the mark in the file's header that says whose it is."""

VERSION = 1
"""``PRAGMA user_version``: the form of the tables."""

NAME = "installs.db"

BUSY_SECONDS = 1.0
"""Wait for somebody with an SQLite shell who holds the file."""

_TABLE = """CREATE TABLE installs (
    install_id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL UNIQUE,
    digest BLOB NOT NULL UNIQUE,
    operating_system TEXT,
    registered_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
) WITHOUT ROWID"""

_COLUMNS = "digest, user_id, install_id, operating_system, registered_at, used_at"


class Row(NamedTuple):
    """A token's digest, and whose it is."""

    digest: bytes
    record: InstallRecord


class InstallFile:
    """``installs.db`` in ``folder``, which it makes when it is first opened.

    Whatever fails raises ``InstallsUnavailable`` and leaves the file as it was; the next call tries again.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / NAME
        self._connection: sqlite3.Connection | None = None

    def load(self) -> list[Row]:
        """Every install, in the order in which they registered; a first time makes the file."""
        try:
            found = self._open().execute(f"SELECT {_COLUMNS} FROM installs ORDER BY registered_at, install_id")  # noqa: S608  our own columns
            return [_row(values) for values in found]
        except (OSError, sqlite3.Error) as problem:
            raise self._failed("read", problem) from problem

    def add(self, row: Row) -> None:
        """Keep a new install; on disk when this returns."""
        record = row.record
        values = (
            row.digest,
            record.install.user_id,
            record.install.install_id,
            record.operating_system,
            record.registered_at,
            record.used_at,
        )
        self._write(f"INSERT INTO installs ({_COLUMNS}) VALUES (?,?,?,?,?,?)", [values])  # noqa: S608  our own columns

    def remove(self, install_ids: Iterable[str]) -> bool:
        """Forget installs, for good when this returns. Whether there was any."""
        return self._write("DELETE FROM installs WHERE install_id = ?", [(install_id,) for install_id in install_ids])

    def use(self, install_id: str, at: int) -> None:
        """Note when an install was last used (milliseconds since 1970)."""
        self._write("UPDATE installs SET used_at = max(used_at, ?) WHERE install_id = ?", [(at, install_id)])

    def close(self) -> None:
        """Let go of the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _write(self, statement: str, rows: list[tuple[object, ...]]) -> bool:
        try:
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            changed = connection.executemany(statement, rows).rowcount
            connection.execute("COMMIT")
        except (OSError, sqlite3.Error) as problem:
            raise self._failed("written", problem) from problem
        return changed > 0

    def _failed(self, verb: str, problem: OSError | sqlite3.Error) -> InstallsUnavailable:
        """To close is to roll back: whoever opens it next finds the whole of what was committed, and no more."""
        with suppress(sqlite3.Error):
            self.close()
        reason = (problem.strerror if isinstance(problem, OSError) else None) or problem
        return InstallsUnavailable(f"{self._path} cannot be {verb}: {reason}")

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_private(self._folder, 0o700)
            if not self._path.exists():
                self._make()
            _make_private(self._path, 0o600)
            connection = _connected(self._path)
            try:
                self._check(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _make(self) -> None:
        """Make it aside and move it into place, so that what has its name is always whole."""
        fresh = self._path.with_name(f"{NAME}.new")
        for leftover in (fresh, fresh.with_name(f"{fresh.name}-journal")):
            leftover.unlink(missing_ok=True)
        fresh.touch(mode=0o600, exist_ok=False)
        with closing(_connected(fresh)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        fresh.replace(self._path)
        sync_folder(self._folder)

    def _check(self, connection: sqlite3.Connection) -> None:
        if _number(connection, "application_id") != APPLICATION_ID:
            raise InstallsUnavailable(f"{self._path} belongs to another program: move it away")
        version = _number(connection, "user_version")
        if version != VERSION:
            raise InstallsUnavailable(
                f"{self._path} was written by another dragoman (format {version}; this one knows {VERSION})"
            )


def _connected(path: Path) -> sqlite3.Connection:
    """A connection of one thread that makes no file. EXTRA: a commit's end, a name that goes, is on disk as well."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw",
        uri=True,
        isolation_level=None,
        timeout=BUSY_SECONDS,
        check_same_thread=False,  # whoever holds it may be dropped in any
    )
    try:
        connection.execute("PRAGMA synchronous = EXTRA")
    except BaseException:
        connection.close()
        raise
    return connection


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _make_private(path: Path, mode: int) -> None:
    """Take from others what somebody's copying or umask gave them."""
    if path.stat().st_mode & 0o077:
        path.chmod(mode)


def _row(values: tuple[bytes, str, str, str | None, int, int]) -> Row:
    digest, user_id, install_id, operating_system, registered_at, used_at = values
    record = InstallRecord(Install(user_id, install_id), operating_system, registered_at, used_at)
    return Row(digest, record)

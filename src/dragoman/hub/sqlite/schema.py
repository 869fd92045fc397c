"""The file: its tables, how it is told apart from others, made, checked and brought up to date.

Until every check has passed the file is only read, without leaving a trace beside it, so that a refused file is
the same afterwards byte for byte.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import msgspec

from dragoman.hub.durable_folder import sync_folder
from dragoman.hub.errors import DataFolderError
from dragoman.hub.events import decode_fact

APPLICATION_ID = 0x4452474D
"""``DRGM``: the mark in the file's header that says whose it is."""

QUICK_CHECK_BYTES = 8 * 1024 * 1024
"""A file up to this size is checked page by page when it is opened; of a larger one only its ends are looked at."""

CHECKED_SESSIONS = 64
"""How many of the sessions that changed last must reach as far as their row says."""

CHECKED_EVENTS = 64
"""How many of the newest events must be readable."""

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100

Migration = Callable[[sqlite3.Connection], None]
"""Takes the tables one version further, inside a transaction that someone else opened and will commit."""

Shape = dict[str, tuple[str, ...]]
"""Table, index or view -> its columns."""


@dataclass(frozen=True, slots=True)
class Schema:
    """What the file must look like: the statements that make a new one, and the steps from every older version.

    ``migrations[0]`` takes version 1 to 2, and so on; so the version is one more than there are steps.
    """

    statements: tuple[str, ...]
    migrations: tuple[Migration, ...] = ()

    @property
    def version(self) -> int:
        """The number in ``PRAGMA user_version``."""
        return 1 + len(self.migrations)

    def shape(self) -> Shape:
        """What ``statements`` make, as SQLite sees it."""
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            for statement in self.statements:
                connection.execute(statement)
            return _shape_of(connection)


SCHEMA = Schema(
    statements=(
        # ``position`` counts all changes of the store, events and drops alike; ``changed`` is the newest of a session.
        """CREATE TABLE sessions (
            number INTEGER PRIMARY KEY,
            session TEXT NOT NULL UNIQUE,
            head INTEGER NOT NULL,
            changed INTEGER NOT NULL,
            dropped_at INTEGER,
            row TEXT NOT NULL
        )""",
        "CREATE TABLE epochs (number INTEGER PRIMARY KEY, epoch TEXT NOT NULL UNIQUE)",
        """CREATE TABLE events (
            position INTEGER PRIMARY KEY,
            number INTEGER NOT NULL,
            seq INTEGER NOT NULL,
            at INTEGER NOT NULL,
            epoch INTEGER NOT NULL,
            fact TEXT NOT NULL
        )""",
        "CREATE UNIQUE INDEX events_by_session ON events (number, seq)",
        """CREATE TABLE keys (
            number INTEGER NOT NULL, key TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (number, key)
        ) WITHOUT ROWID""",
        "CREATE TABLE snapshots (number INTEGER PRIMARY KEY, seq INTEGER NOT NULL, data BLOB NOT NULL)",
        """CREATE TABLE aliases (
            dialect TEXT NOT NULL, principal TEXT NOT NULL, name TEXT NOT NULL, session TEXT NOT NULL,
            PRIMARY KEY (dialect, principal, name)
        ) WITHOUT ROWID""",
        "CREATE INDEX aliases_by_session ON aliases (session)",
        # Sessions whose log is gone for every reader but not yet taken off the disk.
        "CREATE TABLE purges (number INTEGER PRIMARY KEY)",
        # For people with an SQLite shell.
        """CREATE VIEW log AS
            SELECT position, session, seq, at, epochs.epoch AS epoch, fact
            FROM events JOIN sessions USING (number) JOIN epochs ON epochs.number = events.epoch
            WHERE dropped_at IS NULL""",
    )
)
"""The one this program writes."""


def damaged(path: Path, what: str) -> DataFolderError:
    """The refusal of a file that is ours but broken."""
    return DataFolderError(f"{path} is damaged ({what}): restore it from a backup, or move it away to start empty")


def prepare(path: Path, schema: Schema = SCHEMA) -> None:
    """Leave a sound file of this program's version at ``path``: made, checked or migrated.

    Raises ``DataFolderError`` and changes nothing when what lies there is not that.
    """
    try:
        if _is_missing(path):
            _create(path, schema)
            return
        _refuse_strangers(path, schema)
        with _looking(path) as connection:
            version = _check(connection, path, schema)
        if version < schema.version:
            _migrate(path, schema, version)
    except OSError as error:
        raise DataFolderError(f"cannot use {path}: {error.strerror or error}") from error


def connect(path: Path, mode: str, factory: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    """A connection that any one thread at a time may use. ``mode`` is ``ro`` or ``rw``; neither makes a file."""
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        factory=factory,
    )


def is_damage(error: sqlite3.Error) -> bool:
    """Whether SQLite says that the file itself is broken, not just that it could not be used now."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_missing(path: Path) -> bool:
    if _size(path) > 0:
        return False
    # A write-ahead log without its file would be replayed into the new one: somebody else's pages.
    if _size(_beside(path, "-wal")) > 0:
        raise damaged(path, "it is missing or empty, but its -wal file is there")
    return True


def _create(path: Path, schema: Schema) -> None:
    """Make the file aside and move it into place, so that what stands at ``path`` is always whole."""
    fresh = _beside(path, ".new")
    for leftover in (fresh, _beside(fresh, "-journal"), _beside(fresh, "-wal"), _beside(fresh, "-shm")):
        leftover.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with closing(connect(fresh, "rw")) as connection:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            with transaction(connection):
                for statement in schema.statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {schema.version}")
            connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error as error:
        raise DataFolderError(f"cannot make {path}: {error}") from error
    fresh.replace(path)
    sync_folder(path.parent)


def _refuse_strangers(path: Path, schema: Schema) -> None:
    """Tell by the header's bytes, before SQLite may touch anything."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise DataFolderError(
            f"{path} is not a dragoman journal (not even an SQLite file): move it away or choose another data folder"
        )
    _refuse_foreign(path, int.from_bytes(header[68:72], "big"))
    _refuse_newer(path, int.from_bytes(header[60:64], "big"), schema)


def _refuse_foreign(path: Path, application: int) -> None:
    if application != APPLICATION_ID:
        raise DataFolderError(
            f"{path} belongs to another program (application id {application:#x}): choose another data folder"
        )


def _refuse_newer(path: Path, version: int, schema: Schema) -> None:
    if version > schema.version:
        raise DataFolderError(
            f"{path} was written by a newer dragoman (format {version}; this one knows up to {schema.version}): "
            "update dragoman or choose another data folder"
        )


@contextmanager
def _looking(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that changes nothing: without a write-ahead log not even the files beside are made."""
    wal, shm = _beside(path, "-wal"), _beside(path, "-shm")
    had_shm = shm.exists()
    query = "mode=ro" if _size(wal) > 0 else "immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?{query}", uri=True, isolation_level=None)) as connection:
            yield connection
    except sqlite3.Error as error:
        if is_damage(error):
            raise damaged(path, str(error)) from error
        raise DataFolderError(f"cannot read {path}: {error}") from error
    finally:
        if not had_shm:
            shm.unlink(missing_ok=True)


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _check(connection: sqlite3.Connection, path: Path, schema: Schema) -> int:
    """Refuse what this program cannot have written; return the version that it has."""
    _refuse_foreign(path, _number(connection, "PRAGMA application_id"))
    version = _number(connection, "PRAGMA user_version")
    _refuse_newer(path, version, schema)
    if version < 1:
        raise damaged(path, f"format {version} never was")
    _check_pages(connection, path)
    if version == schema.version:
        _check_shape(connection, path, schema)
        _check_ends(connection, path)
    return version


def _check_pages(connection: sqlite3.Connection, path: Path) -> None:
    size = _number(connection, "PRAGMA page_count") * _number(connection, "PRAGMA page_size")
    if size > QUICK_CHECK_BYTES:
        return
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise damaged(path, " ".join(str(found).split()))


def _check_shape(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    found, wanted = _shape_of(connection), schema.shape()
    for name in sorted(wanted.keys() | found.keys()):
        if found.get(name) != wanted.get(name):
            raise damaged(path, f"table {name} is not as it should be")


def _shape_of(connection: sqlite3.Connection) -> Shape:
    found = connection.execute(
        "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c"
        " UNION ALL SELECT m.name, c.name FROM sqlite_master AS m, pragma_index_info(m.name) AS c"
    )
    shape: Shape = {}
    for name, column in found:
        shape[name] = (*shape.get(name, ()), column)
    return shape


def _check_ends(connection: sqlite3.Connection, path: Path) -> None:
    """The ends of the newest logs: what a crash or a bad copy harms first."""
    short = connection.execute(
        "SELECT session, head, top FROM (SELECT session, head,"
        " (SELECT max(seq) FROM events WHERE events.number = newest.number) AS top"
        " FROM (SELECT number, session, head FROM sessions WHERE dropped_at IS NULL"
        " ORDER BY changed DESC LIMIT ?) AS newest) WHERE top IS NOT head LIMIT 1",
        (CHECKED_SESSIONS,),
    ).fetchone()
    if short is not None:
        raise damaged(path, f"session {short[0]} should end at seq {short[1]} and ends at {short[2] or 0}")
    newest = connection.execute(
        "SELECT session, seq, CAST(fact AS BLOB) FROM events JOIN sessions USING (number)"
        " ORDER BY position DESC LIMIT ?",
        (CHECKED_EVENTS,),
    )
    for session, seq, fact in newest:
        try:
            decode_fact(fact)
        except msgspec.MsgspecError as error:
            raise damaged(path, f"session {session}, seq {seq}: {error}") from error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing: COMMIT at the end, ROLLBACK on any exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _migrate(path: Path, schema: Schema, version: int) -> None:
    """All missing steps in one transaction: the file is of the old version or of the new one, nothing between."""
    try:
        with closing(connect(path, "rw")) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            with transaction(connection):
                for step in schema.migrations[version - 1 :]:
                    step(connection)
                _check_shape(connection, path, schema)
                connection.execute(f"PRAGMA user_version = {schema.version}")
            # The header must tell the version without the help of the write-ahead log.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except (sqlite3.Error, DataFolderError) as error:
        raise DataFolderError(
            f"cannot bring {path} from format {version} to {schema.version} ({error}); it was left as it was"
        ) from error

"""The file: the changes of all users, in SQLite, for its owner's eyes only.

It is written seldom, so it has a rollback journal rather than a write-ahead log: one file, which can be read from a
disk that takes nothing. All of it belongs to one thread.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from dragoman.hub.durable_folder import sync_folder
from dragoman.hub.errors import LimitReached, StorageUnavailable
from dragoman.hub.events import Json
from dragoman.hub.sqlite.schema import connect, transaction

log = logging.getLogger("dragoman.user_settings")

NAME = "user-settings.db"
APPLICATION_ID = 0x64726773
VERSION = 1

KEPT = 64
"""Changes of a user that are kept one by one; of more, the oldest are one row, which is what they fold to."""

SETTINGS_BYTES = 32 * 1024
"""Of all settings of one user together, as JSON; so much a change may have, too."""

USERS = 100_000
"""Users whose settings are kept: whoever may say who they are could else fill the disk with names."""

REMEMBERED = 256
"""Users whose settings are held in memory."""

_TABLES = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
CREATE TABLE changes (
    user TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, changes BLOB NOT NULL, PRIMARY KEY (user, seq)
) WITHOUT ROWID;
CREATE TABLE users (user TEXT PRIMARY KEY) WITHOUT ROWID;
COMMIT;
"""


class SettingsUnavailable(StorageUnavailable):
    """They cannot be read or written now; nothing was changed. ``str()`` names no path: it may go to a client."""


class _Unusable(Exception):
    """The file is none of ours. ``str()`` says what it is."""


class SettingsFile:
    """``user-settings.db`` in ``folder``, which it makes when it is first opened. All methods block.

    Whatever fails raises ``SettingsUnavailable`` and leaves the file as it was; the next call tries again.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / NAME
        self._connection: sqlite3.Connection | None = None
        self._remembered: OrderedDict[str, dict[str, Json]] = OrderedDict()

    def read(self, user: str) -> dict[str, Json]:
        """What the user's changes fold to. The caller may change it."""
        try:
            return dict(self._folded(user))
        except (OSError, sqlite3.Error, msgspec.MsgspecError, _Unusable) as problem:
            raise self._failed("read", problem) from problem

    def add(self, user: str, at: int, changes: Mapping[str, Json]) -> None:
        """One change more; on disk when this returns. Raises ``LimitReached``."""
        try:
            self._add(user, at, changes)
        except (OSError, sqlite3.Error, msgspec.MsgspecError, _Unusable) as problem:
            raise self._failed("written", problem) from problem

    def close(self) -> None:
        """Let go of the file."""
        connection, self._connection = self._connection, None
        self._remembered.clear()
        if connection is not None:
            connection.close()

    # Inside

    def _add(self, user: str, at: int, changes: Mapping[str, Json]) -> None:
        folded = _merged(self._folded(user), changes)
        data = msgspec.json.encode(dict(changes))
        if max(len(data), len(msgspec.json.encode(folded))) > SETTINGS_BYTES:
            raise LimitReached(f"the settings of one user are at most {SETTINGS_BYTES} bytes long")
        connection = self._opened()
        with transaction(connection):
            self._enter(connection, user)
            (seq,) = connection.execute(
                "SELECT COALESCE(MAX(seq), 0) + 1 FROM changes WHERE user = ?", (user,)
            ).fetchone()
            connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?)", (user, seq, at, data))
            self._shorten(connection, user, seq)
        self._remember(user, folded)

    def _enter(self, connection: sqlite3.Connection, user: str) -> None:
        if connection.execute("SELECT 1 FROM users WHERE user = ?", (user,)).fetchone() is not None:
            return
        if connection.execute("SELECT COUNT(*) FROM users").fetchone()[0] >= USERS:
            raise LimitReached(f"settings are kept for at most {USERS} users")
        connection.execute("INSERT INTO users VALUES (?)", (user,))

    def _shorten(self, connection: sqlite3.Connection, user: str, newest: int) -> None:
        """Once there are twice as many as are kept, let one row stand for the oldest. Numbers stay without a gap."""
        found = _rows(connection, user)
        if len(found) < 2 * KEPT:
            return
        base = newest - KEPT
        folded: dict[str, Json] = {}
        for seq, data in found:
            if seq <= base:
                folded = _merged(folded, msgspec.json.decode(data, type=dict[str, Json]))
        connection.execute("DELETE FROM changes WHERE user = ? AND seq < ?", (user, base))
        data = msgspec.json.encode(folded)
        connection.execute("UPDATE changes SET changes = ? WHERE user = ? AND seq = ?", (data, user, base))

    def _folded(self, user: str) -> dict[str, Json]:
        known = self._remembered.get(user)
        if known is None:
            known = {}
            for _, data in _rows(self._opened(), user):
                known = _merged(known, msgspec.json.decode(data, type=dict[str, Json]))
        self._remember(user, known)
        return known

    def _remember(self, user: str, folded: dict[str, Json]) -> None:
        self._remembered[user] = folded
        self._remembered.move_to_end(user)
        while len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            if not self._path.exists():
                os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
                sync_folder(self._folder)
            self._path.chmod(0o600)
            connection = connect(self._path, "rw")
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # EXTRA: a commit's end, the name of a journal that goes, is on disk as well.
        connection.execute("PRAGMA synchronous = EXTRA")
        whose, version = _number(connection, "application_id"), _number(connection, "user_version")
        if (whose, version) == (0, 0) and connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
            connection.executescript(_TABLES)
        elif whose != APPLICATION_ID:
            raise _Unusable("it belongs to another program")
        elif version != VERSION:
            raise _Unusable(f"it was written by another dragoman (format {version}; this one knows {VERSION})")

    def _failed(self, verb: str, problem: Exception) -> SettingsUnavailable:
        """To close is to roll back: whoever opens it next finds the whole of what was committed, and no more."""
        with suppress(sqlite3.Error):
            self.close()
        reason = getattr(problem, "strerror", None) or problem
        log.error(
            "%s cannot be %s: %s. It is tried again whenever it is needed; a file that is broken has to be moved away,"
            " and then a new one begins without any user's settings",
            self._path,
            verb,
            reason,
        )
        return SettingsUnavailable(f"settings cannot be {verb} now; the server's log says why")


def _rows(connection: sqlite3.Connection, user: str) -> list[tuple[int, bytes]]:
    """A user's changes in their order."""
    return connection.execute("SELECT seq, changes FROM changes WHERE user = ? ORDER BY seq", (user,)).fetchall()


def _merged(before: Mapping[str, Json], changes: Mapping[str, Json]) -> dict[str, Json]:
    """Null takes a setting away."""
    return {name: value for name, value in {**before, **changes}.items() if value is not None}


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])

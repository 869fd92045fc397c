"""The table of users' artifacts: whose each is. One SQLite file; what is written is on disk when the call returns."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec

from dragoman.hub.artifacts import ArtifactGone
from dragoman.hub.durable_folder import sync_folder
from dragoman.hub.errors import DataFolderError
from dragoman.hub.sqlite.schema import connect, transaction

from .refused import OverQuota
from .settings import OwnedArtifactSettings

_VERSION = 1
_SCHEMA = (
    """CREATE TABLE artifacts (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        media_type TEXT NOT NULL,
        size INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        created_at INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX artifacts_by_owner ON artifacts (owner, created_at, size)",
    "CREATE INDEX artifacts_by_age ON artifacts (created_at)",
    f"PRAGMA user_version = {_VERSION}",
)


class Owned(msgspec.Struct, frozen=True):
    """One artifact: ``size`` in bytes, ``sha256`` in hex, ``created_at`` in milliseconds since 1970."""

    id: str
    owner: str
    media_type: str
    size: int
    sha256: str
    created_at: int


class OwnedTable:
    """All methods block, may be called from any thread, and raise ``sqlite3.Error`` where the disk fails.

    ``since`` is the time from which on artifacts are there: older ones are as good as gone, though still listed.
    """

    def __init__(self, path: Path) -> None:
        """Opens or makes the file. Raises ``OSError``, ``sqlite3.Error``, ``DataFolderError`` (of a newer program)."""
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            sync_folder(path.parent)
        self._lock = threading.Lock()
        self._connection = connect(path, "rw")
        try:
            self._prepare(path)
        except BaseException:
            self._connection.close()
            raise

    def held(self, owner: str, since: int) -> tuple[int, int]:
        """How many artifacts the owner has, and their bytes."""
        with self._lock:
            return self._held(owner, since)

    def add(self, row: Owned, since: int, settings: OwnedArtifactSettings) -> None:
        """Enter one. Raises ``OverQuota``: only here it is certain, for others of the owner's come at the same time."""
        with self._lock, transaction(self._connection):
            count, size = self._held(row.owner, since)
            check_quota(settings, count + 1, size + row.size)
            self._connection.execute("INSERT INTO artifacts VALUES (?,?,?,?,?,?)", msgspec.structs.astuple(row))

    def get(self, owner: str, artifact: str, since: int) -> Owned:
        """Raises ``ArtifactGone``, in the same words for none, for another's and for one whose days are over."""
        with self._lock:
            found = self._connection.execute(
                "SELECT id, owner, media_type, size, sha256, created_at FROM artifacts"
                " WHERE id = ? AND owner = ? AND created_at > ?",
                (artifact, owner, since),
            ).fetchone()
        if found is None:
            raise gone()
        return Owned(*found)

    def remove(self, artifacts: list[str]) -> None:
        """They are gone; fine for those that were not there."""
        with self._lock, transaction(self._connection):
            self._connection.executemany("DELETE FROM artifacts WHERE id = ?", [(one,) for one in artifacts])

    def expired(self, since: int, most: int) -> list[str]:
        """The oldest artifacts whose days are over, ``most`` at most."""
        with self._lock:
            found = self._connection.execute(
                "SELECT id FROM artifacts WHERE created_at <= ? ORDER BY created_at LIMIT ?", (since, most)
            ).fetchall()
        return [str(row[0]) for row in found]

    def has(self, artifact: str) -> bool:
        """Whether it is somebody's."""
        with self._lock:
            found = self._connection.execute("SELECT 1 FROM artifacts WHERE id = ?", (artifact,)).fetchone()
        return found is not None

    def close(self) -> None:
        """Nothing can be asked any more."""
        with self._lock:
            self._connection.close()

    def _held(self, owner: str, since: int) -> tuple[int, int]:
        count, size = self._connection.execute(
            "SELECT count(*), coalesce(sum(size), 0) FROM artifacts WHERE owner = ? AND created_at > ?", (owner, since)
        ).fetchone()
        return int(count), int(size)

    def _prepare(self, path: Path) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        version = int(self._connection.execute("PRAGMA user_version").fetchone()[0])
        if version > _VERSION:
            raise DataFolderError(f"{path} was written by a newer dragoman (format {version}): update dragoman")
        if not version:
            with transaction(self._connection):
                for statement in _SCHEMA:
                    self._connection.execute(statement)


def check_quota(settings: OwnedArtifactSettings, count: int, size: int) -> None:
    """Raises ``OverQuota`` if so many artifacts of so many bytes are too much for one owner."""
    if count > settings.count_per_owner:
        raise OverQuota(f"there are {settings.count_per_owner} artifacts of this owner already")
    if size > settings.per_owner:
        raise OverQuota(f"the artifacts of this owner would be more than {settings.per_owner} bytes")


def gone() -> ArtifactGone:
    """The one answer for an artifact that this owner cannot have: it tells nothing of what others have."""
    return ArtifactGone("there is no such artifact")

"""What the store says about each session: ``<folder>/<session>/metadata.json``, for people as well."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from dragoman.hub.checkpoints import CheckpointProblem

from .files import clear, folder_at, sync_folder, write_file

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_ORIGINAL, _VERSION = 1, 2
"""The first is that of the original server, which keeps copies of folders and patches in the same place: not ours."""


Name = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
"""An object's name, as people can read it."""


class Kept(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One checkpoint. ``image`` is its object's name; ``patch_bytes`` what it took on disk when it came.

    ``folder`` is what it is of, as people read a path; empty in what was written before that was noted.
    """

    id: str
    index: int
    created_at: str
    changed: bool
    patch_bytes: int
    image: Name
    folder: str = ""

    @property
    def object(self) -> bytes:
        """The name of the object that has its image."""
        return bytes.fromhex(self.image)


class Original(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The session's first checkpoint; the seed's clients know it as the original snapshot."""

    kind: str = "directory"
    id: str
    patch_bytes: int
    image: Name
    folder: str = ""

    @property
    def object(self) -> bytes:
        """See ``Kept``."""
        return bytes.fromhex(self.image)


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All of one session. Times are in UTC, ``2026-01-31T12:00:00.000Z``; ``state`` is ``active`` or ``closed``."""

    version: int = _VERSION
    session_id: str
    working_directory: str
    created_at: str
    state: str = "active"
    closed_at: str | None = None
    original_snapshot: Original | None = None
    checkpoints: tuple[Kept, ...] = ()

    def find(self, checkpoint: str) -> Kept | Original | None:
        """The checkpoint of this id, the first one too."""
        if self.original_snapshot is not None and self.original_snapshot.id == checkpoint:
            return self.original_snapshot
        return next((it for it in self.checkpoints if it.id == checkpoint), None)

    def without(self, checkpoints: frozenset[str]) -> Record:
        """The record without these."""
        original = self.original_snapshot
        return msgspec.structs.replace(
            self,
            original_snapshot=None if original is not None and original.id in checkpoints else original,
            checkpoints=tuple(it for it in self.checkpoints if it.id not in checkpoints),
        )

    def images(self) -> Iterator[bytes]:
        """The names of all objects that have an image of this session."""
        if self.original_snapshot is not None:
            yield self.original_snapshot.object
        for kept in self.checkpoints:
            yield kept.object


class Records:
    """The records of all sessions. Threads may use it at once; one session belongs to one server."""

    def __init__(self, folder: Path, *, sync: bool) -> None:
        self._folder = folder
        self._sync = sync
        self._lock = threading.Lock()

    def folder(self, session: str) -> Path:
        """Where what belongs to a session lies. Raises ``CheckpointProblem`` if it can be no session."""
        return self._folder / checked_name(session)

    def read(self, session: str) -> Record | None:
        """None if there is none. Raises ``CheckpointProblem`` if it cannot be read, or is not ours."""
        file = self.folder(session) / "metadata.json"
        try:
            text = file.read_bytes()
            version = msgspec.json.decode(text, type=_Versioned).version
            record = msgspec.json.decode(text, type=Record) if version == _VERSION else None
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise CheckpointProblem(f"{file} cannot be used: {error}") from error
        if record is None:
            raise OtherVersion(version, f"{file} is of version {version}, which this server does not know")
        return record

    def change(self, session: str, change: Callable[[Record | None], Record | None]) -> None:
        """Replace a record by what ``change`` makes of it; None leaves it. Raises ``CheckpointProblem``."""
        with self._lock:
            record = change(self.read(session))
            if record is None:
                return
            folder = self.folder(session)
            new = not folder.exists()
            try:
                folder.mkdir(0o700, exist_ok=True)
                text = msgspec.json.format(msgspec.json.encode(record)) + b"\n"
                write_file(folder / "metadata.json", text, sync=self._sync)
                if new and self._sync:
                    sync_folder(self._folder)
            except OSError as error:
                if new:
                    shutil.rmtree(folder, ignore_errors=True)
                raise CheckpointProblem(f"the checkpoint cannot be kept: {error.strerror or error}") from error

    def remove(self, session: str) -> None:
        """Remove all of a session. Raises ``OSError``."""
        with self._lock, folder_at(self._folder) as fd:
            clear(self.folder(session).name.encode(), fd)

    def sessions(self) -> list[str]:
        """All that have a record, or had."""
        return sorted(it.name for it in self._folder.iterdir() if _NAME.fullmatch(it.name) and it.is_dir())


class OtherVersion(CheckpointProblem):
    """A record that another server wrote. ``original``: one that keeps nothing in objects."""

    def __init__(self, version: int, problem: str) -> None:
        super().__init__(problem)
        self.original = version <= _ORIGINAL


class _Versioned(msgspec.Struct):
    version: int


def checked_name(name: str) -> str:
    """A session's or checkpoint's name, if it can be one. Raises ``CheckpointProblem``."""
    if not _NAME.fullmatch(name):
        raise CheckpointProblem(f"{name[:80]!r} names nothing here")
    return name


def now() -> str:
    """The time, as records say it."""
    seconds, millis = divmod(time.time_ns() // 1_000_000, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{millis:03}Z"

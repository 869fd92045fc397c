"""The data folder: where it lies, and whose it is.

One server owns it, by an exclusive lock on its ``lock`` file that the kernel takes back when the server dies, however
it dies. What the file says (who, since when, listening where) is only for the message to a second server.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from pathlib import Path
from typing import Self

import msgspec

from .errors import DataFolderError

_READ_BYTES = 4096
"""More than any holder writes into the lock file."""


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who holds a data folder: what the lock file says, as one JSON object.

    ``started_at`` is in UTC, ``2026-01-31T12:00:00Z``; ``address`` is known once the server listens.
    """

    pid: int
    epoch: str
    started_at: str
    address: str | None = None

    def __str__(self) -> str:
        listening = "" if self.address is None else f" (listening on {self.address})"
        return f"pid {self.pid}{listening} since {self.started_at}"


class DataFolder:
    """A folder that, once acquired, is this process's alone until ``release`` or the end of the process.

    Programs started meanwhile do not inherit the lock. Usable as a context manager that acquires and releases.
    """

    def __init__(self, path: Path, *, epoch: str | None = None) -> None:
        """``epoch`` names this run of the server and is random unless given. Nothing is touched yet."""
        self.path = path
        self.epoch = epoch if epoch is not None else secrets.token_hex(8)
        self._lock: int | None = None
        self._holder: Holder | None = None

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return self.path / "journal.db"

    @property
    def terminals(self) -> Path:
        """The folder of what terminals leave: recordings, and what is needed to find lost programs."""
        return self.path / "terminals"

    @property
    def keys(self) -> Path:
        """Where secrets lie; never in the journal."""
        return self.path / "keys"

    def acquire(self) -> None:
        """Make the folder (mode 0700) where there is none, and take it.

        Raises ``DataFolderError`` when another process has it, naming that one, or when it cannot be used.
        """
        if self._lock is not None:
            return
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = self._take_lock()
        except OSError as error:
            raise DataFolderError(f"cannot use the data folder {self.path}: {error.strerror or error}") from error
        self._lock = lock
        self._holder = Holder(os.getpid(), self.epoch, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        self._sign(self._holder)

    def announce(self, address: str) -> None:
        """Let a second server know where this one listens."""
        assert self._holder is not None, "the data folder is not acquired"
        self._holder = msgspec.structs.replace(self._holder, address=address)
        self._sign(self._holder)

    def release(self) -> None:
        """Give the folder up. The lock file stays: to remove it would race with the next holder."""
        if self._lock is None:
            return
        lock = self._lock
        self._lock = self._holder = None
        try:
            os.ftruncate(lock, 0)
        finally:
            os.close(lock)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _take_lock(self) -> int:
        # The descriptor is closed when this process starts another program, as all that Python opens.
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_holder(lock)
            os.close(lock)
            raise DataFolderError(f"the data folder {self.path} is in use by {holder}") from None
        except OSError:
            os.close(lock)
            raise
        return lock

    def _sign(self, holder: Holder) -> None:
        assert self._lock is not None
        data = msgspec.json.encode(holder) + b"\n"
        try:
            os.pwrite(self._lock, data, 0)
            os.ftruncate(self._lock, len(data))
        except OSError as error:
            self.release()
            raise DataFolderError(f"cannot write in the data folder {self.path}: {error.strerror or error}") from error


def _read_holder(lock: int) -> str:
    """The holder in words; it may be about to sign, or to leave."""
    try:
        return str(msgspec.json.decode(os.pread(lock, _READ_BYTES, 0), type=Holder))
    except msgspec.MsgspecError:
        return "another process"

"""The folder of one session's hook socket, and what becomes of those whose server was killed.

It lies where temporary files do: a path in the data folder may be too long for a socket. A lock in it is held as long
as its server lives, and given back by the kernel however that ends, as the data folder's is.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger("dragoman.terminal")

PREFIX = "dragoman-hooks-"
LOCK, SOCKET = "lock", "hooks.sock"

ROOM = 107
"""Bytes that the path of a unix socket can have (Linux)."""

SHORT_PLACE = "/tmp"  # noqa: S108  the folder in it is made 0700 under a name that nobody can foretell

OLD = 86_400.0
"""Seconds after which a folder without a lock may be one that an earlier version left: it made none."""


class HookFolder:
    """Made 0700 and locked; ``close`` removes it. Raises ``OSError``."""

    def __init__(self) -> None:
        self._path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_place()))
        try:
            self._lock = _locked(self._path)
        except OSError:
            self._path.rmdir()
            raise

    @property
    def socket(self) -> str:
        """The path of the socket in it."""
        return str(self._path / SOCKET)

    def close(self) -> None:
        """Remove it with what is ours in it. May be called again."""
        for name in (SOCKET, LOCK):
            with contextlib.suppress(OSError):
                (self._path / name).unlink()
        with contextlib.suppress(OSError):
            self._path.rmdir()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _locked(folder: Path) -> int | None:
    """Put a lock there that is held from the moment it can be seen."""
    draft = folder / f".{secrets.token_hex(4)}"
    lock = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        draft.rename(folder / LOCK)
    except OSError:
        os.close(lock)
        draft.unlink(missing_ok=True)
        raise
    return lock


def _place() -> str:
    """The folder of temporary files, but one with a short path where a socket's would be too long."""
    usual = tempfile.gettempdir()
    room = ROOM - len(f"/{PREFIX}xxxxxxxx/{SOCKET}")
    return usual if len(os.fsencode(usual)) <= room else SHORT_PLACE


def sweep_hook_folders() -> None:
    """Remove the folders of servers that are no more, wherever they may lie.

    Only what is proven to be one: our name, this user's, closed to others, no link, nothing in it that is not ours, and
    a lock that nobody holds; or no lock, untouched for a day, and nobody who listens. Blocks on the disk.
    """
    for place in {tempfile.gettempdir(), _place()}:
        _sweep(Path(place))


def _sweep(place: Path) -> None:
    try:
        names = [name for name in os.listdir(place) if name.startswith(PREFIX)]  # noqa: PTH208  half the cost of Paths
    except OSError:
        return
    for name in names:
        try:
            _remove_if_forsaken(place / name)
        except OSError as problem:
            log.debug("%s is left: %s", place / name, problem)


def _remove_if_forsaken(path: Path) -> None:
    with _opened(path, os.O_RDONLY | os.O_DIRECTORY) as folder:
        found = os.fstat(folder)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o700:
            return
        names = set(os.listdir(folder))  # noqa: PTH208  by its descriptor: it cannot be exchanged
        if not names <= {LOCK, SOCKET}:
            return
        if LOCK not in names:
            if time.time() - found.st_mtime > OLD and (not names or _is_deserted(path, folder)):
                _remove(path, folder)
            return
        with _opened(LOCK, os.O_RDWR | os.O_NONBLOCK, within=folder) as lock:
            held = os.fstat(lock)
            if not stat.S_ISREG(held.st_mode) or held.st_uid != os.geteuid():
                return
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # its server lives
            _remove(path, folder)


def _is_deserted(path: Path, folder: int) -> bool:
    """Whether the socket in it is this user's and nobody listens there. Raises ``OSError``."""
    found = os.stat(SOCKET, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        return False
    with socket.socket(socket.AF_UNIX) as link:
        link.setblocking(False)  # one whose queue is full has somebody
        try:
            link.connect(str(path / SOCKET))
        except ConnectionRefusedError:
            return True
    return False


def _remove(path: Path, folder: int) -> None:
    for name in (SOCKET, LOCK):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
    path.rmdir()


@contextlib.contextmanager
def _opened(path: Path | str, flags: int, *, within: int | None = None) -> Iterator[int]:
    """A descriptor, never by way of a link. Raises ``OSError``."""
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        yield fd
    finally:
        os.close(fd)

"""A file replaced in one step, as it was before but for what is in it; and one at a time who does so."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from .problems import CannotInstall

PATIENCE = 10.0
"""Seconds that another run of ours is waited for."""

AGAIN = 0.02
"""Seconds between two looks whether it is done."""


def replace_file(path: Path, data: bytes, *, mode: int = 0o600, folders: int = 0o755) -> None:
    """Have ``data`` in the file that the path means: a link stays one, and a file keeps its owner and its mode.

    ``mode`` is for one that is new, ``folders`` for folders that have to be made. Raises ``CannotInstall``.
    """
    real = Path(os.path.realpath(path))
    draft = real.with_name(f".{real.name}.{secrets.token_hex(4)}")
    try:
        real.parent.mkdir(mode=folders, parents=True, exist_ok=True)
        found = _found(real)
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                if found is not None:
                    _give(fd, found)
                os.fchmod(fd, mode if found is None else stat.S_IMODE(found.st_mode))
                file.flush()
                os.fsync(fd)
            draft.replace(real)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise CannotInstall(f"{real} cannot be written: {problem.strerror or problem}") from problem


def _give(fd: int, found: os.stat_result) -> None:
    """To whom the file belongs. Raises ``PermissionError`` where that is another user, and we may not."""
    try:
        os.fchown(fd, found.st_uid, found.st_gid)
    except PermissionError:
        if found.st_uid != os.geteuid():
            raise  # it would become ours; a group that we are not in is no reason


def _found(real: Path) -> os.stat_result | None:
    try:
        found = real.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise CannotInstall(f"{real} is no regular file, and is left alone")
    return found


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """While nobody else installs or removes hooks by this folder. Raises ``CannotInstall``."""
    until = time.monotonic() + PATIENCE
    while (lock := _locked(folder)) is None:
        if time.monotonic() > until:
            raise CannotInstall(f"another dragoman is installing hooks by {folder}")
        time.sleep(AGAIN)
    try:
        yield
    finally:
        os.close(lock)


def _locked(folder: Path) -> int | None:
    """The folder's descriptor, locked; None while somebody else has it, or has just removed it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as problem:
        raise CannotInstall(f"{folder} cannot be used: {problem.strerror or problem}") from problem
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), folder.stat()):
            return lock
    os.close(lock)
    return None

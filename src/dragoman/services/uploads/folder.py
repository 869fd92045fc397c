"""The folder that files go to, reached by descriptors: no part of it below the session's folder may be a link.

A session's folder is whatever its agent made of it: a link in the place of ``.co`` would have files written elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import BinaryIO

from .names import candidates
from .refused import UploadFailed

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_TRIES = 10_000
"""Names that are tried for one file."""


class UploadFolder:
    """One, open. Everything here blocks."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def create(self, seconds: int, name: str) -> tuple[str, BinaryIO]:
        """A new file (mode 0600) of this name, which came at that time; how it is called. Raises ``OSError``."""
        for tried in itertools.islice(candidates(seconds, name), _TRIES):
            with contextlib.suppress(FileExistsError):
                return tried, os.fdopen(os.open(tried, _CREATE, 0o600, dir_fd=self._descriptor), "wb")
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), name)

    def remove(self, names: Iterable[str]) -> None:
        """Let these files go; fine if one is gone already. Raises ``UploadFailed``."""
        for name in names:
            try:
                os.unlink(name, dir_fd=self._descriptor)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise UploadFailed(f"{name} cannot be removed: {error.strerror or error}") from error

    def sync(self) -> None:
        """Wait until the names in it are on disk. Raises ``OSError``."""
        os.fsync(self._descriptor)


@contextlib.contextmanager
def upload_folder(cwd: str, path: str, *, make: bool = True) -> Iterator[UploadFolder]:
    """The folder at ``path`` below ``cwd``, made (mode 0700) where there is none and one is wanted.

    Raises ``UploadFailed``.
    """
    try:
        descriptor = _opened(cwd, PurePosixPath(path).parts, make=make)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise UploadFailed(f"Files cannot be kept: {path} is no folder, or leads elsewhere") from error
        raise UploadFailed(f"Files cannot be kept: {path}: {error.strerror or error}") from error
    try:
        yield UploadFolder(descriptor)
    finally:
        os.close(descriptor)


def _opened(cwd: str, parts: Iterable[str], *, make: bool) -> int:
    descriptor = os.open(cwd, _FOLDER)
    for part in parts:
        try:
            if make:
                _make(descriptor, part)
            below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _make(descriptor: int, part: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, 0o700, dir_fd=descriptor)
        os.fsync(descriptor)

"""Opening what lies in certain folders, and nothing outside of them.

What a path names is looked up once, every link followed, and is then opened folder by folder, each relative to the one
before and no link followed: one that was not there when we looked leads nowhere. The folders are taken as they are
written: one that is a link by now, or lies below one, holds nothing. All of it blocks; callers run it in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from dragoman.hub.real_path import real_path

_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_KERNEL = (Path("/proc"), Path("/sys"))
"""Never served, not even where `/` is a folder that is: `/proc/self/environ` holds the server's keys."""

Identity = tuple[int, int]


class OutsideError(Exception):
    """The path leads out of the folders, or to what is nobody's but the server's."""


class Inside:
    """``roots`` are real paths; ``private`` folders are the server's own and in none of them."""

    def __init__(self, roots: Iterable[Path], *, private: Iterable[Path] = ()) -> None:
        self._roots = tuple(roots)
        self._private = (*_KERNEL, *(real_path(each) for each in private))
        # By what they are, too: a folder may be mounted twice, and names may not tell upper case from lower.
        self._hidden = frozenset(filter(None, map(_identity_at, self._private)))

    def find(self, path: Path) -> Path:
        """Where an absolute path leads; it need not exist. Raises ``OutsideError``; ``ValueError`` for no path."""
        try:
            target = real_path(path)
        except OSError:  # links without end
            raise OutsideError from None
        if not any(target.is_relative_to(root) for root in self._roots):
            raise OutsideError
        if any(target.is_relative_to(each) for each in self._private):
            raise OutsideError
        return target

    def is_private(self, status: os.stat_result) -> bool:
        """Whether this is the server's own: not even its name is told."""
        return (status.st_dev, status.st_ino) in self._hidden

    def status(self, path: Path) -> os.stat_result:
        """Of what is there. Raises as ``find``, and ``OSError``."""
        target = self.find(path)
        with self._parent(target) as parent:
            return self._seen(target.name or ".", parent)

    @contextlib.contextmanager
    def folder(self, path: Path) -> Iterator[int]:
        """A folder's descriptor, good for listing it. Raises as ``status``; ``NotADirectoryError`` for what is none."""
        target = self.find(path)
        with self._parent(target) as parent:
            self._seen(target.name or ".", parent)
            opened = _opened(target.name or ".", _FOLDER, parent)
        try:
            self._check(os.fstat(opened))
            yield opened
        finally:
            os.close(opened)

    @contextlib.contextmanager
    def file(self, path: Path) -> Iterator[int]:
        """A regular file's descriptor, for reading. Raises as ``status``; ``IsADirectoryError`` for a folder, and
        ``OSError`` (``EINVAL``) for a pipe, a socket or a device."""
        target = self.find(path)
        with self._parent(target) as parent:
            _check_regular(self._seen(target.name or ".", parent))  # opening some devices does something
            opened = _opened(target.name, _FILE, parent)
        try:
            _check_regular(os.fstat(opened))  # what is open may not be what was looked at
            yield opened
        finally:
            os.close(opened)

    @contextlib.contextmanager
    def _parent(self, target: Path) -> Iterator[int]:
        at = os.open("/", _STEP)
        try:
            for part in target.parts[1:-1]:
                below = _below(part, at)
                os.close(at)
                at = below
                self._check(os.fstat(at))
            yield at
        finally:
            os.close(at)

    def _seen(self, name: str, parent: int) -> os.stat_result:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise OutsideError  # it was none when we looked
        self._check(status)
        return status

    def _check(self, status: os.stat_result) -> None:
        if self.is_private(status):
            raise OutsideError


def _below(part: str, at: int) -> int:
    try:
        return _opened(part, _STEP, at)
    except NotADirectoryError:  # there is nothing in a file
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None


def _opened(name: str, how: int, parent: int) -> int:
    try:
        return os.open(name, how, dir_fd=parent)
    except NotADirectoryError:  # said of a link, too
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise OutsideError from None
        raise
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise OutsideError from None
        raise


def _check_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")


def _identity_at(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino

"""Reading small files that others wrote: regular ones, up to a size, and where it counts only inside a folder.

What a project holds came from somewhere else, as a rule: a link in it may point at a key, a pipe may never end, a file
may be as large as the disk. Everything here blocks; callers run it in a thread.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Generic, NamedTuple, TypeVar, cast

from dragoman.hub.real_path import real_path

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

UNSETTLED = 2_000_000_000
"""Nanoseconds since a file's last change in which another one may leave the same times and the same size."""

T = TypeVar("T")


class FileProblem(Exception):
    """The file is there and cannot be used. ``str()`` says why, with nothing of what is in it."""


class Content(NamedTuple):
    """What was read: at most one byte more than asked for. ``identity`` is another one once the file has changed."""

    data: bytes
    identity: tuple[int, ...]


def read_file(path: Path, most: int, *, inside: Sequence[Path] = ()) -> Content | None:
    """A regular file's first ``most`` bytes, and one more if there are more; None where there is no such file.

    ``inside``: folders that it must lie in, all of them, once every link is followed. Raises ``FileProblem``.
    """
    try:
        with _opened(path, inside) as file:
            status = os.fstat(file)
            return Content(_read(file, most + 1), identity_of(status))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise FileProblem(in_words(error)) from None


def read_whole(path: Path, most: int, *, inside: Sequence[Path] = ()) -> bytes | None:
    """All of a regular file; None where there is none. Raises ``FileProblem``, also for one of more than ``most``."""
    content = read_file(path, most, inside=inside)
    if content is None:
        return None
    _check_size(content.data, most)
    return content.data


def contained(path: Path, inside: Sequence[Path]) -> bool:
    """Whether the path leads into all of these folders, once every link is followed. It need not exist."""
    if not inside:
        return True
    try:
        target = real_path(path)
        return all(target.is_relative_to(real_path(folder)) for folder in inside)
    except OSError:
        return False  # links without end lead nowhere


def same_folder(one: Path, other: Path) -> bool:
    """Whether both are there, and the same one."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def in_words(error: OSError | ValueError) -> str:
    """What went wrong, without the path that the system would name with it."""
    code = error.errno if isinstance(error, OSError) else None
    return os.strerror(code) if code else "it cannot be used"


class _Kept(NamedTuple):
    identity: tuple[int, ...]
    outcome: object


class FileCache(Generic[T]):
    """What was made of files, kept until they change. Safe to use from several threads.

    A file that changed a moment ago is read anew each time: its times are not fine enough to tell the next change.
    """

    def __init__(self, most_files: int = 1024, *, now: Callable[[], int] = time.time_ns) -> None:
        self._most = most_files
        self._now = now
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._lock = Lock()

    def get(
        self, path: Path, most: int, parse: Callable[[bytes], T], *, inside: Sequence[Path] = (), cut: bool = False
    ) -> T | None:
        """What ``parse`` made of the file; None where there is none. Raises ``FileProblem``, and so may ``parse``.

        A file of more than ``most`` bytes is a problem, but with ``cut``: then ``parse`` gets one byte more than that.
        """
        key = (path, tuple(inside))
        kept = self._known(key, path)
        if kept is None:
            # Most files that are asked for are not there, and that is told without following where each would lie.
            content = None if _is_absent(path) else read_file(path, most, inside=inside)
            if content is None:
                return None
            kept = _Kept(content.identity, _outcome(content.data, most, parse, cut=cut))
            self._keep(key, kept)
        if isinstance(kept.outcome, FileProblem):
            raise FileProblem(*kept.outcome.args)
        return cast("T", kept.outcome)

    def _known(self, key: Hashable, path: Path) -> _Kept | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
        return kept if kept is not None and kept.identity == file_identity(path) else None

    def _keep(self, key: Hashable, kept: _Kept) -> None:
        *_, modified, changed = kept.identity
        with self._lock:
            self._kept.pop(key, None)
            if self._now() - max(modified, changed) > UNSETTLED:
                self._kept[key] = kept
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


class Once:
    """Tells what was said already, so that a warning comes once and not with every look. Forgets the oldest."""

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._said: OrderedDict[Hashable, None] = OrderedDict()
        self._lock = Lock()

    def first(self, what: Hashable) -> bool:
        """Whether this was not asked before."""
        with self._lock:
            known = what in self._said
            self._said[what] = None
            self._said.move_to_end(what)
            if len(self._said) > self._most:
                self._said.popitem(last=False)
        return not known


def file_identity(path: Path) -> tuple[int, ...] | None:
    """Changes when the file does, or when another takes its place; None where there is none to look at."""
    try:
        return identity_of(path.stat())
    except (OSError, ValueError):
        return None


def _is_absent(path: Path) -> bool:
    """Whether nothing has this name, not even a link that leads nowhere."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False  # it is for whoever reads it to say why not
    return False


def identity_of(status: os.stat_result) -> tuple[int, ...]:
    """Changes when the file does; the last two are when that was, in nanoseconds since 1970."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _outcome(data: bytes, most: int, parse: Callable[[bytes], T], *, cut: bool) -> T | FileProblem:
    try:
        if not cut:
            _check_size(data, most)
        return parse(data)
    except FileProblem as problem:
        return problem


@contextlib.contextmanager
def _opened(path: Path, inside: Sequence[Path]) -> Iterator[int]:
    """The file's descriptor. What is opened is the canonical target, folder by folder, and no link on the way: one that
    was not there when we looked is refused, whatever it points to.
    """
    target = real_path(path)
    if not all(target.is_relative_to(real_path(folder)) for folder in inside):
        raise FileProblem("it leads out of the folder that it belongs to")
    with _folder(target.parent) as folder:
        name = target.name or "."
        _check_regular(os.stat(name, dir_fd=folder, follow_symlinks=False))
        file = os.open(name, _READ, dir_fd=folder)
    try:
        _check_regular(os.fstat(file))  # what is open may not be what was looked at
        yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[int]:
    at = os.open("/", _FOLDER)
    try:
        for part in path.parts[1:]:
            below = os.open(part, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise FileProblem("it is no regular file")


def _check_size(data: bytes, most: int) -> None:
    if len(data) > most:
        raise FileProblem(f"it is larger than {most} bytes")


def _read(file: int, most: int) -> bytes:
    parts: list[bytes] = []
    while most > 0 and (part := os.read(file, min(most, 1 << 20))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)

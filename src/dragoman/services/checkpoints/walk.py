"""Reading a workspace, until it is sure that it was all there like that at one instant.

A walk looks at everything, and reads what it does not know from the walk before it. A walk that finds nothing new is
the proof: each thing was the same when the one walk looked at it as when the other did, and so between the two. That
rests on the ctime, which whoever changes a file cannot set; it is only believed once it is so old that a further change
would not get the same.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable

import msgspec

from dragoman.hub.checkpoints import CheckpointProblem

from .content import read_pieces
from .files import FOLDER, RESTORE_PREFIX, join, names, read_xattrs, shown
from .image import Entry, File, Folder, Groups, Link, Pipe
from .index import Key, Seen, key_of
from .objects import Batch
from .settings import CheckpointSettings
from .stop import Stop

_GRAIN = 20_000_000
"""Nanoseconds: two changes within so long may get the same ctime."""

_COARSE = 2_000_000_000
"""The same on a filesystem that keeps whole seconds."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ESTALE)
"""It was something else a moment ago: the walk goes on, and is no proof."""


class View(msgspec.Struct, frozen=True):
    """A workspace at one instant. ``apart`` and ``skipped`` were met and left alone: what is private, and sockets."""

    root: Seen
    groups: Groups
    apart: frozenset[bytes]
    skipped: frozenset[bytes]


class Walk:
    """One look at everything. ``news`` names something that the walk before did not find like that, if there is any."""

    def __init__(
        self,
        root: int,
        known: Seen | None,
        batch: Batch,
        settings: CheckpointSettings,
        stop: Stop,
        *,
        apart: Callable[[bytes], bool],
        sure: bool,
    ) -> None:
        """``apart`` says which paths are left out; ``sure`` that all objects of ``known`` are there."""
        self._root = root
        self._known = known
        self._batch = batch
        self._settings = settings
        self._stop = stop
        self._is_apart = apart
        self._sure = sure
        self._device = os.fstat(root).st_dev
        self._inodes: dict[int, tuple[Key, Entry, list[bytes]]] = {}
        self._apart: set[bytes] = set()
        self._skipped: set[bytes] = set()
        self._count = 0
        self.news: bytes | None = None

    def run(self) -> View:
        """Raises ``CheckpointProblem``, ``Stopped``."""
        status = os.fstat(self._root)
        if self._known is None or self._known.key != key_of(status):
            status = self._settled(b"", status, lambda: os.fstat(self._root))
        root = self._folder(self._root, b"", status, self._known, 0)
        groups = (tuple(sorted(paths)) for _, _, paths in self._inodes.values() if len(paths) > 1)
        return View(root, tuple(sorted(groups)), frozenset(self._apart), frozenset(self._skipped))

    def _folder(self, fd: int, path: bytes, status: os.stat_result, known: Seen | None, depth: int) -> Seen:
        if depth > self._settings.depth:
            raise CheckpointProblem(
                f"{shown(path)}: more than {self._settings.depth} folders within folders (checkpoints.depth)"
            )
        self._stop.check()
        key = key_of(status)
        before = {} if known is None or known.below is None else known.below
        same = known is not None and known.key == key and known.below is not None
        below: dict[bytes, Seen] = {}
        for name in names(fd):
            old = before.get(name)
            child = self._child(fd, name, join(path, name), old, depth)
            if child is not None:
                below[name] = child
                same = same and child is old
        if same and known is not None and len(below) == len(before):
            return known
        self._new(path)
        mode, xattrs = stat.S_IMODE(status.st_mode), read_xattrs(fd)
        return Seen(key, Folder(mode, status.st_mtime_ns, status.st_uid, status.st_gid, xattrs), below)

    def _child(self, fd: int, name: bytes, path: bytes, known: Seen | None, depth: int) -> Seen | None:
        if self._is_apart(path) or (depth == 0 and name.startswith(RESTORE_PREFIX)):
            self._apart.add(path)
            return None
        self._count += 1
        if self._count > self._settings.files:
            raise CheckpointProblem(f"there are more than {self._settings.files} files (checkpoints.files)")
        try:
            return self._look(fd, name, path, known, depth)
        except OSError as error:
            if error.errno not in _GONE:
                raise CheckpointProblem(f"{shown(path)} cannot be read: {error.strerror or error}") from error
            self._new(path)
            return None

    def _look(self, fd: int, name: bytes, path: bytes, known: Seen | None, depth: int) -> Seen | None:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if status.st_dev != self._device:
            raise CheckpointProblem(f"{shown(path)} is another filesystem")
        if known is None or known.key != key_of(status):
            status = self._settled(path, status, lambda: os.stat(name, dir_fd=fd, follow_symlinks=False))
        if stat.S_ISDIR(status.st_mode):
            return self._enter(fd, name, path, status, known, depth)
        if stat.S_ISSOCK(status.st_mode):
            self._skipped.add(path)
            return None
        if known is not None and known.key == key_of(status) and self._whole(known.entry):
            self._linked(path, status, known.entry)
            return known
        self._new(path)
        entry = self._linked(path, status) or self._linked(path, status, self._read(fd, name, path, status))
        return Seen(key_of(status), entry) if entry is not None else None

    def _enter(
        self, fd: int, name: bytes, path: bytes, status: os.stat_result, known: Seen | None, depth: int
    ) -> Seen | None:
        below = os.open(name, FOLDER, dir_fd=fd)
        try:
            if key_of(os.fstat(below)) != key_of(status):
                self._new(path)
                return None
            return self._folder(below, path, status, known, depth + 1)
        finally:
            os.close(below)

    def _read(self, fd: int, name: bytes, path: bytes, status: os.stat_result) -> Entry | None:
        mode, kind = stat.S_IMODE(status.st_mode), stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFLNK:
            return Link(status.st_mtime_ns, status.st_uid, status.st_gid, os.readlink(name, dir_fd=fd))
        if kind == stat.S_IFIFO:
            return Pipe(mode, status.st_mtime_ns, status.st_uid, status.st_gid)
        if kind != stat.S_IFREG:
            raise CheckpointProblem(f"{shown(path)} is a device")
        file = os.open(name, _READ, dir_fd=fd)
        try:
            if key_of(os.fstat(file)) != key_of(status):
                return None
            pieces = read_pieces(file, status.st_size, self._batch.put, self._settings.chunk, self._stop)
            xattrs = read_xattrs(file)
        finally:
            os.close(file)
        return File(mode, status.st_mtime_ns, status.st_uid, status.st_gid, xattrs, status.st_size, pieces)

    def _linked(self, path: bytes, status: os.stat_result, entry: Entry | None = None) -> Entry | None:
        """Note one path of what may have several. Without an entry: what it is, if another path has said so."""
        if status.st_nlink < 2:
            return entry
        seen = self._inodes.get(status.st_ino)
        if seen is not None and seen[0] == key_of(status):
            seen[2].append(path)
            return seen[1]
        if entry is not None:
            self._inodes[status.st_ino] = (key_of(status), entry, [path])
        return entry

    def _whole(self, entry: Entry) -> bool:
        return self._sure or not isinstance(entry, File) or all(self._batch.has(it.name) for it in entry.pieces)

    def _new(self, path: bytes) -> None:
        if self.news is None:
            self.news = path

    def _settled(self, path: bytes, status: os.stat_result, again: Callable[[], os.stat_result]) -> os.stat_result:
        """Wait until a change from now on would get another ctime than the last one got."""
        for _ in range(self._settings.walks):
            changed = status.st_ctime_ns
            grain = _COARSE if changed % 1_000_000_000 == 0 else _GRAIN
            wait = changed + grain - time.time_ns()
            if not 0 < wait <= 2 * grain:
                return status
            self._stop.pause(wait / 1e9)
            status = again()
        raise CheckpointProblem(f"{shown(path)} changes all the time")

"""Objects: the content of checkpoints, each kept once under the hash of what it holds.

An object is never a link to anything in a workspace, and never changes. What a checkpoint brings is written apart from
them (``Batch``) and becomes theirs as a whole; what nobody needs any more goes by ``sweep``, while nobody writes.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from dragoman.hub.checkpoints import CheckpointProblem

from .files import sync_folder
from .image import Image, Tree, decode_image, decode_tree, encode, name_of

log = logging.getLogger("dragoman.checkpoints")

_RAW, _ZLIB = b"\x00", b"\x01"
_PROBE = 64 * 1024
"""So much is compressed first, to see whether the rest is worth it."""

_MANY = 32
"""From so many files on, all that the machine has to write is waited for at once, instead of each."""


class Damaged(CheckpointProblem):
    """An object is missing, or not what its name says."""


class Objects:
    """All of them, in one folder."""

    def __init__(self, folder: Path, *, sync: bool) -> None:
        self.folder = folder
        self._sync = sync
        self._total: int | None = None
        self._lock = threading.Lock()

    def path(self, name: bytes) -> Path:
        """Where the object of this name lies, if there is one."""
        text = name.hex()
        return self.folder / text[:2] / text[2:]

    def has(self, name: bytes) -> bool:
        """Whether there is one."""
        return self.path(name).exists()

    def get(self, name: bytes) -> bytes:
        """What it holds. Raises ``Damaged``, ``OSError``."""
        try:
            stored = self.path(name).read_bytes()
        except FileNotFoundError:
            raise Damaged(f"a part of the checkpoint is missing ({name.hex()[:12]})") from None
        data = _unpacked(stored)
        if data is None or name_of(data) != name:
            raise Damaged(f"a part of the checkpoint is damaged ({name.hex()[:12]})")
        return data

    def image(self, name: bytes) -> Image:
        """Raises ``Damaged``, ``OSError``."""
        try:
            return decode_image(self.get(name))
        except msgspec.MsgspecError as error:
            raise Damaged(f"the checkpoint is none that this server can read: {error}") from error

    def tree(self, name: bytes) -> Tree:
        """Raises ``Damaged``, ``OSError``."""
        try:
            return decode_tree(self.get(name))
        except msgspec.MsgspecError as error:
            raise Damaged(f"the checkpoint is none that this server can read: {error}") from error

    def every(self) -> Iterator[tuple[bytes, int]]:
        """All names, each with the bytes that it takes on disk."""
        for shelf in self.folder.iterdir():
            with os.scandir(shelf) as found:
                for item in found:
                    try:
                        name = bytes.fromhex(shelf.name + item.name)
                    except ValueError:
                        log.warning("%s is none of ours", item.path)
                        continue
                    yield name, item.stat(follow_symlinks=False).st_size

    @property
    def total(self) -> int:
        """Bytes that all of them take on disk."""
        with self._lock:
            if self._total is None:
                self._total = sum(size for _, size in self.every())
            return self._total

    def grown(self, size: int) -> None:
        """So much came, or went."""
        with self._lock:
            if self._total is not None:
                self._total += size

    def sweep(self, needed: set[bytes]) -> None:
        """Remove all others. Only while nobody writes."""
        left = 0
        for name, size in list(self.every()):
            if name in needed:
                left += size
            else:
                self.path(name).unlink(missing_ok=True)
        with self._lock:
            self._total = left


class Batch:
    """New objects of one checkpoint, apart from all others until ``keep``. On leaving, what was not kept is gone."""

    def __init__(self, objects: Objects, folder: Path, *, limit: int, spare: int, sync: bool) -> None:
        """``folder`` is for what is unfinished, where the objects are; ``limit`` and ``spare`` are of the settings."""
        self._objects = objects
        self._folder = folder / secrets.token_hex(8)
        self._limit = limit
        self._spare = spare
        self._sync = sync
        self._new: dict[bytes, None] = {}
        self._known: set[bytes] = set()
        self.size = 0

    def __enter__(self) -> Self:
        self._folder.mkdir(0o700)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def put(self, data: bytes) -> bytes:
        """Add an object, if there is none of this content; its name. Raises ``CheckpointProblem``."""
        name = name_of(data)
        if name in self._known or name in self._new:
            return name
        if self._objects.has(name):
            self._known.add(name)
            return name
        stored = _packed(data)
        self._check_room(len(stored))
        fd = os.open(self._folder / name.hex(), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(stored)
        except OSError as error:
            raise CheckpointProblem(f"the checkpoint cannot be kept: {error.strerror or error}") from error
        self._new[name] = None
        self.size += len(stored)
        return name

    def put_value(self, value: object) -> bytes:
        """Add an image or a tree."""
        return self.put(encode(value))

    def has(self, name: bytes) -> bool:
        """Whether there is one of this name, here or among those kept before."""
        return name in self._new or name in self._known or self._objects.has(name)

    def get(self, name: bytes) -> bytes:
        """What an object holds that is kept, or will be. Raises ``Damaged``, ``OSError``."""
        if name not in self._new:
            return self._objects.get(name)
        data = _unpacked((self._folder / name.hex()).read_bytes())
        assert data is not None
        return data

    def keep(self) -> None:
        """Make them objects as all others: first what they hold is on disk, then their names."""
        if self._sync:
            self._flush(self._folder / name.hex() for name in self._new)
        shelves = {self._objects.path(name).parent for name in self._new}
        for shelf in shelves:
            shelf.mkdir(0o700, exist_ok=True)
        for name in self._new:
            (self._folder / name.hex()).replace(self._objects.path(name))
        self._objects.grown(self.size)
        if self._sync:
            self._flush([*shelves, self._objects.folder])
        self._new.clear()

    def _check_room(self, more: int) -> None:
        if self.size + more > self._limit:
            raise CheckpointProblem(
                f"it would take more than all checkpoints may, {self._limit} bytes (checkpoints.quota)"
            )
        disk = os.statvfs(self._folder)
        if disk.f_bavail * disk.f_frsize - more < min(self._spare, disk.f_blocks * disk.f_frsize // 50):
            raise CheckpointProblem("the disk is as good as full (checkpoints.spare)")

    def _flush(self, paths: Iterator[Path] | list[Path]) -> None:
        if len(self._new) > _MANY:
            os.sync()
            return
        for path in paths:
            if path.is_dir():
                sync_folder(path)
                continue
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _packed(data: bytes) -> bytes:
    probe = zlib.compress(data[:_PROBE], 1)
    if len(probe) > 0.9 * min(len(data), _PROBE):
        return _RAW + data
    return _ZLIB + (probe if len(data) <= _PROBE else zlib.compress(data, 1))


def _unpacked(stored: bytes) -> bytes | None:
    if stored[:1] == _RAW:
        return stored[1:]
    if stored[:1] != _ZLIB:
        return None
    try:
        return zlib.decompress(stored[1:])
    except zlib.error:
        return None

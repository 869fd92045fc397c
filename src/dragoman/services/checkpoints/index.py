"""What was last seen of a workspace, so that a file which did not change since is not read again.

A cache: without it everything is read, and comes out the same.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import TypeAlias

import msgspec

from .files import write_file
from .image import Entry, Folder

log = logging.getLogger("dragoman.checkpoints")

_VERSION = 1

Key: TypeAlias = tuple[int, int, int, int, int, int, int]
"""Inode, size, mtime, ctime, mode, owner and group. Whatever is done to a file changes the ctime at least."""


class Seen(msgspec.Struct, array_like=True):
    """What was seen under one name. ``below`` is what was in it, if it is a folder."""

    key: Key
    entry: Entry
    below: dict[bytes, Seen] | None = None

    @property
    def folder(self) -> Folder:
        """The entry of what is a folder."""
        assert isinstance(self.entry, Folder)
        return self.entry

    @property
    def inside(self) -> dict[bytes, Seen]:
        """What is in what is a folder."""
        assert self.below is not None
        return self.below


class Index(msgspec.Struct, array_like=True):
    """``generation`` says until when all objects that this names were there for sure."""

    version: int
    path: bytes
    device: int
    generation: bytes
    root: Seen


def key_of(status: os.stat_result) -> Key:
    """See ``Key``."""
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return (status.st_ino, status.st_size, *times, status.st_mode, status.st_uid, status.st_gid)


def load_index(file: Path, path: bytes, device: int) -> Index | None:
    """The index of this workspace, None if there is none that can be used."""
    try:
        index = msgspec.msgpack.decode(file.read_bytes(), type=Index)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("%s cannot be used: %s", file, error)
        return None
    fits = index.version == _VERSION and index.path == path and index.device == device
    return index if fits else None


def save_index(file: Path, path: bytes, device: int, generation: bytes, root: Seen) -> None:
    """Keep it for the next time, if that can be done."""
    data = msgspec.msgpack.encode(Index(_VERSION, path, device, generation, root))
    with contextlib.suppress(OSError):  # a full disk, say: the next time reads everything
        write_file(file, data, sync=False)

"""What was last seen of a workspace, so that a file which did not change since is not read again.

A cache: without it everything is read, and comes out the same.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from .files import write_file
from .image import Entry, Folder

log = logging.getLogger("dragoman.checkpoints")

_VERSION = 1

_PART = 500
"""So many entries are read and written at once: for the while nothing else in the process gets to run."""

_LENGTH = 4
"""Bytes that say how long a part is."""

Key: TypeAlias = tuple[int, int, int, int, int, int, int]
"""Inode, size, mtime, ctime, mode, owner and group. Whatever is done to a file changes the ctime at least."""


class Seen(msgspec.Struct, gc=False):
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


class Index(msgspec.Struct, frozen=True):
    """``generation`` says until when all objects that this names were there for sure."""

    generation: bytes
    root: Seen


class _Head(msgspec.Struct, frozen=True, array_like=True):
    version: int
    path: bytes
    device: int
    generation: bytes


class _Item(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One thing seen; ``depth`` folders down. A folder comes before what is in it."""

    depth: int
    name: bytes
    key: Key
    entry: Entry


def key_of(status: os.stat_result) -> Key:
    """See ``Key``."""
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return (status.st_ino, status.st_size, *times, status.st_mode, status.st_uid, status.st_gid)


def load_index(file: Path, path: bytes, device: int) -> Index | None:
    """The index of this workspace, None if there is none that can be used."""
    try:
        parts = _parts(file.read_bytes())
        head = msgspec.msgpack.decode(next(parts), type=_Head)
        if (head.version, head.path, head.device) != (_VERSION, path, device):
            return None
        return Index(head.generation, _grown(parts))
    except FileNotFoundError:
        return None
    except (OSError, LookupError, StopIteration, msgspec.MsgspecError) as error:
        log.warning("%s cannot be used: %r", file, error)
        return None


def save_index(file: Path, path: bytes, device: int, generation: bytes, root: Seen) -> None:
    """Keep it for the next time, if that can be done."""
    encoder, data = msgspec.msgpack.Encoder(), bytearray()
    _add(data, encoder.encode(_Head(_VERSION, path, device, generation)))
    items = _items(root, b"", 0)
    while part := list(itertools.islice(items, _PART)):
        _add(data, encoder.encode(part))
    with contextlib.suppress(OSError):  # a full disk, say: the next time reads everything
        write_file(file, bytes(data), sync=False)


def _items(seen: Seen, name: bytes, depth: int) -> Iterator[_Item]:
    yield _Item(depth, name, seen.key, seen.entry)
    for below, child in (seen.below or {}).items():
        yield from _items(child, below, depth + 1)


def _grown(parts: Iterator[bytes]) -> Seen:
    """Raises ``LookupError`` if it does not begin with the root, or something is in what is no folder."""
    decoder, folders = msgspec.msgpack.Decoder(list[_Item]), [dict[bytes, Seen]()]
    for item in itertools.chain.from_iterable(map(decoder.decode, parts)):
        seen = Seen(item.key, item.entry)
        folders[item.depth][item.name] = seen
        del folders[item.depth + 1 :]
        if isinstance(item.entry, Folder):
            seen.below = {}
            folders.append(seen.below)
    return folders[0][b""]


def _parts(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + _LENGTH], "big")
        yield data[at + _LENGTH : at + _LENGTH + length]
        at += _LENGTH + length


def _add(data: bytearray, part: bytes) -> None:
    data += len(part).to_bytes(_LENGTH, "big") + part

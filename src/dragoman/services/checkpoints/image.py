"""What a checkpoint says about a workspace: one tree per folder, each named by the hash of what is in it.

Equal folders are equal trees, so that what did not change from one checkpoint to the next is kept once. Names are
bytes, times nanoseconds, modes the twelve permission bits. Nothing of it is a path outside of the workspace.
"""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import msgspec

from .files import Xattrs

VERSION = 1


class Piece(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a part of a file's content begins, how long it is, and the object that holds it. Between them are holes."""

    offset: int
    length: int
    name: bytes


class File(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """A regular file. ``pieces`` are in order; ``size`` may go beyond the last."""

    mode: int
    mtime: int
    uid: int
    gid: int
    xattrs: Xattrs
    size: int
    pieces: tuple[Piece, ...]


class Link(msgspec.Struct, frozen=True, array_like=True, tag="l"):
    """A symbolic link: what it says, whether or not that is anywhere."""

    mtime: int
    uid: int
    gid: int
    target: bytes


class Pipe(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """A FIFO."""

    mode: int
    mtime: int
    uid: int
    gid: int


class Folder(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """A folder. ``tree`` names what is in it, ``substance`` that without any time."""

    mode: int
    mtime: int
    uid: int
    gid: int
    xattrs: Xattrs
    tree: bytes = b""
    substance: bytes = b""


Entry: TypeAlias = File | Link | Pipe | Folder
Tree: TypeAlias = tuple[tuple[bytes, Entry], ...]
"""What is in a folder, by name, in order."""

Groups: TypeAlias = tuple[tuple[bytes, ...], ...]
"""Paths that are one file (hard links), for each such file with more than one path in the workspace."""


class Image(msgspec.Struct, frozen=True, array_like=True):
    """A whole workspace. ``skipped`` are the paths of sockets, which belong to whoever listens."""

    version: int
    root: Folder
    groups: Groups
    skipped: tuple[bytes, ...]

    @property
    def substance(self) -> bytes:
        """The same for two images that differ in times only."""
        return name_of(encode((_timeless(self.root), self.groups)))


_encoder = msgspec.msgpack.Encoder()
_trees = msgspec.msgpack.Decoder(Tree)
_images = msgspec.msgpack.Decoder(Image)


def name_of(data: bytes) -> bytes:
    """The name of an object with this content."""
    return hashlib.sha256(data).digest()


def encode(value: object) -> bytes:
    """An image or a tree as an object's content."""
    return _encoder.encode(value)


def decode_tree(data: bytes) -> Tree:
    """Raises ``msgspec.MsgspecError``."""
    return _trees.decode(data)


def decode_image(data: bytes) -> Image:
    """Raises ``msgspec.MsgspecError``."""
    return _images.decode(data)


def substance_of(tree: Tree) -> bytes:
    """The name of a tree without any time."""
    return name_of(encode([(name, _timeless(entry)) for name, entry in tree]))


def _timeless(entry: Entry) -> Entry:
    if isinstance(entry, Folder):
        return msgspec.structs.replace(entry, mtime=0, tree=b"")
    return msgspec.structs.replace(entry, mtime=0)

"""A file's content as pieces: read without its holes, and written with them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator

from dragoman.hub.checkpoints import CheckpointProblem

from .image import Piece
from .stop import Stop

_HOLE = 128 * 1024
"""Shorter holes are read as the zeros that they are."""


def read_pieces(file: int, size: int, put: Callable[[bytes], bytes], chunk: int, stop: Stop) -> tuple[Piece, ...]:
    """Put what an open file of this size holds. One that becomes shorter meanwhile gives less."""
    pieces = []
    for start, end in _extents(file, size, chunk):
        stop.check()
        data = _read(file, start, end - start)
        if data:
            pieces.append(Piece(start, len(data), put(data)))
    return tuple(pieces)


def write_pieces(file: int, size: int, pieces: tuple[Piece, ...], get: Callable[[bytes], bytes], stop: Stop) -> None:
    """Make a new, empty file hold this. Raises ``CheckpointProblem`` if that is not what the pieces say."""
    os.ftruncate(file, size)
    for piece in pieces:
        stop.check()
        data = memoryview(get(piece.name))
        if len(data) != piece.length:
            raise CheckpointProblem("the checkpoint contradicts itself")
        done = 0
        while done < len(data):
            done += os.pwrite(file, data[done:], piece.offset + done)


def _extents(file: int, size: int, chunk: int) -> Iterator[tuple[int, int]]:
    """Where there is data: from, to. None is longer than ``chunk`` or goes beyond one of its multiples, so that a file
    that grows shares what it had with its older self."""
    at = 0
    while at < size and (start := _seek(file, at, os.SEEK_DATA, size)) < size:
        limit = min(size, (start // chunk + 1) * chunk)
        end = _seek(file, start, os.SEEK_HOLE, size)
        while end < limit and (after := _seek(file, end, os.SEEK_DATA, size)) - end < _HOLE and after < limit:
            end = _seek(file, after, os.SEEK_HOLE, size)
        at = min(end, limit)
        yield start, at


def _seek(file: int, at: int, whence: int, size: int) -> int:
    try:
        return os.lseek(file, at, whence)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but a hole from there on
            return size
        if error.errno == errno.EINVAL:  # the filesystem knows of no holes
            return at if whence == os.SEEK_DATA else size
        raise


def _read(file: int, start: int, length: int) -> bytes:
    parts = []
    while length > 0 and (part := os.pread(file, length, start)):
        parts.append(part)
        start, length = start + len(part), length - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)

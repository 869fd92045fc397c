"""The tape of an exited terminal on disk: a small header, then the bytes.

Layout, little-endian: ``DRAGTAPE``, version u32 (1), CRC-32 of the data u32, start offset u64, length u64, CRC-32 of
the header so far u32; then exactly ``length`` bytes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import struct
import zlib
from pathlib import Path

from dragoman.hub.durable_folder import sync_folder
from dragoman.hub.errors import HubError

_MAGIC = b"DRAGTAPE"
_VERSION = 1
_HEADER = struct.Struct("<8sIIQQ")
_HEADER_CRC = struct.Struct("<I")
_DATA_AT = _HEADER.size + _HEADER_CRC.size
_CHECK_STEP = 1024 * 1024


class DamagedTape(HubError):
    """A stored tape that cannot be trusted. The message names the file and what is wrong with it."""

    code = "damaged_tape"


def write_stored_tape(path: Path, start: int, data: bytes) -> None:
    """Put a tape on disk, readable by its owner only, in one step: a crash leaves the old file or the new one.

    ``start`` is the absolute offset of ``data``'s first byte. Blocks on the disk. Raises ``OSError``, and then
    leaves nothing of its own behind.
    """
    header = _HEADER.pack(_MAGIC, _VERSION, zlib.crc32(data), start, len(data))
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(header + _HEADER_CRC.pack(zlib.crc32(header)))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
        raise
    sync_folder(path.parent)


class StoredTape:
    """A tape that no longer grows, read from a file that ``write_stored_tape`` made.

    Only the header is kept in memory; ``read`` goes to the disk. The file stays readable through this object when
    it is deleted meanwhile. Close it, or use it as a context manager. Implements ``dragoman.hub.ports.Tape``.
    """

    __slots__ = ("_fd", "_length", "_path", "_start")

    def __init__(self, path: Path, fd: int, start: int, length: int) -> None:
        self._path = path
        self._fd = fd
        self._start = start
        self._length = length

    @classmethod
    def open(cls, path: Path) -> StoredTape:
        """Open and check a stored tape, data included.

        Raises ``DamagedTape`` if it is not what was written, ``OSError`` if it cannot be opened or read.
        """
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            start, length = _check(path, fd)
        except BaseException:
            os.close(fd)
            raise
        return cls(path, fd, start, length)

    @property
    def start(self) -> int:
        """Offset of the oldest byte."""
        return self._start

    @property
    def end(self) -> int:
        """Offset after the newest byte."""
        return self._start + self._length

    def read(self, offset: int, limit: int | None = None) -> tuple[int, bytes]:
        """As every tape. Also raises ``DamagedTape`` if the file was cut short meanwhile."""
        if limit is not None and limit < 0:
            raise ValueError("a limit cannot be negative")
        if offset >= self.end:
            return offset, b""
        offset = max(offset, self._start)
        count = self.end - offset if limit is None else min(limit, self.end - offset)
        return offset, _read_at(self._path, self._fd, _DATA_AT + offset - self._start, count)

    def close(self) -> None:
        """Give the file up. A second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> StoredTape:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check(path: Path, fd: int) -> tuple[int, int]:
    """Start and length, if the whole file is sound."""
    size = os.fstat(fd).st_size
    if size < _DATA_AT:
        raise DamagedTape(f"stored tape {str(path)!r} is damaged: {size} bytes are too few for its header")
    head = _read_at(path, fd, 0, _DATA_AT)
    magic, version, data_crc, start, length = _HEADER.unpack_from(head)
    if magic != _MAGIC:
        raise DamagedTape(f"{str(path)!r} is not a stored tape")
    if _HEADER_CRC.unpack_from(head, _HEADER.size)[0] != zlib.crc32(head[: _HEADER.size]):
        raise DamagedTape(f"stored tape {str(path)!r} is damaged: its header does not match its checksum")
    if version != _VERSION:
        raise DamagedTape(f"stored tape {str(path)!r} has version {version}; this program reads {_VERSION}")
    if size != _DATA_AT + length:
        raise DamagedTape(f"stored tape {str(path)!r} is damaged: it holds {size - _DATA_AT} bytes instead of {length}")
    if _data_crc(path, fd, length) != data_crc:
        raise DamagedTape(f"stored tape {str(path)!r} is damaged: its bytes do not match their checksum")
    return start, length


def _data_crc(path: Path, fd: int, length: int) -> int:
    crc = 0
    for at in range(0, length, _CHECK_STEP):
        crc = zlib.crc32(_read_at(path, fd, _DATA_AT + at, min(_CHECK_STEP, length - at)), crc)
    return crc


def _read_at(path: Path, fd: int, at: int, count: int) -> bytes:
    data = os.pread(fd, count, at)
    while len(data) < count:
        more = os.pread(fd, count - len(data), at + len(data))
        if not more:
            raise DamagedTape(f"stored tape {str(path)!r} was cut short at byte {at + len(data)}")
        data += more
    return data

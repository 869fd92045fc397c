"""``session_results.jsonl``: what came of sessions, one JSON object a line, the last line of a session wins (seed:
Architecture; spec §7 Persistence).

An index of offsets is kept in memory, so that a look-up reads one line however long the file is. What cannot be read
(a line that was cut off, or is nobody's) is passed over. The file is rewritten without what is stale when more than
half of it is. Everything here blocks: it is called in a thread, one call at a time.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Raw

NAME = "session_results.jsonl"

LIVE = frozenset({"running", "waiting_approval"})
"""Statuses that never expire: a turn is under way."""

_NULL = Raw(b"null")

_SMALL = 4 * 1024 * 1024
"""Bytes of stale lines up to which a file is not worth rewriting."""

_PIECE = 1 << 20
"""Bytes that are read at once."""


class Result(msgspec.Struct, kw_only=True, frozen=True):
    """What came of a session's newest turn. Times are seconds (``created`` and ``expires`` since 1970)."""

    session_id: str
    status: str
    prompt: str
    created: float
    expires: float
    result: str | None = None
    session: Raw = _NULL
    duration_ms: int | None = None


class Line(Result, kw_only=True, frozen=True):
    """A result as it is kept: ``hub`` is the session's own id, ``owner`` the principal that it belongs to, ``turn`` the
    turn that is spoken of."""

    hub: str
    owner: str = ""
    turn: str = ""


class Entry(msgspec.Struct, kw_only=True, frozen=True):
    """Where a session's newest line stands, and what lists need of it."""

    hub: str
    session_id: str
    status: str
    owner: str
    turn: str
    created: float
    expires: float
    offset: int
    length: int

    def expired(self, now: float) -> bool:
        """Whether nobody is told of it any more."""
        return self.status not in LIVE and now >= self.expires


_decoder = msgspec.json.Decoder(Line)
_encoder = msgspec.json.Encoder()


def shown(line: Line) -> bytes:
    """The result as clients see it, as JSON: without what is ours to know."""
    return _encoder.encode(Result(**{name: getattr(line, name) for name in Result.__struct_fields__}))


def _decoded(data: bytes) -> Line | None:
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


class ResultsFile:
    """The file below ``folder`` (made, mode 0700); ``most`` bounds its bytes. ``now`` gives the time in seconds.

    Every method may raise ``OSError``. ``open`` comes first.
    """

    def __init__(self, folder: Path, *, most: int, now: Callable[[], float]) -> None:
        self.path = folder / NAME
        self._most = most
        self._now = now
        self._entries: dict[str, Entry] = {}
        self._size = 0
        self._live = 0
        self._forgotten = False
        self._file: BinaryIO | None = None

    def open(self) -> None:
        """Read what is there. What a crash cut off is left behind."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = _opened(self.path, os.O_CREAT)
        for offset, data in self._lines(self._file):
            if (line := _decoded(data)) is not None:
                self._know(line, offset, len(data))
        self._size = self._file.seek(0, os.SEEK_END)
        self._end_line()
        self._tidy()

    def close(self) -> None:
        """Give the file up."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def entry(self, hub: str) -> Entry | None:
        """A session's newest line, expired or not."""
        return self._entries.get(hub)

    def entries(self) -> list[Entry]:
        """Those that have not expired, the newest first."""
        now = self._now()
        found = [entry for entry in self._entries.values() if not entry.expired(now)]
        return sorted(found, key=lambda entry: (entry.created, entry.offset), reverse=True)

    def read(self, entry: Entry) -> Line | None:
        """That line, whole; None when something else stands in its place."""
        file = self._required()
        file.seek(entry.offset)
        line = _decoded(file.read(entry.length))
        return line if line is not None and (line.hub, line.turn) == (entry.hub, entry.turn) else None

    def append(self, line: Line) -> None:
        """Add a line. One that is too long for the file is kept without its session object."""
        data = _encoder.encode(line)
        if len(data) > self._most // 4:
            data = _encoder.encode(msgspec.structs.replace(line, session=_NULL))
        offset = self._size
        self._write(data + b"\n")
        self._know(line, offset, len(data))
        self._tidy()

    def forget(self, hub: str) -> None:
        """A session is gone, and what came of it with it: for readers at once, from the disk with ``purge``."""
        self._forgotten = self._drop(hub) or self._forgotten

    def purge(self) -> None:
        """Leave nothing on the disk of what was forgotten."""
        if self._forgotten:
            self._rewrite()

    # Inside

    def _required(self) -> BinaryIO:
        assert self._file is not None, "the file is not open"
        return self._file

    def _lines(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Whole lines with their offsets; one that is longer than the file may be is passed over."""
        offset, rest = 0, b""
        while piece := file.read(_PIECE):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield offset, line
                offset += len(line) + 1
            if len(rest) > self._most:
                offset, rest = offset + len(rest), b""
        if rest:
            yield offset, rest  # nothing may be missing but its end of line

    def _know(self, line: Line, offset: int, length: int) -> None:
        self._drop(line.hub)
        self._entries[line.hub] = Entry(
            hub=line.hub,
            session_id=line.session_id,
            status=line.status,
            owner=line.owner,
            turn=line.turn,
            created=line.created,
            expires=line.expires,
            offset=offset,
            length=length,
        )
        self._live += length + 1

    def _drop(self, hub: str) -> bool:
        entry = self._entries.pop(hub, None)
        if entry is not None:
            self._live -= entry.length + 1
        return entry is not None

    def _write(self, data: bytes) -> None:
        """All of it or nothing: half a line would take the next one with it."""
        file = self._required()
        file.seek(self._size)
        try:
            file.write(data)
            file.flush()
        except OSError:
            self._cut()
            raise
        self._size += len(data)

    def _cut(self) -> None:
        """Take back what a full disk took of a line. The file is opened anew: its buffer still holds the rest."""
        file = self._required()
        with contextlib.suppress(OSError):
            file.close()
        self._file = _opened(self.path, os.O_CREAT)
        os.ftruncate(self._file.fileno(), self._size)

    def _end_line(self) -> None:
        """The next line must not begin behind one that a crash cut off."""
        file = self._required()
        if self._size:
            file.seek(self._size - 1)
            if file.read(1) != b"\n":
                self._write(b"\n")

    def _tidy(self) -> None:
        now = self._now()
        if self._size > self._most:
            self._make_room(now)
        if self._size - self._live > max(self._live, _SMALL):
            self._rewrite()

    def _make_room(self, now: float) -> None:
        """Let the oldest go, until what is left fills half of what the file may: so this is seldom done."""
        for entry in sorted(self._entries.values(), key=lambda entry: (not entry.expired(now), entry.created)):
            if self._live <= self._most // 2:
                break
            self._drop(entry.hub)
        self._rewrite()

    def _rewrite(self) -> None:
        """The file anew, with only what counts: complete before it takes the old one's place."""
        now, old = self._now(), self._required()
        kept = [entry for entry in self._entries.values() if not entry.expired(now)]
        aside = self.path.with_suffix(".new")
        aside.unlink(missing_ok=True)
        new, entries, size = _opened(aside, os.O_CREAT | os.O_EXCL), {}, 0
        try:
            for entry in kept:
                old.seek(entry.offset)
                new.write(old.read(entry.length) + b"\n")
                entries[entry.hub] = msgspec.structs.replace(entry, offset=size)
                size += entry.length + 1
            new.flush()
            os.fsync(new.fileno())
            aside.replace(self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                new.close()
            aside.unlink(missing_ok=True)
            raise
        old.close()
        self._file, self._entries, self._forgotten = new, entries, False
        self._size = self._live = size


def _opened(path: Path, flags: int) -> BinaryIO:
    """A file that only we read. It is no way to somewhere else, and no pipe."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no file")
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "r+b")

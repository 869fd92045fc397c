"""A terminal session on disk as asciicast v2: one JSON header, then one JSON array per line.

``[seconds, "o", text]`` is output, ``[seconds, "r", "COLSxROWS"]`` a resize, before the first output at the new size,
``[seconds, "m", label]`` a marker. Input is never recorded: it may be a password.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from io import FileIO
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from dragoman.hub.errors import InvalidRequest

QUEUE_LIMIT = 16 * 1024 * 1024
"""Bytes that may wait for the disk."""

FILE_LIMIT = 1024 * 1024 * 1024
"""Bytes of one recording on disk."""

_EVENT_COST = 64
"""What an event weighs in the queue beside its bytes."""

_encode = msgspec.json.Encoder().encode

OnStopped = Callable[[str], None]


class _Pending(NamedTuple):
    at: float
    code: Literal["o", "r", "m"]
    data: bytes


class Recording:
    """Writes what a terminal shows to a new file, off the event loop. Every method is called on the loop.

    The session never waits for it: when the disk is full or too slow, or the file too long, the recording ends there,
    with whole lines, ``stopped`` says why, and ``on_stopped`` is called with that. Where the disk allows, the reason
    is the last marker of the file. Bytes that are not UTF-8 are left out; characters may be split over chunks.
    """

    def __init__(
        self,
        file: _CastFile,
        *,
        executor: Executor | None,
        clock: Callable[[], float],
        on_stopped: OnStopped | None,
        queue_limit: int,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._executor = executor
        self._clock = clock
        self._began = clock()
        self._on_stopped = on_stopped
        self._queue_limit = queue_limit
        self._queue: list[_Pending] = []
        self._queued = 0
        self._writing: asyncio.Future[int] | None = None
        self._stopped: str | None = None
        self._closed = False
        self._over = False
        self._file = file

    @classmethod
    async def start(
        cls,
        path: Path,
        *,
        cols: int,
        rows: int,
        title: str | None = None,
        term: str = "xterm-256color",
        now: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        executor: Executor | None = None,
        on_stopped: OnStopped | None = None,
        queue_limit: int = QUEUE_LIMIT,
        file_limit: int = FILE_LIMIT,
    ) -> Recording:
        """Create the file, readable by its owner only, and write the header.

        ``now`` is the time in seconds since the epoch, ``clock`` counts seconds from anywhere. ``executor`` does the
        writing (default: the loop's). Raises ``InvalidRequest`` if the file exists or cannot be made.
        """
        header: dict[str, object] = {
            "version": 2,
            "width": cols,
            "height": rows,
            "timestamp": int(time.time() if now is None else now),
            "env": {"TERM": term},
        }
        if title is not None:
            header["title"] = title
        loop = asyncio.get_running_loop()
        file = await loop.run_in_executor(executor, _create, path, _encode(header) + b"\n", file_limit)
        return cls(file, executor=executor, clock=clock, on_stopped=on_stopped, queue_limit=queue_limit)

    @property
    def stopped(self) -> str | None:
        """Why recording ended early; None while it goes on, and after a normal ``close``."""
        return self._stopped

    def output(self, chunk: bytes) -> None:
        """Record bytes that the program wrote."""
        self._add("o", chunk)

    def resize(self, cols: int, rows: int) -> None:
        """Record a new size, before the output that is made for it."""
        self._add("r", f"{cols}x{rows}".encode())

    def mark(self, label: str) -> None:
        """Record a marker: a place that players can jump to."""
        self._add("m", label.encode(errors="replace"))

    async def close(self, *, budget: float = 2.0) -> None:
        """Write what waits and close the file; gives up on a disk that takes longer than ``budget`` seconds."""
        self._closed = True
        deadline = self._loop.time() + budget
        self._write_next()
        while self._writing is not None:
            left = deadline - self._loop.time()
            if left <= 0:
                self._stop(f"the disk did not take the rest of the recording within {budget:g} s")
                return
            await asyncio.wait((self._writing,), timeout=left)

    def _add(self, code: Literal["o", "r", "m"], data: bytes) -> None:
        if self._stopped is not None or self._closed or not data:
            return
        cost = len(data) + _EVENT_COST
        if self._queued + cost > self._queue_limit:
            self._stop(f"the disk is too slow: {self._queued} bytes wait, the limit is {self._queue_limit}")
            return
        self._queue.append(_Pending(self._clock() - self._began, code, data))
        self._queued += cost
        self._write_next()

    def _stop(self, reason: str) -> None:
        if self._stopped is not None:
            return
        self._stopped = reason
        label = f"recording stopped: {reason}".encode()
        self._queue.append(_Pending(self._clock() - self._began, "m", label))
        self._write_next()
        if self._on_stopped is not None:
            self._on_stopped(reason)

    def _write_next(self) -> None:
        """Hand over all that waits, unless a batch is under way. The batch that closes the file is the last one."""
        last = self._closed or self._stopped is not None
        if self._writing is not None or self._over or not (self._queue or last):
            return
        batch, self._queue = self._queue, []
        self._over = last
        self._writing = self._loop.run_in_executor(self._executor, self._file.write, batch, last)
        self._writing.add_done_callback(self._written)

    def _written(self, writing: asyncio.Future[int]) -> None:
        self._writing = None
        error = writing.exception()
        if error is None:
            self._queued -= writing.result()
        else:
            self._queue.clear()
            self._stop(str(error) if isinstance(error, _FileLimitReached) else f"the disk refused: {error}")
        self._write_next()


class _FileLimitReached(Exception):
    """The message is the reason."""


class _CastFile:
    """The file, in the hands of one worker thread at a time. After an error it ends with the last whole line."""

    def __init__(self, file: FileIO, limit: int) -> None:
        self._file = file
        self._limit = limit
        self._end = file.tell()
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    def write(self, batch: Sequence[_Pending], last: bool) -> int:
        """Append events, close the file after the ``last`` ones, and return what they weighed in the queue.

        Raises ``OSError``, or ``_FileLimitReached``, which does not hold for the last ones.
        """
        try:
            lines = b"".join(map(self._line, batch))
            if self._end + len(lines) > self._limit and not last:
                raise _FileLimitReached(f"the file has reached its limit of {self._limit} bytes")
            self._append(lines)
        finally:
            if last:
                self._file.close()
        return sum(len(event.data) + _EVENT_COST for event in batch)

    def _line(self, event: _Pending) -> bytes:
        text = self._decoder.decode(event.data) if event.code == "o" else event.data.decode()
        return _encode((round(event.at, 6), event.code, text)) + b"\n" if text else b""

    def _append(self, lines: bytes) -> None:
        done = 0
        try:
            while done < len(lines):
                done += self._file.write(memoryview(lines)[done:])
        except OSError:
            done = lines.rfind(b"\n", 0, done) + 1
            self._file.truncate(self._end + done)
            self._file.seek(self._end + done)
            raise
        finally:
            self._end += done


def _create(path: Path, header: bytes, limit: int) -> _CastFile:
    try:
        file = FileIO(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600))
    except FileExistsError as error:
        raise InvalidRequest(f"the recording {str(path)!r} exists already: choose another file") from error
    except OSError as error:
        raise InvalidRequest(f"the recording {str(path)!r} cannot be made: {error.strerror}") from error
    try:
        file.write(header)
    except OSError as error:
        file.close()
        path.unlink()
        raise InvalidRequest(f"the recording {str(path)!r} cannot be written: {error.strerror}") from error
    return _CastFile(file, limit)

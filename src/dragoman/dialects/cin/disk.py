"""Where the bridge reads and writes files: threads of its own, so that a slow disk holds up nothing else."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from dragoman.hub.durable_folder import sync_folder
from dragoman.hub.errors import NOT_JSON, StorageUnavailable
from dragoman.services.workspace.files import FileProblem, read_whole

log = logging.getLogger("dragoman.cin")

T = TypeVar("T")

THREADS = 4

SECONDS = 60.0
"""Within which a disk must have answered, those before it included."""

MOST_BYTES = 64 * 1024 * 1024
"""Of a file that is kept; no limit of what is in one allows so much."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Disk:
    """The threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="cin-disk")

    async def run(self, work: Callable[[], T]) -> T:
        """What ``work`` gives, done in a thread. Raises what it raises; ``StorageUnavailable`` at the server's end, and
        for a disk that does not answer: what was begun may be done later all the same."""
        try:
            begun = self._threads.submit(work)
        except RuntimeError:
            raise StorageUnavailable("the server stops") from None
        done = asyncio.wrap_future(begun)
        finished, _ = await asyncio.wait([done], timeout=SECONDS)
        if not finished:
            done.cancel()
            raise StorageUnavailable("the disk does not answer")
        return done.result()

    def close(self) -> None:
        """What has begun is done; what waits is not."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Kept(Generic[T]):
    """One JSON file: read once, then known; each change is on disk before anybody hears of it.

    ``empty`` is what it is without a file. A file that cannot be understood is set aside, beside it, and said so.
    """

    def __init__(self, disk: Disk, path: Path, shape: type[T], empty: T) -> None:
        self._disk = disk
        self._path = path
        self._shape = shape
        self._begun = False
        self._changing = asyncio.Lock()
        self.now = empty
        """What it holds, once ``begin`` has returned."""

    async def begin(self) -> T:
        """Read it, if nobody has. Raises ``StorageUnavailable``."""
        if not self._begun:
            async with self._changing:
                await self._read()
        return self.now

    async def change(self, changed: Callable[[T], T], told: Callable[[T], None] = lambda _now: None) -> T:
        """Put what ``changed`` makes of it in its place; ``told`` hears of it in the order of the changes.

        Raises what ``changed`` raises, and ``StorageUnavailable``: then nothing has changed.
        """
        async with self._changing:
            await self._read()
            new = changed(self.now)
            if new != self.now:
                data = msgspec.json.encode(new)
                await self._disk.run(lambda: self._written(data))
                self.now = new
                told(new)
        return self.now

    async def _read(self) -> None:
        if not self._begun:
            found = await self._disk.run(self._found)
            self.now = self.now if found is None else found
            self._begun = True

    def _found(self) -> T | None:
        try:
            data = read_whole(self._path, MOST_BYTES)
            return None if data is None else msgspec.json.decode(data, type=self._shape)
        except (FileProblem, *NOT_JSON) as problem:
            aside = self._path.with_name(self._path.name + ".damaged")
            log.warning("%s cannot be used and is now %s: %s", self._path, aside.name, problem)
            try:
                self._path.replace(aside)
            except OSError as error:
                raise StorageUnavailable(f"{self._path.name} cannot be set aside: {error.strerror}") from None
            return None

    def _written(self, data: bytes) -> None:
        try:
            write_whole(self._path, data)
        except OSError as problem:
            raise StorageUnavailable(f"{self._path.name} cannot be written: {problem.strerror}") from None


def write_whole(path: Path, data: bytes) -> None:
    """Put a file in its place in one step, durably, for nobody but the person to read; its folder is made. Blocks.
    Raises ``OSError``."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(new, _CREATE, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)

"""Artifacts that belong to a user (windie's ``/api/artifacts/``): ``<folder>/kept/<id>``, and a table of owners.

What is being written lies in ``<folder>/new``. A file takes its name before its row is written, and loses it after its
row is gone: so a crash can leave files without a row, which the next start removes, and never a row without its file.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, TypeVar

from dragoman.hub.artifacts import ArtifactProblem
from dragoman.hub.clock import Clock
from dragoman.hub.errors import DataFolderError

from .incoming import Incoming
from .kinds import HEAD_BYTES, kind_of, may_be, new_id
from .owned_table import Owned, OwnedTable, check_quota, gone
from .refused import NoRoom, TooLarge
from .room import free_beyond
from .settings import OwnedArtifactSettings
from .store import Stopped

log = logging.getLogger("dragoman.artifacts")

PIECE = 1024 * 1024
"""Bytes that are gathered before they go to disk."""

SWEPT = 100
"""Artifacts that a sweep lets go of before it lets others have the thread."""

_DAY = 24 * 60 * 60 * 1000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC

T = TypeVar("T")


class OwnedArtifacts:
    """See the module. Methods belong to one event loop; whatever waits for the disk is done in threads."""

    def __init__(self, settings: OwnedArtifactSettings, folder: Path, clock: Clock) -> None:
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._threads = ThreadPoolExecutor(max(1, settings.threads), thread_name_prefix="owned-artifacts")
        self._table: OwnedTable | None = None
        self._opening = threading.Lock()
        self._incoming: set[Incoming] = set()
        self._closed = False

    @property
    def size(self) -> int:
        """Bytes that one artifact may have."""
        return self._settings.size

    async def start(self) -> None:
        """Remove what a lost server left unfinished. Without it, the first call does. Raises ``ArtifactProblem``."""
        await self._work(self._opened)

    async def put(self, owner: str, pieces: AsyncIterator[bytes], claimed_type: str | None = None) -> Owned:
        """Keep what these bytes make together; it is on disk when this returns.

        What it is, is told from its content; ``claimed_type`` is only logged where it differs. Raises ``TooLarge``,
        ``OverQuota``, ``NoRoom``, ``UnknownType``, ``ArtifactProblem`` (the disk fails, the server stops), and whatever
        ``pieces`` raises: then, and when it is cancelled, nothing of it is left.
        """
        incoming = Incoming(self._folder / "new" / secrets.token_hex(16))
        self._incoming.add(incoming)
        try:
            kept = await self._put(owner, pieces, incoming)
        except BaseException:
            incoming.unwanted = True
            # Also whoever is cancelled waits for it; a second cancellation does not stop the thread.
            await self._discarded(incoming)
            self._incoming.discard(incoming)
            raise
        self._incoming.discard(incoming)
        if claimed_type is not None and claimed_type != kept.media_type:
            log.debug("artifact %s came as %.100r and is %s", kept.id, claimed_type, kept.media_type)
        return kept

    async def get(self, owner: str, artifact: str) -> Owned:
        """What is known of it. Raises ``UnsafeId``, ``ArtifactGone`` (none, another's, its days are over)."""
        if not may_be(artifact):
            raise gone()
        return await self._work(lambda: self._opened().get(owner, artifact, self._since()))

    async def open(self, owner: str, artifact: str) -> BinaryIO:
        """A file to read from, seekable, and whole even if the artifact goes meanwhile. Raises as ``get``.

        The caller closes it, and reads in a thread.
        """
        if not may_be(artifact):
            raise gone()
        job = asyncio.ensure_future(self._work(lambda: self._open(owner, artifact)))
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            job.add_done_callback(_close_unread)
            raise

    async def remove(self, owner: str, artifact: str) -> None:
        """Let it go. Raises as ``get``."""
        if not may_be(artifact):
            raise gone()
        await self._work(lambda: self._remove(owner, artifact))

    async def sweep(self) -> int:
        """Let go of all whose days are over; how many they were. Others get their turn after every ``SWEPT``."""
        total = 0
        while swept := await self._work(self._sweep):
            total += swept
        return total

    async def keep_sweeping(self) -> None:
        """Sweep again and again until cancelled; for a ``TaskOwner``. One that fails is logged, and tried again."""
        while self._settings.days:
            try:
                await self.sweep()
            except ArtifactProblem as problem:
                log.warning("artifacts whose days are over cannot be removed: %s", problem)
            await asyncio.sleep(self._settings.sweep_every)

    async def close(self) -> None:
        """Take back what is still on its way, end the threads and close the table. What is asked later is refused."""
        if self._closed:
            return
        self._closed = True
        job = asyncio.get_running_loop().run_in_executor(self._threads, self._close, list(self._incoming))
        try:
            await asyncio.shield(job)
        finally:
            self._threads.shutdown(wait=False)

    # On the loop

    async def _put(self, owner: str, pieces: AsyncIterator[bytes], incoming: Incoming) -> Owned:
        count, held, free = await self._work(lambda: self._room(owner))
        check_quota(self._settings, count + 1, held)
        size, kind, waiting = 0, None, bytearray()
        async for piece in pieces:
            size += len(piece)
            self._check(size, held, free)
            waiting += piece
            if kind is None and size >= HEAD_BYTES:
                kind = kind_of(bytes(waiting[:HEAD_BYTES]))
            if len(waiting) >= PIECE:
                whole, waiting = bytes(waiting), bytearray()
                await self._write(incoming, whole)
        kind = kind or kind_of(bytes(waiting))
        await self._write(incoming, bytes(waiting))
        return await self._keep(incoming, owner, kind, size)

    def _check(self, size: int, held: int, free: int) -> None:
        if size > self._settings.size:
            raise TooLarge(self._settings.size)
        check_quota(self._settings, 0, held + size)
        if size > free:
            raise NoRoom("the disk is as good as full")

    async def _write(self, incoming: Incoming, data: bytes) -> None:
        await self._work(lambda: incoming.write(data))

    async def _keep(self, incoming: Incoming, owner: str, kind: str, size: int) -> Owned:
        name, now, since = new_id(kind), self._clock.now(), self._since()
        return await self._work(
            lambda: incoming.keep(
                self._path(name),
                lambda digest: Owned(name, owner, kind, size, digest, now),
                lambda row: self._opened().add(row, since, self._settings),
                lambda: self._undo(name),
            )
        )

    async def _discarded(self, incoming: Incoming) -> None:
        if self._closed:
            return  # ``close`` does it, or did
        with contextlib.suppress(ArtifactProblem):  # the disk fails; what it left goes when the next server starts
            await self._work(lambda: incoming.discard(kept_too=True))

    def _since(self) -> int:
        """The time up to which artifacts are too old."""
        return self._clock.now() - self._settings.days * _DAY if self._settings.days else -1

    async def _work(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise ArtifactProblem("the server stops")
        try:
            return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._threads, work))
        except (OSError, sqlite3.Error, DataFolderError) as error:
            raise ArtifactProblem(f"it cannot be done: {getattr(error, 'strerror', None) or error}") from error
        except Stopped as stopped:
            raise ArtifactProblem("the server stops") from stopped

    # In a thread

    def _opened(self) -> OwnedTable:
        with self._opening:
            if self._table is None:
                self._table = self._open_table()
            return self._table

    def _open_table(self) -> OwnedTable:
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        for needed in (self._folder, self._folder / "new", self._folder / "kept"):
            needed.mkdir(0o700, exist_ok=True)
        table = OwnedTable(self._folder / "owned.sqlite")
        # Nothing is on its way yet: every upload begins by opening the table.
        for left in (self._folder / "new").iterdir():
            left.unlink()
        for kept in (self._folder / "kept").iterdir():
            if not table.has(kept.name):
                kept.unlink()
        return table

    def _path(self, artifact: str) -> Path:
        return self._folder / "kept" / artifact

    def _room(self, owner: str) -> tuple[int, int, int]:
        count, held = self._opened().held(owner, self._since())
        return count, held, free_beyond(self._folder, self._settings.spare)

    def _open(self, owner: str, artifact: str) -> BinaryIO:
        self._opened().get(owner, artifact, self._since())
        try:
            return os.fdopen(os.open(self._path(artifact), _READ), "rb")
        except FileNotFoundError as error:  # it went in between, or somebody took the file away
            raise gone() from error

    def _remove(self, owner: str, artifact: str) -> None:
        self._opened().get(owner, artifact, self._since())
        self._drop([artifact])

    def _drop(self, artifacts: list[str]) -> None:
        self._opened().remove(artifacts)
        self._unlink(artifacts)

    def _undo(self, artifact: str) -> None:
        try:
            self._opened().remove([artifact])
        finally:
            # With a broken table, too: nobody was told of this file.
            self._unlink([artifact])

    def _unlink(self, artifacts: list[str]) -> None:
        for one in artifacts:
            self._path(one).unlink(missing_ok=True)

    def _sweep(self) -> int:
        expired = self._opened().expired(self._since(), SWEPT) if self._settings.days else []
        self._drop(expired)
        return len(expired)

    def _close(self, incoming: list[Incoming]) -> None:
        for one in incoming:
            one.discard(kept_too=one.unwanted)
        with self._opening:
            if self._table is not None:
                self._table.close()


def _close_unread(job: asyncio.Future[BinaryIO]) -> None:
    """Whoever asked for the file is gone."""
    if not job.cancelled() and job.exception() is None:
        job.result().close()

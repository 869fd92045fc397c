"""The store on disk: ``<folder>/<session>/<id>``; what is being written lies in ``<folder>/.new``.

An artifact is written under a name of its own, and takes its place, whole and on disk, by a rename. So there is none in
part, whoever is killed when.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, TypeVar

from dragoman.hub.artifacts import Artifact, ArtifactGone, ArtifactProblem, is_artifact
from dragoman.hub.durable_folder import sync_folder

from .room import free_beyond
from .settings import ArtifactSettings

log = logging.getLogger("dragoman.artifacts")

T = TypeVar("T")

_NEW = ".new"
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class Stopped(Exception):
    """Whoever asked for it is gone."""


class ArtifactStore:
    """Implements ``hub.artifacts.Artifacts``. Nothing is touched before the first artifact comes."""

    def __init__(self, settings: ArtifactSettings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._threads = ThreadPoolExecutor(max(1, settings.threads), thread_name_prefix="artifacts")
        self._references: dict[tuple[str, str], int] = {}
        """How many refer to an artifact that came while this server runs. Others stay: somebody refers to them."""
        self._closed = False
        self._writing: set[Path] = set()
        self._lock = threading.Lock()
        """Of the references, and of files that come and go with them."""

    # The port

    async def put(self, session: str, pieces: Iterable[bytes]) -> Artifact:
        """See ``Artifacts``."""
        stop = threading.Event()
        job = asyncio.wrap_future(self._started(lambda: self._put(session, pieces, stop)))
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            stop.set()
            job.add_done_callback(lambda done: self._take_back(session, done))
            raise

    async def release(self, session: str, artifact: str) -> None:
        """See ``Artifacts``."""
        await self._work(lambda: self._release(session, artifact))

    async def stat(self, session: str, artifact: str) -> Artifact:
        """See ``Artifacts``."""
        return await self._work(lambda: Artifact(artifact, self._path(session, artifact).stat().st_size))

    async def read(self, session: str, artifact: str) -> bytes:
        """See ``Artifacts``."""
        return await self._work(lambda: self._read(session, artifact))

    async def open(self, session: str, artifact: str) -> BinaryIO:
        """See ``Artifacts``."""
        return await self._work(lambda: _opened(self._path(session, artifact)))

    def dropped(self, session: str) -> None:
        """See ``Artifacts``. It goes in a thread; what a lost server leaves of it goes by the next sweep."""
        if _SESSION.fullmatch(session) is not None:
            with contextlib.suppress(ArtifactProblem):  # the server stops
                self._started(lambda: self._drop(session))

    async def sweep(self, kept: Callable[[str], bool]) -> None:
        """See ``Artifacts``."""
        for session in await self._work(self._tidy):
            if not kept(session):
                self.dropped(session)

    async def close(self) -> None:
        """End the threads, once what they are at is done."""
        self._closed = True
        self._threads.shutdown(wait=False)

    def _take_back(self, session: str, done: asyncio.Future[Artifact]) -> None:
        if not done.cancelled() and done.exception() is None:
            with contextlib.suppress(ArtifactProblem):  # the server stops: it is nobody's, and small harm
                self._started(lambda: self._release(session, done.result().id))

    # In a thread

    def _put(self, session: str, pieces: Iterable[bytes], stop: threading.Event) -> Artifact:
        folder = self._folder_of(session)
        new = self._folder / _NEW / secrets.token_hex(16)
        self._writing.add(new)
        try:
            self._prepare(folder)
            artifact = self._write(new, pieces, _Room(self._settings, folder), stop)
            with self._lock:
                self._keep(new, session, artifact.id)
        except OSError as error:
            raise ArtifactProblem(f"it cannot be kept: {error.strerror or error}") from error
        finally:
            new.unlink(missing_ok=True)
            self._writing.discard(new)
        return artifact

    def _write(self, new: Path, pieces: Iterable[bytes], room: _Room, stop: threading.Event) -> Artifact:
        digest, size = hashlib.sha256(), 0
        with os.fdopen(os.open(new, _CREATE, 0o600), "wb") as file:
            for piece in pieces:
                if stop.is_set():
                    raise Stopped
                size += len(piece)
                room.check(size)
                digest.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        return Artifact(digest.hexdigest(), size)

    def _keep(self, new: Path, session: str, artifact: str) -> None:
        """Give it its name. One that lay there before this server ran is somebody's already."""
        path, key = self._folder / session / artifact, (session, artifact)
        counted = key in self._references or not path.exists()
        new.replace(path)
        for changed in (path.parent, self._folder):
            sync_folder(changed)
        if counted:
            self._references[key] = self._references.get(key, 0) + 1

    def _release(self, session: str, artifact: str) -> None:
        key = (session, artifact)
        with self._lock:
            if key not in self._references:
                return  # there before this server ran
            self._references[key] -= 1
            if not self._references[key]:
                del self._references[key]
                (self._folder_of(session) / artifact).unlink(missing_ok=True)

    def _read(self, session: str, artifact: str) -> bytes:
        with _opened(self._path(session, artifact)) as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != artifact:
            raise ArtifactGone(f"artifact {artifact[:12]} is damaged")
        return data

    def _drop(self, session: str) -> None:
        with self._lock:
            for key in [key for key in self._references if key[0] == session]:
                del self._references[key]
            shutil.rmtree(self._folder / session, ignore_errors=True)
        if (self._folder / session).exists():
            log.warning("artifacts of session %s are left behind in %s", session, self._folder)

    def _tidy(self) -> list[str]:
        """Remove what was never finished; the sessions of which there is something."""
        if not self._folder.is_dir():
            return []
        for left in (self._folder / _NEW).glob("*"):
            if left not in self._writing:
                left.unlink(missing_ok=True)
        return [found.name for found in self._folder.iterdir() if found.name != _NEW]

    def _prepare(self, folder: Path) -> None:
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        for needed in (self._folder, self._folder / _NEW, folder):
            needed.mkdir(0o700, exist_ok=True)

    def _folder_of(self, session: str) -> Path:
        if _SESSION.fullmatch(session) is None:
            raise ArtifactProblem("this is no session")
        return self._folder / session

    def _path(self, session: str, artifact: str) -> Path:
        if not is_artifact(artifact) or _SESSION.fullmatch(session) is None:
            raise ArtifactGone(f"no artifact {artifact[:64]!r}")
        return self._folder / session / artifact

    def _started(self, work: Callable[[], T]) -> Future[T]:
        """Begun in a thread. Raises ``ArtifactProblem`` once the server stops."""
        if self._closed:
            raise ArtifactProblem("the server stops")
        return self._threads.submit(work)

    async def _work(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.wrap_future(self._started(work))
        except FileNotFoundError as error:
            raise ArtifactGone("there is no such artifact") from error
        except OSError as error:
            raise ArtifactProblem(f"it cannot be read: {error.strerror or error}") from error


class _Room:
    """What an artifact may take."""

    def __init__(self, settings: ArtifactSettings, folder: Path) -> None:
        self._settings = settings
        self._held = sum(found.stat().st_size for found in folder.iterdir())
        self._free = free_beyond(folder, settings.spare)

    def check(self, size: int) -> None:
        """Raises ``ArtifactProblem`` if so much is too much."""
        if size > self._settings.size:
            raise ArtifactProblem(f"it is longer than {self._settings.size} bytes (artifacts.size)")
        if self._held + size > self._settings.per_session:
            raise ArtifactProblem(f"the session has {self._settings.per_session} bytes already (artifacts.per_session)")
        if size > self._free:
            raise ArtifactProblem("the disk is as good as full (artifacts.spare)")


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, _READ), "rb")

"""Folders whose repositories are watched: looked at when something happened there, and now and then anyway."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from dragoman.hub.tasks import TaskOwner

from .looking import Identity, Looker, Seen, identity
from .program import Git
from .settings import GitSettings
from .status import FolderStatus

log = logging.getLogger("dragoman.git")

T = TypeVar("T")

_CLOSING = 1.0
"""Seconds that the end of a look is waited for once its command was killed."""


class _Watched:
    """A folder: by how many it is watched, what was seen there, when that was, until when it is left alone, and when it
    is to be looked at next, all in seconds of the monotonic clock."""

    __slots__ = ("count", "due", "ended", "rests", "seen", "waiting")

    def __init__(self, due: float) -> None:
        self.count = 0
        self.due = due
        self.ended = self.rests = -math.inf
        self.seen: Seen | None = None
        self.waiting: list[asyncio.Future[None]] = []


class GitFolders:
    """The git status of folders; one look at a time, in a thread of its own. All methods are called on the loop.

    ``changed`` is told of each folder whose status is another one to look at. ``now`` is the time in milliseconds.
    """

    def __init__(
        self,
        settings: GitSettings,
        changed: Callable[[str], None],
        *,
        environment: Mapping[str, str] = os.environ,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._settings = settings
        self._changed = changed
        self._now = now
        self._git = Git(settings, environment)
        self._base = tempfile.TemporaryDirectory(prefix="dragoman-git-", ignore_cleanup_errors=True)
        self._looker = Looker(self._git, settings, Path(self._base.name))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="git")
        self._folders: dict[str, _Watched] = {}
        self._tasks = TaskOwner("git")
        self._poller: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._glance_at = 0.0
        self._full = False
        self._closed = False
        if not self._git.there:
            log.warning("there is no %s on this machine: no folder is shown as a repository", settings.program)

    def watch(self, folder: str) -> None:
        """Look at a folder from now on. Each call wants its own ``unwatch``."""
        watched = self._folders.get(folder)
        if watched is None:
            if self._closed or len(self._folders) >= self._settings.folders:
                self._say_full()
                return
            watched = self._folders[folder] = _Watched(time.monotonic())
            self._start()
        watched.count += 1

    def unwatch(self, folder: str) -> None:
        """One less wants to know of it."""
        watched = self._folders.get(folder)
        if watched is None:
            return
        watched.count -= 1
        if watched.count <= 0:
            del self._folders[folder]
            _release(watched)

    def status(self, folder: str) -> FolderStatus | None:
        """What was seen last; None for a folder that is not watched, or was not looked at yet."""
        watched = self._folders.get(folder)
        return watched.seen.status if watched is not None and watched.seen is not None else None

    def touch(self, folder: str) -> None:
        """Something happened in a folder: look there soon. Costs next to nothing, however often it is called."""
        watched = self._folders.get(folder)
        if watched is not None:
            self._sooner(watched, max(time.monotonic() + self._settings.settle, watched.rests))

    async def refresh(self, folder: str) -> FolderStatus | None:
        """The result of a look that begins after this call: at once, or ``settle`` after the one before."""
        watched = self._folders.get(folder)
        if watched is not None and not self._closed:
            done = asyncio.get_running_loop().create_future()
            watched.waiting.append(done)
            self._sooner(watched, max(time.monotonic(), watched.ended + self._settings.settle))
            await done
        return self.status(folder)

    async def close(self) -> None:
        """Look at nothing any more; a command that runs is ended."""
        self._closed = True
        self._git.close()
        await self._tasks.close(_CLOSING)
        for watched in self._folders.values():
            _release(watched)
        self._folders.clear()
        await asyncio.to_thread(self._thread.shutdown)
        self._base.cleanup()

    # Inside

    def _start(self) -> None:
        if self._poller is None:
            self._poller = self._tasks.start(self._poll(), "poll")
        self._wake.set()

    def _sooner(self, watched: _Watched, due: float) -> None:
        if due < watched.due:
            watched.due = due
            self._wake.set()

    def _say_full(self) -> None:
        if not self._full and not self._closed:
            self._full = True
            log.warning("more than %d folders are not watched (git.folders)", self._settings.folders)

    async def _poll(self) -> None:
        while True:
            self._wake.clear()
            if time.monotonic() >= self._glance_at:
                await self._glance()
            folder = min(self._folders, key=lambda each: self._folders[each].due, default=None)
            pause = None
            if folder is not None:
                pause = min(self._folders[folder].due, self._glance_at) - time.monotonic()
                if self._folders[folder].due <= time.monotonic():
                    await self._look(folder, self._folders[folder])
                    continue
            await self._sleep(pause)

    async def _sleep(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _glance(self) -> None:
        """Whether HEAD or index of a repository are others than at the last look."""
        paths = {folder: watched.seen.watched for folder, watched in self._folders.items() if watched.seen is not None}
        found: dict[str, Identity] = await self._in_thread(
            lambda: {folder: identity(watched) for folder, watched in paths.items()}
        )
        now = time.monotonic()
        self._glance_at = now + self._settings.glance
        for folder, seen_now in found.items():
            watched = self._folders.get(folder)
            if watched is not None and watched.seen is not None and watched.seen.identity != seen_now:
                watched.due = min(watched.due, max(now, watched.rests))

    async def _look(self, folder: str, watched: _Watched) -> None:
        waiting, watched.waiting = watched.waiting, []
        # What happens in the folder during the look is due anew.
        watched.due = time.monotonic() + self._settings.tick
        before, now = watched.seen, self._now()
        try:
            seen = await self._in_thread(lambda: self._looker.look(folder, before, now))
        except Exception:
            log.exception("looking at %s failed", folder)
            return
        finally:
            _release(watched, waiting)
        watched.ended = time.monotonic()
        watched.rests = watched.ended + max(self._settings.settle, seen.took * self._settings.rest)
        watched.due = max(watched.due, watched.ended + self._settings.settle if watched.waiting else watched.rests)
        watched.seen = seen
        if seen.failure is not None and (before is None or before.failure != seen.failure):
            log.warning("git says not all of %s: %s", folder, seen.failure)
        if self._folders.get(folder) is watched and seen.status.differs(before.status if before else None):
            self._tell(folder)

    def _tell(self, folder: str) -> None:
        try:
            self._changed(folder)
        except Exception:
            log.exception("whoever was told of %s failed", folder)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _release(watched: _Watched, waiting: list[asyncio.Future[None]] | None = None) -> None:
    """Let those go who wait for a look."""
    for each in watched.waiting if waiting is None else waiting:
        if not each.done():
            each.set_result(None)

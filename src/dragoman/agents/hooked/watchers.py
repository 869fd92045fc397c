"""Watching what agents elsewhere write: one task follows all their session logs, and the events file.

Which logs: those that hooks name, and those found in the user's own folders. Files are read in a thread, since a home
folder may lie on a slow disk, and searched for in a second one, since that may take long.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from dragoman.agents.common.observation import Observation
from dragoman.agents.common.paced_log import PacedLog
from dragoman.hub.errors import HubError, StorageUnavailable
from dragoman.hub.limits import HubLimits
from dragoman.hub.ports import HookChannel

from .events_file import EventsFile, Taker
from .followed import Followed
from .following import Following
from .log_source import LogSource
from .places import Places
from .rollouts import Rollouts
from .search import Found, LogSearch
from .settings import HookedSettings
from .transcripts import Transcripts, named_logs

log = logging.getLogger("dragoman.hooked")

BEHIND = 0.01
"""Seconds between two looks while there is more to read."""

AT_ONCE = 32
"""Records that are taken in before others have their turn."""

SAVED = 1.0
"""Seconds between two times that places are written down."""

LAST_WORK = 0.5
"""Seconds in which what was read is still taken in when the server stops."""

MAX_NAMED = 1000
"""Names of logs that may wait to be looked at; beyond that the oldest is forgotten."""

R = TypeVar("R")


class Observer(Taker, Protocol):
    """What is read is given to: ``Intake``."""

    async def observed(
        self,
        agent: str,
        agent_session: str,
        observation: Observation,
        *,
        cwd: str | None = None,
        create: bool = False,
    ) -> bool | None: ...


class Watchers:
    """``kept`` is the file in which it is kept how far logs were read. ``home`` and ``environ`` are the user's.

    Open it once the intake is open, and close it before that is closed.
    """

    def __init__(
        self,
        intake: Observer,
        settings: HookedSettings,
        limits: HubLimits | None = None,
        *,
        home: Path | None = None,
        environ: Mapping[str, str] | None = None,
        kept: Path | None = None,
    ) -> None:
        self._intake = intake
        self._settings = settings
        limits = limits or HubLimits()
        home, environ = home or Path.home(), os.environ if environ is None else environ
        found: tuple[LogSource, ...] = (Transcripts(home, environ, limits), Rollouts(home, environ, limits))
        self._watched = [source for source in found if source.agent in settings.watch]
        self._logs = Following(
            {source.agent: source for source in (*found, *named_logs(home, limits))},
            frozenset(source.agent for source in self._watched),
            settings,
            limits,
            say=self._said_in_thread,
        )
        name = settings.events_file
        say = partial(self._said_in_thread, "events")
        self._events = EventsFile(Path(name).expanduser(), intake, limits, say=say) if name else None
        self._named: deque[tuple[str, str, str, HookChannel, int]] = deque(maxlen=MAX_NAMED)
        self._places = Places(kept)
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="session-logs")
        self._finding = ThreadPoolExecutor(1, thread_name_prefix="session-log-search")
        self._said = PacedLog(log)
        self._to_say: deque[tuple[str, str]] = deque(maxlen=MAX_NAMED)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._search: LogSearch | None = None
        self._searching: asyncio.Future[list[Found]] | None = None
        self._searched_at = self._looked_at = self._saved_at = float("-inf")
        self._waits = False
        self._closing = False
        self.searched = asyncio.Event()
        """Set once the logs that were there before the server are known."""

    async def open(self) -> None:
        """Begin: what is written from now on is taken in."""
        self._search = LogSearch(self._watched, self._settings, time.time())
        for agent in sorted(set(self._settings.watch) - {source.agent for source in self._watched}):
            log.warning("session logs of %s cannot be watched for (hooked.watch)", agent)
        if not self._watched:
            self.searched.set()
        await self._in_thread(self._open_files)
        self._task = asyncio.create_task(self._run(), name="session logs")

    async def close(self) -> None:
        """Take in what was read, for a moment, and keep how far that came."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=LAST_WORK)
            self._task.cancel()
            await asyncio.wait({self._task})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORK):
                    await self._save()
        for threads in (self._reading, self._finding):
            threads.shutdown(wait=False, cancel_futures=True)
        self._say_all()
        self._said.close()

    def named(self, agent: str, agent_session: str, path: str, channel: HookChannel) -> None:
        """A hook names the log of its session."""
        self._named.append((agent, agent_session, path, channel, time.time_ns() // 1_000_000))
        self._wake.set()

    def hurry(self) -> None:
        """Look at once, and at all of them: somebody waits for what a log says."""
        self._looked_at = float("-inf")
        self._wake.set()

    def _open_files(self) -> None:
        if self._events is not None:
            self._events.open()
        for kept in self._places.load():
            self._logs.take_kept(kept)

    # The one task

    async def _run(self) -> None:
        while not self._closing:
            self._wake.clear()
            try:
                await self._turn()
            except Exception:  # what goes wrong with one file once ends the watching of none
                log.exception("a look at session logs failed")
            self._say_all()
            if not self._closing:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause()):
                        await self._wake.wait()

    async def _turn(self) -> None:
        now = _now()
        while self._named:
            name = self._named.popleft()
            await self._in_thread(partial(self._logs.take_name, *name))
        await self._search_logs(now)
        stirred = await self._in_thread(lambda: self._look_around(now))
        if self._events is not None and self._events.waits:
            await self._events.give()
        self._waits = False
        for followed in stirred:
            if self._closing:
                return
            await self._follow_up(followed)
        if now - self._saved_at >= SAVED:
            self._saved_at = now
            await self._save()

    def _look_around(self, now: float) -> list[Followed]:
        """In the thread. Those that are not lively are looked at as seldom as logs are searched for."""
        if self._events is not None:
            self._events.look()
        all_of_them = now - self._looked_at >= self._settings.discover
        if all_of_them:
            self._looked_at = now
        return self._logs.stirred(now, all_of_them=all_of_them)

    def _pause(self) -> float:
        now = _now()
        if any(one.tail.behind and not self._waits for one in self._logs):
            return BEHIND
        if self._events is not None and self._events.behind and not self._events.waits:
            return BEHIND
        if self._events is not None or self._waits or self._logs.lively(now):
            return self._settings.look
        return max(BEHIND, self._settings.discover - (now - self._looked_at))

    async def _follow_up(self, followed: Followed) -> None:
        """Read what is new in one log, and give it on."""
        place = followed.tail.offset
        await self._in_thread(followed.look)
        if followed.tail.offset != place:
            followed.stirred_at = _now()
        if followed.refused:
            self._said.warn("named", f"{followed.path.name} is not the log of the session whose hook names it")
            self._logs.drop(followed)
        count = 0
        while followed.waiting and not self._closing and await self._given(followed):
            count += 1
            if count % AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _given(self, followed: Followed) -> bool:
        """Give on the first that waits; whether to go on."""
        known: bool | None = True
        try:
            known = await self._intake.observed(
                followed.source.agent,
                followed.session,
                followed.waiting[0][1],
                cwd=followed.cwd,
                create=followed.create and followed.cwd is not None,
            )
        except StorageUnavailable as problem:
            self._said.warn("storage", f"what {followed.path.name} says waits: {problem}")
            self._waits = True
            return False
        except HubError as problem:
            self._said.warn("refused", f"something that {followed.path.name} says is left out: {problem}")
        except Exception:  # one record never costs those behind it
            log.exception("a record of %s is not taken in", followed.path.name)
        if known is None:  # nobody can say yet whether it is of an agent of ours
            self._waits = True
            return False
        followed.gave()
        if known:
            return True
        if followed.create:
            self._logs.leave(followed)
        else:
            self._logs.drop(followed)  # its session is gone
        return False

    async def _search_logs(self, now: float) -> None:
        assert self._search is not None
        loop = asyncio.get_running_loop()
        if self._searching is None and self._watched and now - self._searched_at >= self._settings.discover:
            self._searched_at = now
            search = self._search.again if self.searched.is_set() else self._search.first
            self._searching = loop.run_in_executor(self._finding, search)
            self._searching.add_done_callback(lambda _: self._wake.set())
        elif self._searching is not None and self._searching.done():
            searching, self._searching = self._searching, None
            for found in await searching:
                if await self._in_thread(partial(self._logs.take_found, found)):
                    await loop.run_in_executor(self._finding, self._search.taken, found)
            self.searched.set()

    # In threads

    async def _in_thread(self, work: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._reading, work)

    async def _save(self) -> None:
        try:
            await self._in_thread(lambda: self._places.save(one.kept for one in self._logs))
        except OSError as problem:
            self._said.warn("kept", f"how far session logs were read cannot be kept: {problem}")

    def _said_in_thread(self, kind: str, text: str) -> None:
        self._to_say.append((kind, text))

    def _say_all(self) -> None:
        while self._to_say:
            self._said.warn(*self._to_say.popleft())


def _now() -> float:
    return time.monotonic()

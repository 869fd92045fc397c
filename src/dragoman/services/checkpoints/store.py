"""The Checkpoints port on a folder (``hub/checkpoints.py``; docs/checkpoints.md).

Everything that touches a disk happens in threads of its own. Who is cancelled waits until the thread has undone what it
was at, so that nothing goes on behind anybody's back.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from dragoman.hub.checkpoints import CheckpointGone, CheckpointProblem, Saved

from .camera import Camera
from .files import shown
from .keeper import Keeper
from .locks import locked
from .places import Place, Turns, find_place
from .recorder import New, Recorder
from .records import checked_name
from .restoring import Restorer, Wish
from .rounds import Asked, Round, Taker
from .settings import CheckpointSettings
from .stop import Stop, Stopped

log = logging.getLogger("dragoman.checkpoints")

T = TypeVar("T")

_STOPPING = "the server is stopping"


class CheckpointStore:
    """See the module. One per server; what belongs to a session belongs to that server."""

    def __init__(
        self,
        settings: CheckpointSettings,
        folder: Path,
        *,
        apart: Collection[Path] = (),
        everywhere: Collection[str] = (),
    ) -> None:
        """Nothing is touched yet.

        ``folder`` is where all of it lies, ``apart`` what else the server keeps: neither is ever part of a workspace.
        Nor is what lies at a path that ends as one of ``everywhere`` does, wherever in a workspace that is.
        """
        self._settings = settings
        self._apart = tuple(apart)
        self._everywhere = tuple(everywhere)
        self._keeper = Keeper(settings, folder)
        camera = Camera(settings, self._keeper.workspaces)
        self._camera = camera
        self._recorder = Recorder(settings, self._keeper)
        self._restorer = Restorer(settings, self._keeper, camera, self._recorder)
        self._taker = Taker(settings, self._keeper, camera, self._recorder, self._restorer)
        self._threads = ThreadPoolExecutor(max(1, settings.threads), thread_name_prefix="checkpoints")
        self._turns = Turns()
        self._rounds: dict[bytes, Round] = {}
        self._tasks: set[asyncio.Future[Any]] = set()
        self._jobs: set[asyncio.Future[Any]] = set()
        self._stops: set[Stop] = set()
        self._busy: Counter[str] = Counter()
        self._gone: set[str] = set()
        self._ready: asyncio.Task[None] | None = None
        self._closing = False

    def folder(self, session: str) -> Path:
        """Where what belongs to this session's checkpoints lies, whether or not there is any."""
        return self._keeper.records.folder(session)

    async def recover(self) -> None:
        """End what a crash has cut off, first of all restores; then begin to throw away what nobody needs.

        Happens before anything else in any case: a server calls it when it starts, so that nobody finds a workspace
        halfway between two states. Raises ``CheckpointProblem`` if nothing can be kept in the folder.
        """
        if self._ready is None or (self._ready.done() and self._ready.exception() is not None):
            self._ready = asyncio.create_task(self._work(self._prepare, essential=True), name="checkpoints: recovery")
            self._tasks.add(self._ready)
            self._ready.add_done_callback(self._prepared)
        await asyncio.shield(self._ready)

    async def take(self, session: str, cwd: Path, checkpoint: str, *, first: str | None) -> Saved:
        """See the port. Those who ask while an image of ``cwd`` is taken all get the next one."""
        new = New(session=checked_name(session), checkpoint=checked_name(checkpoint), first=first)
        with self._at_work(session):
            asked = Asked(new)
            await self._served(asked, self._join(await self._place(cwd), asked))
            return asked.result()

    async def restore(self, session: str, cwd: Path, checkpoint: str, *, safety: str, first: str) -> Saved:
        """See the port."""
        new = New(session=checked_name(session), checkpoint=checked_name(safety), first=first, spare=checkpoint)
        with self._at_work(session):
            place = await self._place(cwd)
            async with self._turns.hold(place):
                return await self._work(functools.partial(self._restore, place, new, checkpoint), final=True)

    async def delete(self, session: str, checkpoint: str) -> None:
        """See the port. What only it needed goes soon after."""
        await self.recover()
        forget = functools.partial(self._recorder.forget, session, checked_name(checkpoint))
        if not await self._work(lambda _: forget()):
            raise CheckpointGone(f"nothing is kept of checkpoint {checkpoint}")
        self._start(self.sweep(), "checkpoints: sweep")

    async def sweep(self) -> bool:
        """Throw away what no checkpoint needs. False: not now, somebody is at work, or what is needed is not sure."""
        await self.recover()
        return not self._closing and await self._work(self._sweep)

    def closed(self, session: str) -> None:
        """See the port. Does not wait."""
        self._start(self._close_session(session), f"checkpoints: {session!r} closed")

    def dropped(self, session: str) -> None:
        """See the port. Does not wait."""
        if self._busy[session]:
            self._gone.add(session)
            return
        self._start(self._drop_session(session), f"checkpoints: {session!r} dropped")

    async def close(self, limit: float | None = None) -> None:
        """End what runs: what is not done yet fails, and leaves nothing.

        What has not ended after ``limit`` seconds, on a disk that hangs, is left behind as by a crash.
        """
        self._closing = True
        for stop in self._stops:
            stop.set()
        try:
            async with asyncio.timeout(limit):
                while waiting := self._tasks | self._jobs:
                    await asyncio.wait(waiting)
        except TimeoutError:
            log.warning("the work on checkpoints does not end: it is left to the next server")
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _sweep(self, stop: Stop) -> bool:
        try:
            return self._keeper.sweep(stop)
        except Stopped:
            return False

    # Taking

    def _join(self, place: Place, asked: Asked) -> Round:
        if self._closing:
            raise CheckpointProblem(_STOPPING)
        round_ = self._rounds.get(place.path)
        if round_ is None:
            round_ = self._rounds[place.path] = Round(place)
            self._start(self._serve(round_), "checkpoints: take")
        round_.asked.append(asked)
        return round_

    async def _serve(self, round_: Round) -> None:
        try:
            async with self._turns.hold(round_.place):
                del self._rounds[round_.place.path]
                round_.begun = True
                if round_.asked:
                    await self._work(functools.partial(self._taker.serve, round_), round_.stop)
        except CheckpointProblem as problem:
            round_.fail(str(problem))
        finally:
            round_.ended.set()

    async def _served(self, asked: Asked, round_: Round) -> None:
        try:
            await round_.ended.wait()
        except asyncio.CancelledError:
            if not round_.begun:
                round_.asked.remove(asked)
                raise
            round_.withdraw(asked)
            await _unmoved(asyncio.create_task(_wait(round_.ended)))
            if isinstance(asked.outcome, Saved):
                await _unmoved(asyncio.create_task(self._forget(asked.new)))
                self._start(self.sweep(), "checkpoints: sweep")
            raise

    async def _forget(self, new: New) -> None:
        with contextlib.suppress(CheckpointProblem):
            await self._work(lambda _: self._recorder.forget(new.session, new.checkpoint), essential=True)

    # Restoring

    def _restore(self, place: Place, new: New, checkpoint: str, stop: Stop) -> Saved:
        with (
            locked(self._camera.lock(place), stop, self._settings.lock_seconds),
            self._keeper.using(stop),
        ):
            self._restorer.recover(place)
            wish = Wish(place, new, self._recorder.image(place, new.session, checked_name(checkpoint)))
            saved = self._restorer.restore(wish, stop)
        try:
            return self._recorder.fit(new, saved, stop)
        except (CheckpointProblem, Stopped, OSError) as problem:  # it is done all the same; the next one makes room
            log.info("nothing is let go for the quota now: %s", problem)
            return saved

    # Sessions that end

    async def _close_session(self, session: str) -> None:
        await self.recover()
        await self._work(lambda _: self._recorder.close(session), essential=True)

    async def _drop_session(self, session: str) -> None:
        await self.recover()
        await self._work(lambda _: self._keeper.records.remove(session), essential=True)
        await self.sweep()

    @contextlib.contextmanager
    def _at_work(self, session: str) -> Iterator[None]:
        self._busy[session] += 1
        try:
            yield
        finally:
            self._busy[session] -= 1
            if not self._busy[session]:
                del self._busy[session]
                if session in self._gone:
                    self._gone.discard(session)
                    self.dropped(session)

    # Threads and tasks

    async def _place(self, cwd: Path) -> Place:
        await self.recover()
        return await self._work(lambda _: self._found(cwd))

    def _found(self, cwd: Path) -> Place:
        self._keeper.prepare()  # somebody may have thrown it all away
        return find_place(cwd, self._settings.private, self._keeper.folder, self._apart, self._everywhere)

    def _prepare(self, stop: Stop) -> None:
        self._keeper.prepare()
        self._restorer.recover()
        with contextlib.suppress(CheckpointProblem):  # another server is at work
            self._keeper.tidy(stop)

    def _prepared(self, ready: asyncio.Task[None]) -> None:
        self._tasks.discard(ready)
        if not ready.cancelled() and ready.exception() is None:
            self._start(self.sweep(), "checkpoints: sweep")

    async def _work(
        self, work: Callable[[Stop], T], stop: Stop | None = None, *, essential: bool = False, final: bool = False
    ) -> T:
        """Do this in a thread. Who is cancelled meanwhile stops it, and goes on once it has ended.

        What is ``essential`` is short, and still done while the server stops. What is ``final`` cannot be taken back
        once it is done: who is cancelled too late for it is not cancelled. Raises ``CheckpointProblem``.
        """
        if self._closing and not essential:
            raise CheckpointProblem(_STOPPING)
        stop = stop or Stop()
        self._stops.add(stop)
        cancels = _cancels()
        try:
            job = asyncio.wrap_future(self._threads.submit(work, stop))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)
            try:
                await _unmoved(job, stop)
            except asyncio.CancelledError:
                if not final or job.cancelled() or job.exception() is not None:
                    raise
                _not_cancelled(cancels)
            if job.cancelled():  # it never began
                raise CheckpointProblem(_STOPPING)
            return job.result()
        except Stopped:
            raise CheckpointProblem("it was ended before it was done") from None
        except OSError as error:
            raise CheckpointProblem(_what(error)) from error
        except RuntimeError as error:  # the threads have ended
            if not self._closing:
                raise
            raise CheckpointProblem(_STOPPING) from error
        finally:
            self._stops.discard(stop)

    def _start(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        if self._closing:
            work.close()
            return
        task = asyncio.create_task(_logged(work, name), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _unmoved(job: asyncio.Future[Any], stop: Stop | None = None) -> None:
    """Wait until it has ended, also when cancelled; the cancellation comes after."""
    cancelled: asyncio.CancelledError | None = None
    while not job.done():
        try:
            await asyncio.wait([job])
        except asyncio.CancelledError as error:
            cancelled = error
            if stop is not None:
                stop.set()
    if cancelled is not None:
        if not job.cancelled():
            job.exception()  # looked at: nobody else will
        raise cancelled


def _cancels() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _not_cancelled(cancels: int) -> None:
    """Let whoever runs this go on as if nobody had cancelled it since there were so many cancels."""
    task = asyncio.current_task()
    while task is not None and task.cancelling() > cancels:
        task.uncancel()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _logged(work: Coroutine[Any, Any, Any], name: str) -> None:
    try:
        await work
    except CheckpointProblem as problem:
        log.warning("%s: %s", name, problem)


def _what(error: OSError) -> str:
    named = f"{shown(os.fsencode(error.filename))}: " if isinstance(error.filename, str | bytes) else ""
    return f"{named}{error.strerror or error}"

"""The control plane of runs (windie spec §9): one log per run, and nothing answered or shown that is not in it.

Commands are decided one after another and become durable together: an answer waits for the disk, the next decision does
not. If the disk fails, all that was decided since is forgotten, and whoever waits for it is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from dragoman.hub.clock import Clock, IdSource, SystemClock, random_id
from dragoman.hub.tasks import TaskOwner

from . import checks, lifecycle
from .errors import InvalidRun, RunNotFound, RunsError, RunsUnavailable, WorkerMismatch
from .messages import (
    Acted,
    AssignedRun,
    Beaten,
    Control,
    ControlCommand,
    Created,
    Dispatch,
    EventPage,
    Heartbeat,
    Relay,
    RunRequest,
    RunView,
    StopAll,
    Stopped,
    WorkerView,
)
from .settings import RunsSettings
from .state import TERMINAL, Beat, Recorded, Run, assignment_of, event_of, fold, view_of
from .store import Entry, Known, RunStore

FILE = "runs.db"

WATCH_EVERY = 1.0
"""Seconds between two looks for workers that are lost, at most: the clock is given and cannot be waited for."""

FORGET_EVERY = 60_000
"""Milliseconds between two looks for runs to forget."""

CLOSE_SECONDS = 5.0
"""What the watch has to end."""

DAY = 24 * 3600 * 1000

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Runs:
    """Belongs to one event loop. Every method but ``close`` raises ``RunsUnavailable`` while the disk fails."""

    def __init__(
        self,
        folder: Path,
        settings: RunsSettings | None = None,
        *,
        clock: Clock | None = None,
        ids: IdSource = random_id,
    ) -> None:
        """``folder`` is made if it is not there; no other server may use it at the same time."""
        self._settings = settings or RunsSettings()
        self._clock = clock or SystemClock()
        self._ids = ids
        self._store = RunStore(folder / FILE)
        self._tasks = TaskOwner("runs")
        self._lock = asyncio.Lock()
        self._runs: dict[str, Run] = {}
        """In the order of creation, which is the order in which they are given to workers."""
        self._numbers: dict[str, int] = {}
        self._open: dict[str, None] = {}
        """Those that a worker or the time can still change, in the same order."""
        self._next = 1
        self._epoch = 0
        self._is_stale = False
        self._is_closed = True
        self._newest: asyncio.Future[None] | None = None
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._opened_at = 0
        self._forget_at = 0

    async def open(self) -> None:
        """Fold what is on the disk and watch over it. Raises ``RunsUnavailable``."""
        try:
            known = await self._store.open()
        except RunsUnavailable:
            await self._store.close()
            raise
        self._take(known)
        self._opened_at = self._clock.now()
        self._is_closed = False
        self._tasks.start(self._watch(), "watch")

    async def close(self) -> None:
        """Finish what was begun, wake whoever polls, and let go of the file."""
        if self._is_closed:
            return
        self._is_closed = True
        for run_id in list(self._waiting):
            self._wake(run_id)
        await self._tasks.close(CLOSE_SECONDS)
        async with self._lock:
            await self._store.close()

    # -- commands --------------------------------------------------------------------------

    async def create(self, request: RunRequest) -> Created:
        """A new run that waits for a worker. Raises ``InvalidRun``, ``ActiveRunLimit``."""
        checks.check_request(request, self._settings)
        kept = replace(request, files=deepcopy(request.files), metadata=deepcopy(request.metadata))
        return await self._do(lambda now: self._create(kept, now))

    async def heartbeat(self, beat: Heartbeat) -> Beaten:
        """What a worker is to do: its commands, each once, and a run to begin, one at most. Raises ``InvalidRun``."""
        checks.check_heartbeat(beat, self._settings)
        kept = replace(beat, metadata=deepcopy(beat.metadata))
        return await self._do(lambda now: self._heartbeat(lifecycle.worker_of(kept, now), now))

    async def control(self, run_id: str, order: Control) -> Acted:
        """Pause, resume, stop, or change who is in control. Raises ``InvalidRun``, ``RunNotFound``, ``RunFinished``."""
        checks.check_control(order, self._settings)

        def decide(now: int) -> Acted:
            return self._acted(run_id, lifecycle.control(self._known(run_id), order, self._ids(), now))

        return await self._do(decide)

    async def stop_all(self, order: StopAll) -> Stopped:
        """Stop every unfinished run of a workspace, or of all. Raises ``InvalidRun``."""
        checks.check_stop_all(order, self._settings)
        return await self._do(lambda now: self._stop_all(order, now))

    async def dispatched(self, run_id: str, sent: Dispatch) -> Acted:
        """The worker that holds a run has begun with it; saying so again changes nothing.

        Raises ``InvalidRun``, ``WorkerMismatch`` and ``RunFinished``: then it must not begin.
        """
        checks.check_dispatch(sent, self._settings)
        acted = await self._do(lambda now: self._dispatched(run_id, sent, now))
        return acted if isinstance(acted, Acted) else await self._unchanged(acted)

    async def relay(self, run_id: str, sent: Relay) -> Acted:
        """An event of a run's turn. Raises ``InvalidRun``, also when the log is full, and ``RunNotFound``."""
        checks.check_relay(sent, self._settings)

        def decide(now: int) -> Acted:
            run = self._known(run_id)
            ends = run.is_active and sent.event_type in TERMINAL  # else the run could never be over
            if run.last_event_seq >= self._settings.events_per_run and not ends:
                raise InvalidRun("run_id", f"the run has {run.last_event_seq} events, and no more are kept")
            return self._acted(run_id, lifecycle.relay(sent, now))

        return await self._do(decide)

    # -- reading ---------------------------------------------------------------------------

    async def run(self, run_id: str) -> RunView:
        """The run as it is. Raises ``RunNotFound``."""
        return await self._do(lambda _: view_of(self._known(run_id)))

    async def events(
        self, run_id: str, after_seq: int = 0, limit: int | None = None, wait_seconds: float = 0
    ) -> EventPage:
        """Events after ``after_seq``, exclusive; where there are none, waits for the next one, up to ``wait_seconds``.

        Raises ``InvalidRun`` for a cursor or limit out of bounds, and ``RunNotFound``.
        """
        limit = self._settings.default_events if limit is None else limit
        if after_seq < 0:
            raise InvalidRun("after_seq", f"it is {after_seq}, and 0 at least")
        if not 1 <= limit <= self._settings.most_events:
            raise InvalidRun("limit", f"it is {limit}, and from 1 to {self._settings.most_events}")
        loop = asyncio.get_running_loop()
        ends = loop.time() + min(max(wait_seconds, 0), self._settings.longest_wait_seconds)
        while True:
            await self._do(lambda _: self._known(run_id))
            # Before the look: what is recorded after it must not be missed.
            waiter = self._waiter(run_id) if loop.time() < ends else None
            try:
                page = await self._page(run_id, after_seq, limit)
                if page.events or waiter is None:
                    return page
                await asyncio.wait((waiter,), timeout=max(ends - loop.time(), 0))
            finally:
                self._no_longer(run_id, waiter)

    async def settle_due(self) -> None:
        """Take runs from workers that were silent too long. Done by itself; for whoever moves the clock by hand."""
        await self._do(lambda _: None)

    async def _page(self, run_id: str, after: int, limit: int) -> EventPage:
        number = self._numbers.get(run_id)
        found = [] if number is None else await self._store.read(number, after, limit)
        events = [event_of(seq, fact) for seq, fact in found]
        return EventPage(run_id=run_id, events=events, next_after_seq=events[-1].seq if events else after)

    async def _unchanged(self, run: Run) -> Acted:
        """The answer to a command that changed nothing."""
        found = await self._store.read(self._numbers[run.run_id], run.last_event_seq - 1, 1)
        return Acted(run=view_of(run), latest_event=event_of(*found[0]))

    def _waiter(self, run_id: str) -> asyncio.Future[None] | None:
        """Done when there is something new; None if too many wait already."""
        if sum(map(len, self._waiting.values())) >= self._settings.most_waiting:
            return None
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run_id, set()).add(waiter)
        return waiter

    def _no_longer(self, run_id: str, waiter: asyncio.Future[None] | None) -> None:
        waiting = self._waiting.get(run_id)
        if waiting is None or waiter is None:
            return
        waiting.discard(waiter)
        if not waiting:
            del self._waiting[run_id]

    def _wake(self, run_id: str) -> None:
        for waiter in self._waiting.get(run_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    # -- deciding: nothing here waits, so nothing comes between --------------------------------

    async def _do(self, decide: Callable[[int], _T]) -> _T:
        """Decide when it is this command's turn, and answer when that and all before it is durable: refusals, too."""
        refusal: RunsError | None = None
        async with self._lock:
            now = await self._begin()
            try:
                answer = decide(now)
            except RunsError as error:
                refusal = error
            newest = self._newest
        if newest is not None:
            await asyncio.shield(newest)
        if refusal is not None:
            raise refusal
        return answer

    async def _begin(self) -> int:
        """What time it is, once the runs are as the disk and the time have them."""
        if self._is_closed:
            raise RunsUnavailable("runs are closed")
        if self._is_stale:
            self._take(await self._store.load())
        now = self._clock.now()
        for run in list(self._open_runs()):
            fact = None if self._is_spared(run, now) else lifecycle.lapse(run, now)
            if fact is not None:
                _log.warning("run %s: %s %s", run.run_id, fact.event_type, fact.payload)
                self._record((run.run_id, fact))
        if now >= self._forget_at:
            self._forget_at = now + FORGET_EVERY
            self._forget([run for run in self._runs.values() if self._is_old(run, now)])
        return now

    def _create(self, request: RunRequest, now: int) -> Created:
        active = sum(run.workspace_id == request.workspace_id and run.is_active for run in self._open_runs())
        run_id = self._ids()
        fact = lifecycle.create(request, run_id, active, self._settings, now)
        self._make_room()
        self._numbers[run_id] = self._next
        self._next += 1
        acted = self._acted(run_id, fact)
        return Created(run=acted.run, events=[acted.latest_event])

    def _heartbeat(self, worker: WorkerView, now: int) -> Beaten:
        commands: list[ControlCommand] = []
        given: AssignedRun | None = None
        own = [run for run in self._open_runs() if lifecycle.is_bound(run, worker)]
        for run in own:
            fact = lifecycle.beat(run, worker, self._settings, now)
            if fact is None:
                continue
            commands += run.pending
            self._record((run.run_id, fact))
            if isinstance(fact.change, Beat) and fact.change.given:
                given = assignment_of(run)
        free = None if any(map(lifecycle.is_held, own)) else self._free_for(worker)
        if free is not None:
            self._record((free.run_id, lifecycle.assign(worker, now)))
            given = assignment_of(free)
        return Beaten(worker=deepcopy(worker), assigned_run=given, control_commands=commands)

    def _free_for(self, worker: WorkerView) -> Run | None:
        return next((run for run in self._open_runs() if lifecycle.may_take(run, worker)), None)

    def _stop_all(self, order: StopAll, now: int) -> Stopped:
        place = order.workspace_id if order.workspace_id and order.workspace_id.strip() else None
        stop = Control(action="stop", requested_by=order.requested_by)
        ids = [run.run_id for run in self._open_runs() if run.is_active and place in (None, run.workspace_id)]
        self._record(*((id_, lifecycle.control(self._runs[id_], stop, self._ids(), now, bulk=True)) for id_ in ids))
        return Stopped(workspace_id=order.workspace_id, stopped_run_ids=ids, count=len(ids))

    def _dispatched(self, run_id: str, sent: Dispatch, now: int) -> Acted | Run:
        run = self._runs.get(run_id)
        if run is None:
            raise WorkerMismatch
        fact = lifecycle.dispatch(run, sent, now)
        return run if fact is None else self._acted(run_id, fact)

    def _acted(self, run_id: str, fact: Recorded) -> Acted:
        self._record((run_id, fact))
        run = self._runs[run_id]
        return Acted(run=view_of(run), latest_event=event_of(run.last_event_seq, fact))

    def _known(self, run_id: str) -> Run:
        run = self._runs.get(run_id)
        if run is None:
            raise RunNotFound
        return run

    def _open_runs(self) -> Iterator[Run]:
        return (self._runs[run_id] for run_id in self._open)

    def _record(self, *facts: tuple[str, Recorded]) -> None:
        """Fold facts of different runs and have them written, all or none."""
        entries = []
        for run_id, fact in facts:
            known = self._runs.get(run_id)
            run = fold(known, 1 if known is None else known.last_event_seq + 1, fact)
            self._hold(run)
            entries.append(Entry(self._numbers[run_id], run, fact))
        if entries:
            self._put(self._store.put(entries), [run_id for run_id, _ in facts])

    def _hold(self, run: Run) -> None:
        self._runs[run.run_id] = run
        if run.is_active or run.pending:
            self._open[run.run_id] = None
        else:
            self._open.pop(run.run_id, None)

    def _put(self, done: asyncio.Future[None], run_ids: list[str]) -> None:
        epoch = self._epoch

        def settled(future: asyncio.Future[None]) -> None:
            if future.cancelled() or future.exception() is None:
                for run_id in run_ids:
                    self._wake(run_id)
            elif epoch == self._epoch:
                self._is_stale = True

        done.add_done_callback(settled)
        self._newest = done

    def _take(self, known: list[Known]) -> None:
        """The disk's runs instead of those that were decided: some of these could not be written."""
        self._epoch += 1
        self._is_stale = False
        self._newest = None
        self._runs, self._numbers, self._open = {}, {}, {}
        for number, run in known:
            self._numbers[run.run_id] = number
            self._hold(run)
            self._next = max(self._next, number + 1)

    # -- the time --------------------------------------------------------------------------

    def _is_spared(self, run: Run, now: int) -> bool:
        """Whether it could not be heard from its worker because this server was not there."""
        grace = self._settings.restart_grace_seconds * 1000
        return run.updated_at < self._opened_at and now < self._opened_at + grace

    def _is_old(self, run: Run, now: int) -> bool:
        return not run.is_active and now - run.updated_at > self._settings.retention_days * DAY

    def _make_room(self) -> None:
        if len(self._runs) < self._settings.runs_kept:
            return
        oldest = next((run for run in self._runs.values() if not run.is_active), None)
        if oldest is None:
            raise RunsUnavailable(f"there are {len(self._runs)} unfinished runs, and no more are kept")
        self._forget([oldest])

    def _forget(self, runs: list[Run]) -> None:
        if not runs:
            return
        gone = [self._numbers.pop(run.run_id) for run in runs]
        for run in runs:
            del self._runs[run.run_id]
            self._open.pop(run.run_id, None)
        self._put(self._store.put((), gone), [run.run_id for run in runs])

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY)
            try:
                await self.settle_due()
            except RunsUnavailable as error:
                _log.warning("runs are not watched over: %s", error)

"""Every session there is: create, find, list, close, drop; restored lazily, put right after a crash (invariant 6)."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from .artifacts import ArtifactProblem, Artifacts
from .checkpoints import Checkpoints
from .clock import Clock, IdSource, SystemClock, random_id
from .errors import (
    Closed,
    DataFolderError,
    Gone,
    HubError,
    InvalidRequest,
    LimitReached,
    NotPermitted,
    StorageUnavailable,
    UnknownSession,
)
from .events import Event, Json, SessionCreated
from .hook_config import check_hook_settings
from .journal import Journal, SessionRow
from .limits import HubLimits
from .log import SessionParts, Tap, Witness
from .permissions import Principal, Right
from .ports import AgentFactory
from .recovery import facts_after_loss
from .session import Session
from .state import SessionState, decode_state
from .tasks import TaskOwner
from .workspace import check_workspace_settings

log = logging.getLogger("dragoman.registry")

RegistryWatcher = Callable[[SessionRow], None]
"""Told of every session whose row changed; a row with ``dropped_at`` says that it is gone."""

TRIM_DELAY = 1.0
"""Seconds after which sessions that nobody uses leave memory."""

_DAY = 86_400_000


class Registry:
    """The hub's front door. Open it once, close it once; everything happens on one event loop."""

    def __init__(
        self,
        journal: Journal,
        factories: Iterable[AgentFactory],
        *,
        limits: HubLimits | None = None,
        clock: Clock | None = None,
        ids: IdSource = random_id,
        checkpoints: Checkpoints | None = None,
        taps: Iterable[Tap] = (),
        artifacts: Artifacts | None = None,
    ) -> None:
        self.journal = journal
        self.limits = limits or HubLimits()
        self.clock = clock or SystemClock()
        self._ids = ids
        self._factories = {factory.kind: factory for factory in factories}
        self._tasks = TaskOwner("hub")
        self._checkpoints = checkpoints
        self._artifacts = artifacts
        self._witnesses: list[Witness] = []
        self._parts = SessionParts(
            journal,
            self.clock,
            ids,
            self.limits,
            self._tasks,
            self._live_count,
            checkpoints,
            tuple(taps),
            artifacts,
            self._witnesses,
        )
        self._rows: dict[str, SessionRow] = {}
        self._loaded: OrderedDict[str, Session] = OrderedDict()
        # Whoever still holds a session that left ``_loaded`` must share it with whoever asks for it next: a log has one
        # writer. So every object there is can be found here.
        self._objects: WeakValueDictionary[str, Session] = WeakValueDictionary()
        self._trimming: asyncio.TimerHandle | None = None
        self._loading: dict[str, asyncio.Task[Session]] = {}
        self._watchers: dict[object, RegistryWatcher] = {}
        self._creating = 0
        self._closing = False

    # Life

    async def open(self) -> None:
        """Take the store over, put right what a lost server left open, and drop what retention lets go.

        Raises ``DataFolderError`` when the store cannot be used.
        """
        for row in sorted(await self.journal.open(self._committed), key=lambda row: row.created_at):
            self._rows[row.session] = row
        unsettled = [row.session for row in self._rows.values() if row.unsettled]
        await asyncio.gather(*(self._recover(session) for session in unsettled))
        await self._sweep()
        if self._artifacts is not None:
            self._tasks.start(self._sweep_artifacts(self._artifacts), "artifacts")
        self._tasks.start(self._retain(), "retention")

    async def stop_sessions(self, budget: float) -> None:
        """End every turn and program within ``budget`` seconds; logs stay open for the next server."""
        self._closing = True
        for session in self._loaded.values():
            session.closing = True
        live = [session for session in self._loaded.values() if session.unended]
        results = await asyncio.gather(*(session.stop(budget) for session in live), return_exceptions=True)
        for session, result in zip(live, results, strict=True):
            if isinstance(result, BaseException):
                log.error("session %s did not stop cleanly", session.id, exc_info=result)

    async def close(self, budget: float = 2.0) -> None:
        """End everything that still runs within ``budget`` seconds and flush the journal."""
        await self.stop_sessions(budget)
        if self._trimming is not None:
            self._trimming.cancel()
        for session in self._loaded.values():
            session.store_snapshot()
        await self._tasks.close(budget)
        await self.journal.close()

    # Sessions

    async def create(
        self,
        principal: Principal,
        *,
        kind: str,
        cwd: str,
        agent: str = "unknown",
        title: str | None = None,
        options: dict[str, Json] | None = None,
        settings: dict[str, Json] | None = None,
    ) -> Session:
        """Make a session; returns once that is durable. It is not started.

        Raises ``InvalidRequest`` (unknown kind, missing folder, what the agent refuses), ``LimitReached``,
        ``StorageUnavailable``.
        """
        if Right.WRITE not in principal.rights or principal.only is not None:
            raise NotPermitted(Right.WRITE)
        check_hook_settings(settings or {})
        check_workspace_settings(settings or {})
        if self._closing:
            raise LimitReached("the server stops")
        if self.journal.problem is not None:
            raise StorageUnavailable(self.journal.problem)
        factory = self._factory(kind)
        folder = Path(cwd) if factory.elsewhere else _checked_folder(cwd)
        given = dict(options or {})
        factory.check_settings(settings or {})
        if settings and factory.widens({}, settings) and Right.APPROVE not in principal.rights:
            raise NotPermitted(Right.APPROVE)
        public = factory.validate(agent, cwd, given)
        if len(self._rows) + self._creating >= self.limits.sessions:
            raise LimitReached(f"{self.limits.sessions} sessions are stored (sessions)")
        fact = SessionCreated(
            kind=kind,
            agent=agent,
            cwd=cwd,
            title=title or folder.name,
            owner=principal.id,
            options=public,
            settings=settings or {},
        )
        self._creating += 1
        try:
            return await self._begin(factory, fact, given)
        finally:
            self._creating -= 1

    async def _begin(self, factory: AgentFactory, fact: SessionCreated, given: dict[str, Json]) -> Session:
        session = Session(SessionState(session=self._ids()), factory, self._parts)
        try:
            factory.adopt(session.id, given)
            event = session.record(fact)
        except (OSError, HubError) as problem:
            factory.dropped(session.id)
            if isinstance(problem, HubError):
                raise
            raise StorageUnavailable(f"what belongs to a session cannot be kept: {problem.strerror}") from problem
        self._keep(session)
        await session.acknowledged(event)
        return session

    def rows(self, principal: Principal) -> list[SessionRow]:
        """The sessions this principal may see, oldest first."""
        return [row for row in self._rows.values() if row.dropped_at is None and principal.may_see(row.session)]

    def row(self, principal: Principal, session: str) -> SessionRow:
        """One session's row. Raises ``UnknownSession`` or, for a dropped one, ``Gone``."""
        principal.check(session, Right.READ)
        row = self._rows.get(session)
        if row is None:
            raise UnknownSession(session)
        if row.dropped_at is not None:
            raise Gone(session, None)
        return row

    async def get(self, principal: Principal, session: str) -> Session:
        """The session itself, loaded when it was not. Raises as ``row``."""
        self.row(principal, session)
        return await self._load(session)

    async def delete(self, principal: Principal, session: str) -> None:
        """Close the session and drop its log; only a tombstone stays. Raises as ``row``, and ``NotPermitted``."""
        principal.check(session, Right.WRITE)
        self.row(principal, session)
        self._check_writable()
        loaded = await self._load(session)
        await loaded.close("deleted", by=principal.id)
        self.row(principal, session)  # somebody else's delete may have been faster
        await self._drop(loaded.row())

    def watch(self, watcher: RegistryWatcher) -> Callable[[], None]:
        """Be told of changed rows until the returned function is called."""
        token = object()
        self._watchers[token] = watcher

        def stop() -> None:
            self._watchers.pop(token, None)

        return stop

    def witness(self, witness: Witness) -> Callable[[], None]:
        """Have every event of every session seen as it becomes durable, until the returned function is called."""
        self._witnesses.append(witness)
        return partial(self._witnesses.remove, witness)

    async def newest(
        self, principal: Principal, limit: int, *, facts: Collection[str] | None = None
    ) -> list[tuple[str, Event]]:
        """The newest events over all sessions this principal may see, oldest first; of these facts (tags) only."""
        everything = principal.only is None and Right.READ in principal.rights
        seen = None if everything else [row.session for row in self.rows(principal)]
        return await self.journal.newest(limit, seen, facts=facts)

    async def alias(self, dialect: str, principal: Principal, name: str) -> str | None:
        """The session that a client's own string stands for (per dialect and principal)."""
        return await self.journal.alias(dialect, principal.id, name)

    async def bind_alias(self, dialect: str, principal: Principal, name: str, session: str) -> None:
        """Make a client's own string stand for a session."""
        await self.journal.bind_alias(dialect, principal.id, name, session)

    @property
    def loaded(self) -> int:
        """How many sessions are in memory."""
        return len(self._loaded)

    def live(self) -> list[Session]:
        """The loaded sessions with something unsettled, oldest first."""
        live = [session for session in self._loaded.values() if session.state.unsettled]
        return sorted(live, key=lambda session: session.state.created_at)

    # Inside

    def _live_count(self) -> int:
        """How many sessions have a live executor or an open turn; all of them are loaded."""
        if len(self._loaded) < self.limits.live_sessions:
            return len(self._loaded)
        return sum(1 for session in self._loaded.values() if session.live)

    def _factory(self, kind: str) -> AgentFactory:
        factory = self._factories.get(kind)
        if factory is None:
            raise InvalidRequest(f"unknown kind {kind!r}; known: {', '.join(sorted(self._factories))}")
        return factory

    async def _load(self, session: str) -> Session:
        known = self._objects.get(session)
        if known is not None:
            self._keep(known)
            return known
        loading = self._loading.get(session)
        if loading is None:
            loading = self._tasks.start(self._fold(session), f"load:{session}")
            self._loading[session] = loading
            # Not when a caller is done waiting: the others would load a second object, and a log has one writer.
            loading.add_done_callback(lambda _: self._loading.pop(session, None))
        try:
            return await asyncio.shield(loading)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if loading.cancelled() and task is not None and not task.cancelling():
                raise Closed(session) from None  # it is the hub that stops, not whoever asked
            raise

    async def _fold(self, session: str) -> Session:
        """Rebuild a session from its newest snapshot and the events after it."""
        state = await self._newest_state(session)
        while batch := await self.journal.read(session, state.seq, self.limits.read_batch):
            for event in batch:
                state.apply(event)
        row = self._rows.get(session)
        if row is None or row.dropped_at is not None:
            raise Gone(session, None)  # dropped while it was read
        loaded = Session(state, self._factory(state.kind), self._parts)
        loaded.closing = self._closing
        self._keep(loaded)
        return loaded

    async def _newest_state(self, session: str) -> SessionState:
        """The state of the newest stored snapshot. One that cannot be used only costs a longer fold."""
        snapshot = await self.journal.snapshot(session)
        if snapshot is not None:
            try:
                return decode_snapshot(session, snapshot.seq, snapshot.data)
            except DataFolderError as problem:
                log.warning("%s; its whole log is read instead", problem)
        return SessionState(session=session)

    def _keep(self, session: Session) -> None:
        """Hold a session in memory, as the most recently used one."""
        self._objects[session.id] = session
        self._loaded[session.id] = session
        self._loaded.move_to_end(session.id)
        self._trim_soon()

    def _trim_soon(self, *, closed: bool = False) -> None:
        if (closed or len(self._loaded) > self.limits.loaded_idle) and self._trimming is None:
            self._trimming = asyncio.get_running_loop().call_later(TRIM_DELAY, self._trim)

    async def _recover(self, name: str) -> None:
        session = await self._load(name)
        lost, factory = session.state.executor, self._factory(session.state.kind)
        if not factory.elsewhere:
            for fact in facts_after_loss(session.state):
                session.record(fact, settling=True)
            await session.durable(session.head)
            log.warning("session %s was left open by a lost server and is put right", session.id)
        recovering = factory.recover(session, lost)
        session.recovering = self._tasks.start(recovering, f"recover:{session.id}")
        session.resume_queue()

    async def _sweep(self) -> None:
        """End programs of which no log says that they run: a server may have been lost while it started or swept."""
        kept = {row.session for row in self._rows.values() if row.dropped_at is None}
        for factory in self._factories.values():
            for name in await factory.sweep(kept):
                session = await self._load(name)
                if session.recovering is None:
                    session.recovering = self._tasks.start(factory.recover(session, None), f"recover:{name}")

    async def _sweep_artifacts(self, artifacts: Artifacts) -> None:
        """Whoever was lost before the artifacts of a dropped session were gone left them behind."""

        def kept(session: str) -> bool:
            row = self._rows.get(session)
            return row is not None and row.dropped_at is None

        try:
            await artifacts.sweep(kept)
        except ArtifactProblem as problem:
            log.warning("artifacts are not swept: %s", problem)

    def _committed(self, heads: Mapping[str, int]) -> None:
        for session, seq in heads.items():
            known = self._objects.get(session)
            if known is None:
                continue  # dropped meanwhile
            if session not in self._loaded:
                self._keep(known)
            known.committed(seq)
            self._changed(known.row())
            if known.shown.closed is not None:
                self._trim_soon(closed=True)
        self._trim_soon()

    def _changed(self, row: SessionRow) -> None:
        before = self._rows.get(row.session)
        self._rows[row.session] = row
        if before is not None and _looks_alike(before, row):
            return
        for watcher in tuple(self._watchers.values()):
            try:
                watcher(row)
            except Exception:
                log.exception("a watcher failed")

    def _trim(self) -> None:
        """Let closed sessions go, and of the other settled ones the longest unused, down to the named limit."""
        self._trimming = None
        idle = [name for name, session in self._loaded.items() if session.idle]
        open_ = [name for name in idle if self._loaded[name].state.closed is None]
        kept = set(open_[max(0, len(open_) - self.limits.loaded_idle) :])
        for name in set(idle) - kept:
            self._loaded.pop(name).store_snapshot()

    async def _drop(self, row: SessionRow) -> None:
        self._check_writable()
        row = msgspec.structs.replace(row, dropped_at=self.clock.now(), unsettled=False)
        self._loaded.pop(row.session, None)
        self._objects.pop(row.session, None)
        # From here on it is gone for everyone; should the disk fail now, the drop stays queued and still happens.
        self._changed(row)
        await self.journal.drop(row)
        factory = self._factories.get(row.kind)
        if factory is not None:
            factory.dropped(row.session)
        if self._checkpoints is not None:
            self._checkpoints.dropped(row.session)
        if self._artifacts is not None:
            self._artifacts.dropped(row.session)

    def _check_writable(self) -> None:
        if self.journal.problem is not None or self.journal.full:
            raise StorageUnavailable(f"nothing was dropped: {self.journal.problem or 'the journal does not keep up'}")

    async def _retain(self) -> None:
        """Every hour: drop closed logs past their time, forget old tombstones."""
        while not self._closing:
            try:
                await self.apply_retention()
            except HubError as problem:
                log.warning("retention waits: %s", problem)
            await asyncio.sleep(3600)

    async def apply_retention(self) -> None:
        """Do now what the retention limits say."""
        now = self.clock.now()
        keep = self.limits.retention_days * _DAY
        stones = self.limits.tombstone_days * _DAY
        for session in list(self._rows):
            row = self._rows.get(session)
            if row is None:
                continue
            if row.dropped_at is not None:
                if now - row.dropped_at > stones:
                    await self.journal.forget(session)
                    self._rows.pop(session, None)
            elif keep and row.status == "closed" and now - row.changed_at > keep:
                await self._drop(row)


def _checked_folder(cwd: str) -> Path:
    """An existing folder with an absolute path. Raises ``InvalidRequest``."""
    folder = Path(cwd)
    try:
        exists = folder.is_absolute() and folder.is_dir()
    except (OSError, ValueError):  # too long, not ours to look at, a NUL inside
        exists = False
    if not exists:
        raise InvalidRequest(f"{cwd[:200]!r} is not an existing folder with an absolute path")
    try:
        cwd.encode()
    except UnicodeEncodeError as problem:
        raise InvalidRequest(
            f"{cwd[:200]!r} is not UTF-8, as a folder's path must be here: choose another"
        ) from problem
    return folder


def decode_snapshot(session: str, seq: int, data: bytes) -> SessionState:
    """A stored snapshot as state. Raises ``DataFolderError`` when it is not what its cursor says."""
    try:
        state = decode_state(data)
    except msgspec.MsgspecError as problem:
        raise DataFolderError(f"the snapshot of session {session!r} is damaged: {problem}") from problem
    if (state.session, state.seq) != (session, seq):
        raise DataFolderError(f"the snapshot of session {session!r} is not the one for cursor {seq}")
    return state


def _looks_alike(before: SessionRow, after: SessionRow) -> bool:
    """Whether only place and time moved: lists need not be told of every delta."""
    moved = msgspec.structs.replace(before, head=after.head, changed_at=after.changed_at, active_at=after.active_at)
    return moved == after

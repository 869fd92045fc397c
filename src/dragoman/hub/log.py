"""A session's log, its two folds, and who waits for it.

``record`` stamps, folds and queues a fact in one step without waiting, so whatever checks the state and then records is
atomic on the event loop. Others see a fact only once it is durable: ``state`` is the fold of all that is recorded (what
commands decide on), ``shown`` the fold of what is durable (what anyone may be told, with its cursor).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from .artifacts import Artifacts
from .checkpoints import Checkpoints
from .clock import Clock, IdSource
from .errors import Closed, Gone, InvalidRequest, StorageUnavailable, UnknownDecision
from .events import (
    STREAMED,
    AnyFact,
    ArtifactStored,
    DecisionResolved,
    Event,
    PromptSubmitted,
    PromptTaken,
    ToolCalled,
    TurnStarted,
    encode_fact,
)
from .events.nesting import MAX_NESTING, may_nest_too_deep, nests_too_deep
from .followers import Follower, Tail, Watchers
from .journal import Journal, SessionRow, Snapshot
from .limits import HubLimits
from .permissions import Principal, Right
from .state import SessionState, decode_state, encode_state
from .tasks import TaskOwner

log = logging.getLogger("dragoman.log")

Tap = Callable[["SessionLog", Sequence[Event]], None]
"""Told of every event of every session as it becomes durable, those of one session that did together in order, on the
loop; must return at once."""


class Witness(Protocol):
    """Told of each event of every session as it becomes durable, but not of ``STREAMED`` ones; must return at once.

    ``before`` while ``shown`` is what was true until then, ``after`` once the event is folded in, and ``committed``
    after all that became durable together.
    """

    def before(self, session: SessionLog, event: Event) -> None: ...
    def after(self, session: SessionLog, event: Event) -> None: ...
    def committed(self) -> None: ...


class SessionParts(msgspec.Struct, frozen=True):
    """What every session of a hub shares."""

    journal: Journal
    clock: Clock
    ids: IdSource
    limits: HubLimits
    tasks: TaskOwner
    live_count: Callable[[], int]
    checkpoints: Checkpoints | None = None
    taps: tuple[Tap, ...] = ()
    artifacts: Artifacts | None = None
    witnesses: list[Witness] = []


class SessionLog:
    """See the module. ``Session`` adds the commands."""

    def __init__(self, state: SessionState, parts: SessionParts) -> None:
        self.id = state.session
        self.state = state
        self.shown = decode_state(encode_state(state))
        self.journal, self.clock, self.ids = parts.journal, parts.clock, parts.ids
        self.limits, self.tasks = parts.limits, parts.tasks
        self.artifacts = parts.artifacts
        """Bytes that came to sessions; None where the server keeps none."""
        self._tail = Tail(parts.limits, state.seq)
        self._pending: deque[tuple[Event, int, SessionRow | None]] = deque()
        """What is not durable yet, each with the bytes of its fact, and the row behind it where one was made."""
        self._row: SessionRow | None = None
        """The newest of those rows whose event is shown; it may be out of date."""
        self._acks: list[tuple[int, asyncio.Future[None]]] = []
        self._keys: dict[str, int] = {}
        self._asking = 0
        self._watchers = Watchers()
        self._taps = parts.taps
        self._witnesses = parts.witnesses
        self._snapshot_at = state.seq
        self.closing = False

    # Reading

    @property
    def head(self) -> int:
        """The newest ``seq`` recorded, durable or not."""
        return self.state.seq

    @property
    def quiet(self) -> bool:
        """Whether all of it is durable and nobody watches."""
        return not (self._pending or len(self._watchers))

    @property
    def busy(self) -> bool:
        """Whether a turn is open, or the agent works or asks although none is (at its own terminal)."""
        return self.state.turn is not None or self.state.status.state in ("working", "prompt")

    def admit(self, principal: Principal, right: Right) -> None:
        """What every command that changes something asks first. Raises what stands in its way."""
        principal.check(self.id, right)
        if self.state.closed is not None or self.closing:
            raise Closed(self.id)
        if self.journal.problem is not None:
            raise StorageUnavailable(self.journal.problem)

    def row(self) -> SessionRow:
        """The index row of what is shown."""
        if self._row is None or self._row.head != self.shown.seq:
            self._row = self.shown.row()
        return self._row

    def follow(self, after: int = 0) -> Follower:
        """A reader that starts after ``after``. Raises ``InvalidRequest`` for a cursor beyond the log."""
        if not 0 <= after <= self.shown.seq:
            raise InvalidRequest(f"cursor {after} is not between 0 and {self.shown.seq}")
        return Follower(self, after)

    def recent(self, cursor: int, limit: int | None = None) -> list[Event] | None:
        """Events after ``cursor`` from memory; None when memory does not reach back that far."""
        if cursor >= self.shown.seq:
            return []
        return self._tail.after(cursor, limit or self.limits.read_batch)

    def recorded_since(self, cursor: int) -> list[Event] | None:
        """All events after ``cursor``, durable or not, from memory; None when memory does not reach back that far."""
        durable = self.recent(cursor, self.limits.tail_events)
        if durable is None:
            return None
        return durable + [event for event, *_ in self._pending if event.seq > cursor]

    async def read(self, cursor: int, limit: int | None = None) -> list[Event]:
        """Events after ``cursor``, from wherever they are."""
        limit = limit or self.limits.read_batch
        events = self.recent(cursor, limit)
        if events is None:
            events = await self.journal.read(self.id, cursor, limit)
            if not events:
                raise Gone(self.id, None)
        return events

    async def fact_of(self, key: str) -> AnyFact | None:
        """The fact with that key, which is durable by then; None if there is none."""
        seq = await self.seq_of(key)
        return None if seq is None else await self.fact_at(seq)

    async def fact_at(self, seq: int) -> AnyFact:
        """The fact at ``seq``, once it is durable."""
        await self.durable(seq, limit=self.limits.ack_seconds)
        return (await self.read(seq - 1, 1))[0].fact

    async def read_back(self, before: int | None, limit: int) -> list[Event]:
        """The newest events before ``before`` (or the newest of all), in ascending order."""
        return await self.journal.read_back(self.id, self.shown.seq + 1 if before is None else before, limit)

    @property
    def watched(self) -> bool:
        """Whether anybody is told of new events."""
        return len(self._watchers) > 0

    @property
    def attended(self) -> bool:
        """Whether anybody would see what it asks now."""
        return self.watched or bool(self._witnesses)

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Be told of new durable events until the returned function is called."""
        return self._watchers.add(callback)

    async def seq_of(self, key: str) -> int | None:
        """Where the fact with that key stands, durable or not; None if there is none."""
        seq = self._keys.get(key)
        if seq is not None:
            return seq
        # A twin may be recorded, and even become durable, while the journal is asked: until then its key is kept.
        self._asking += 1
        try:
            seq = await self.journal.find_key(self.id, key)
            return self._keys.get(key, seq)
        finally:
            self._asking -= 1

    # Recording

    def record(self, fact: AnyFact, *, settling: bool = False) -> Event:
        """Append a fact: stamped, folded, queued for the disk.

        Raises, recording nothing: ``StorageUnavailable`` when the journal's queue is full, ``Closed`` in a closed
        session, ``InvalidRequest`` for what no disk can hold, ``UnknownDecision`` for an outcome of a decision that is
        not open. ``settling`` facts (the few that end a turn, a decision or an executor) are taken by a full journal
        and a closed session too: without them the state would lie.
        """
        if not settling:
            self._check_recordable()
        if type(fact) in STREAMED:
            return self._record_streamed(fact)
        if isinstance(fact, DecisionResolved) and fact.decision not in self.state.decisions:
            raise UnknownDecision(fact.decision)
        encoded = _encoded(fact)
        event = Event(self.head + 1, self.clock.now(), self.journal.epoch, fact)
        key = key_of(fact)
        try:
            self.state.apply(event)
            row = self.state.row()
            self.journal.append(event, row, key=key, encoded=encoded)
        except Exception as problem:
            self._unfold()
            if isinstance(problem, StorageUnavailable):
                raise
            raise _not_storable(fact, problem) from problem
        self._pending.append((event, len(encoded), row))
        if key is not None:
            self._keys[key] = event.seq
        self._recorded(fact)
        return event

    def _record_streamed(self, fact: AnyFact) -> Event:
        """What comes by the thousand: nothing is folded, found or taken back, and no row is made."""
        encoded = _encoded(fact)
        event = Event(self.state.seq + 1, self.clock.now(), self.journal.epoch, fact)
        self.journal.append_streamed(self.id, event, encoded)
        self.state.move(event)
        self._pending.append((event, len(encoded), None))
        return event

    async def durable(self, seq: int, *, limit: float | None = None) -> None:
        """Wait until ``seq`` is on disk; ``limit`` seconds at most, then ``StorageUnavailable``."""
        if seq <= self.shown.seq:
            return
        loop = asyncio.get_running_loop()
        ack: asyncio.Future[None] = loop.create_future()
        self._acks.append((seq, ack))
        # A timer of its own: every command waits here, and asyncio.timeout costs as much as all the rest.
        timer = None if limit is None else loop.call_later(limit, self._too_late, ack, limit)
        try:
            await ack
        finally:
            if timer is not None:
                timer.cancel()

    def _too_late(self, ack: asyncio.Future[None], limit: float) -> None:
        if not ack.done():
            why = self.journal.problem or "the disk is slow"
            ack.set_exception(StorageUnavailable(f"not yet on disk after {limit:g} s: {why}"))

    async def acknowledged(self, event: Event) -> Event:
        """``event`` once it is durable: what every command waits for before it answers."""
        await self.durable(event.seq, limit=self.limits.ack_seconds)
        return event

    def committed(self, seq: int) -> None:
        """Called by the registry when everything up to ``seq`` is durable: now others may see it."""
        fresh = self._show(seq)
        self._wake_acks(seq)
        for event in fresh:
            if type(event.fact) not in STREAMED:
                self._became_durable(event.fact)
        if not self._asking:
            self._keys = {key: at for key, at in self._keys.items() if at > seq}
        self._watchers.tell()
        for tap in self._taps:
            tap(self, fresh)
        for witness in tuple(self._witnesses):
            _tell(witness.committed)
        if self.shown.seq - self._snapshot_at >= self.limits.snapshot_every:
            self.store_snapshot()

    def _show(self, seq: int) -> list[Event]:
        """Fold what is durable now into ``shown``, and keep it for those who read along."""
        pending, shown, tail = self._pending, self.shown, self._tail
        fresh: list[Event] = []
        while pending and pending[0][0].seq <= seq:
            event, size, row = pending.popleft()
            streamed = type(event.fact) in STREAMED
            if self._witnesses and not streamed:
                self._witnessed(event, row)
            elif streamed:
                shown.move(event)
            else:
                shown.apply(event)
                self._row = row
            tail.append(event, size)
            fresh.append(event)
        return fresh

    def _witnessed(self, event: Event, row: SessionRow | None) -> None:
        """Fold it into ``shown`` under the eyes of those who want to see each one."""
        witnesses = tuple(self._witnesses)
        for witness in witnesses:
            _tell(witness.before, self, event)
        self.shown.apply(event)
        self._row = row
        for witness in witnesses:
            _tell(witness.after, self, event)

    def store_snapshot(self) -> None:
        """Keep the shown state on disk, so that the next load is short."""
        if self.shown.seq > self._snapshot_at:
            self._snapshot_at = self.shown.seq
            self.journal.put_snapshot(self.id, Snapshot(self.shown.seq, encode_state(self.shown)))

    # Inside

    def _recorded(self, fact: AnyFact) -> None:
        """A fact was recorded just now; none of ``STREAMED``."""

    def _became_durable(self, fact: AnyFact) -> None:
        """A fact may take effect; none of ``STREAMED``."""

    def _check_recordable(self) -> None:
        if self.journal.full:
            raise StorageUnavailable("the journal does not keep up; nothing was recorded")
        if self.state.closed is not None:
            raise Closed(self.id)

    def _unfold(self) -> None:
        """Take back what a fact that could not be appended has done to the state."""
        self.state = decode_state(encode_state(self.shown))
        for event, *_ in self._pending:
            self.state.apply(event)

    def _wake_acks(self, seq: int) -> None:
        waiting = []
        for wanted, ack in self._acks:
            if wanted > seq:
                waiting.append((wanted, ack))
            elif not ack.done():
                ack.set_result(None)
        self._acks = waiting


def _tell(witness: Callable[..., None], *of: object) -> None:
    """One that fails is in nobody's way: what became durable is shown, whoever looks on."""
    try:
        witness(*of)
    except Exception:
        log.exception("a witness failed")


def _encoded(fact: AnyFact) -> bytes:
    """The fact as it stands on disk. Raises ``InvalidRequest`` for what no disk can hold."""
    try:
        encoded = encode_fact(fact)
    except Exception as problem:
        if isinstance(problem, RecursionError):
            raise _too_deep(fact) from problem
        raise _not_storable(fact, problem) from problem
    if may_nest_too_deep(encoded) and nests_too_deep(fact):
        raise _too_deep(fact)
    return encoded


def _too_deep(fact: AnyFact) -> InvalidRequest:
    return InvalidRequest(f"{type(fact).__name__} cannot be stored: it nests over {MAX_NESTING} levels deep")


def _not_storable(fact: AnyFact, problem: Exception) -> InvalidRequest:
    if isinstance(problem, UnicodeEncodeError):
        return InvalidRequest(f"{type(fact).__name__} cannot be stored: {problem.object[:200]!r} is not UTF-8")
    return InvalidRequest(f"{type(fact).__name__} cannot be stored: {problem}")


def prompt_key(via: str, by: str, client_message_id: str) -> str:
    """The key of the prompt that this principal submitted through that dialect with that id."""
    return f"prompt:{via}:{by}:{client_message_id}"


def key_of(fact: AnyFact) -> str | None:
    """What makes a fact findable: a prompt by its message id, a turn by its prompt, an outcome by its decision, a
    client's call by its id, an artifact by its own."""
    if isinstance(fact, PromptSubmitted) and fact.client_message_id is not None:
        return prompt_key(fact.via, fact.by, fact.client_message_id)
    if isinstance(fact, DecisionResolved):
        return f"decision:{fact.decision}"
    if isinstance(fact, TurnStarted | PromptTaken):
        return f"turn:{fact.prompt}"
    if isinstance(fact, ToolCalled) and fact.client is not None:
        return f"call:{fact.call}"
    if isinstance(fact, ArtifactStored):
        return f"artifact:{fact.artifact}"
    return None

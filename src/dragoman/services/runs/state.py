"""A run as the fold of its log: no clock, no disk, the same facts give the same run (design invariant 2)."""

from __future__ import annotations

from copy import deepcopy

from msgspec import Struct
from msgspec.structs import replace

from dragoman.hub.clock import iso_time

from .messages import (
    ACTIVE,
    Action,
    AssignedRun,
    ControlCommand,
    ControlMode,
    Json,
    RunEvent,
    RunRequest,
    RunView,
    Status,
    WorkerView,
)

TERMINAL: dict[str, Status] = {"streaming-complete": "completed", "error": "failed"}
"""Relayed events that settle a run."""


class Asked(Struct, frozen=True, tag="asked"):
    """The run begins to be. The windows are milliseconds, of this run for ever: settings change, its log does not."""

    run_id: str
    request: RunRequest
    conversation_ref: str
    lease_ms: int
    lost_ms: int


class Assigned(Struct, frozen=True, tag="assigned"):
    """A worker is to begin with it."""

    worker: WorkerView


class Beat(Struct, frozen=True, tag="beat"):
    """Its worker was heard, and took the commands ``taken`` away; ``given``: and the run itself, again."""

    worker: WorkerView
    taken: tuple[str, ...] = ()
    given: bool = False


class Dispatched(Struct, frozen=True, tag="dispatched"):
    """Its worker has begun."""

    turn_ref: str
    conversation_ref: str | None


class Relayed(Struct, frozen=True, tag="relayed"):
    """An event of the turn: what it means is in its type and payload."""


class Controlled(Struct, frozen=True, tag="controlled"):
    """Somebody intervened."""

    action: Action
    status: Status
    control_mode: ControlMode
    command_id: str
    requested_by: str | None


class LeaseEnded(Struct, frozen=True, tag="lease_ended"):
    """Its worker did not begin in time: another one may."""


class WorkerLost(Struct, frozen=True, tag="worker_lost"):
    """Its worker had begun and was not heard again."""

    retry: bool


Change = Asked | Assigned | Beat | Dispatched | Relayed | Controlled | LeaseEnded | WorkerLost


class Recorded(Struct, frozen=True):
    """``run.recorded``: an event of the timeline and what it changes. ``at`` is milliseconds since 1970."""

    at: int
    event_type: str
    source: str
    payload: Json
    change: Change


class Run(Struct, frozen=True, kw_only=True):
    """Everything known of a run. Times are milliseconds since 1970."""

    run_id: str
    request: RunRequest
    conversation_ref: str
    lease_ms: int
    lost_ms: int
    created_at: int
    updated_at: int
    last_event_seq: int
    query_message_id: str | None = None
    status: Status = "awaiting_worker"
    control_mode: ControlMode = "agent_only"
    worker: WorkerView | None = None
    last_heartbeat_at: int | None = None
    pending: tuple[ControlCommand, ...] = ()
    """What its worker has yet to be told."""

    begun: bool = False
    """Whether a worker has begun with it: it is never given again, unless it may be retried."""

    returned: int = 0
    """How often it was taken from a worker."""

    given_at: int | None = None
    """When its worker was last given it."""

    deadline: int | None = None
    """When its worker counts as lost, if nothing is heard before."""

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    @property
    def workspace_id(self) -> str:
        return self.request.workspace_id


def fold(run: Run | None, seq: int, fact: Recorded) -> Run:
    """The run after one more fact. A finished run stays as it is, but for its last number and what it has yet to tell.

    Raises ``ValueError`` for a log that is not one: a gap, or no beginning.
    """
    change = fact.change
    if seq != (1 if run is None else run.last_event_seq + 1) or (run is None) != isinstance(change, Asked):
        raise ValueError(f"event {seq} ({fact.event_type}) does not follow in the log of its run")
    if run is None:
        assert isinstance(change, Asked)
        return _asked(change, fact.at)
    if run.is_active:
        run = replace(_changed(run, fact), updated_at=fact.at)
    elif isinstance(change, Beat):
        run = replace(run, pending=_left(run, change))
    return replace(run, last_event_seq=seq)


def _asked(change: Asked, at: int) -> Run:
    return Run(
        run_id=change.run_id,
        request=change.request,
        conversation_ref=change.conversation_ref,
        lease_ms=change.lease_ms,
        lost_ms=change.lost_ms,
        created_at=at,
        updated_at=at,
        last_event_seq=1,
    )


def _changed(run: Run, fact: Recorded) -> Run:
    match fact.change:
        case Assigned(worker):
            after = _assigned(run, worker, fact.at)
        case Beat() as beat:
            after = _beaten(run, beat, fact.at)
        case Dispatched() as dispatched:
            after = _dispatched(run, dispatched, fact.at)
        case Relayed():
            after = _relayed(run, fact)
        case Controlled() as controlled:
            after = _controlled(run, controlled, fact.at)
        case LeaseEnded() | WorkerLost(retry=True):
            after = _given_back(run)
        case WorkerLost():
            after = _finished(run, "failed")
        case Asked():
            raise ValueError("a run begins only once")
    return after


def _assigned(run: Run, worker: WorkerView, at: int) -> Run:
    return replace(run, status="queued", worker=worker, last_heartbeat_at=at, given_at=at, deadline=at + run.lease_ms)


def _beaten(run: Run, beat: Beat, at: int) -> Run:
    return replace(
        run,
        worker=beat.worker,
        last_heartbeat_at=at,
        pending=_left(run, beat),
        given_at=at if beat.given else run.given_at,
        # A worker that only asks and never begins does not keep its run for ever.
        deadline=at + run.lost_ms if run.begun else run.deadline,
    )


def _left(run: Run, beat: Beat) -> tuple[ControlCommand, ...]:
    return tuple(command for command in run.pending if command.command_id not in beat.taken)


def _dispatched(run: Run, change: Dispatched, at: int) -> Run:
    return replace(
        run,
        # What somebody paused meanwhile is not set going by its worker: that has yet to be told.
        status="paused" if run.status == "paused" else "running",
        begun=True,
        query_message_id=change.turn_ref,
        conversation_ref=change.conversation_ref or run.conversation_ref,
        deadline=at + run.lost_ms,
    )


def _relayed(run: Run, fact: Recorded) -> Run:
    if not _is_of_turn(run, fact.payload):
        return run
    settled = TERMINAL.get(fact.event_type)
    if settled is not None:
        return _finished(run, settled)
    status: Status = "paused" if run.status == "paused" else "running"
    return replace(run, status=status, begun=True, deadline=fact.at + run.lost_ms)


def _is_of_turn(run: Run, payload: Json) -> bool:
    """Whether an event is of the turn that counts, and not of a worker that was lost, or of a turn beside it."""
    if run.returned and not run.begun:
        return False
    named = payload.get("turn_ref")
    return not isinstance(named, str) or run.query_message_id in (None, named)


def _controlled(run: Run, change: Controlled, at: int) -> Run:
    told = ControlCommand(
        run_id=run.run_id,
        command_id=change.command_id,
        action=change.action,
        requested_by=change.requested_by,
        control_mode=change.control_mode,
        created_at=iso_time(at),
    )
    # A worker that comes later finds the run as it then is: it need not be told how it came to be so.
    pending = (*run.pending, told) if run.worker is not None else run.pending
    if change.status not in ACTIVE:
        return replace(_finished(run, change.status), control_mode=change.control_mode, pending=pending)
    return replace(run, status=change.status, control_mode=change.control_mode, pending=pending)


def _finished(run: Run, status: Status) -> Run:
    return replace(run, status=status, pending=(), deadline=None)


def _given_back(run: Run) -> Run:
    """For whichever worker asks next, at its old place in the queue."""
    return replace(
        run,
        status="paused" if run.status == "paused" else "awaiting_worker",
        worker=None,
        pending=(),
        begun=False,
        query_message_id=None,
        returned=run.returned + 1,
        given_at=None,
        deadline=None,
    )


# -- as clients see it ---------------------------------------------------------------------


def view_of(run: Run) -> RunView:
    """The run as clients see it: a copy."""
    request = run.request
    return RunView(
        run_id=run.run_id,
        workspace_id=request.workspace_id,
        agent_id=request.agent_id,
        conversation_ref=run.conversation_ref,
        query_message_id=run.query_message_id,
        query=request.query,
        requested_by=request.requested_by,
        files=deepcopy(request.files),
        metadata=deepcopy(request.metadata),
        status=run.status,
        control_mode=run.control_mode,
        worker=deepcopy(run.worker),
        created_at=iso_time(run.created_at),
        updated_at=iso_time(run.updated_at),
        last_heartbeat_at=None if run.last_heartbeat_at is None else iso_time(run.last_heartbeat_at),
        last_event_seq=run.last_event_seq,
    )


def assignment_of(run: Run) -> AssignedRun:
    """The run as its worker is given it: a copy."""
    request = run.request
    return AssignedRun(
        run_id=run.run_id,
        workspace_id=request.workspace_id,
        agent_id=request.agent_id,
        conversation_ref=run.conversation_ref,
        query=request.query,
        requested_by=request.requested_by,
        files=deepcopy(request.files),
        metadata=deepcopy(request.metadata),
        control_mode=run.control_mode,
    )


def event_of(seq: int, fact: Recorded) -> RunEvent:
    """A fact as clients see it."""
    return RunEvent(
        seq=seq,
        timestamp=iso_time(fact.at),
        event_type=fact.event_type,
        source=fact.source,
        payload=deepcopy(fact.payload),
    )

"""What goes over the wire about runs, in its fields and their order (windie spec §9, seed "runs")."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Json = dict[str, Any]
"""A JSON object as it was sent."""

Status = Literal["awaiting_worker", "queued", "running", "paused", "stopped", "completed", "failed"]
ControlMode = Literal["agent_only", "shared_control", "human_override"]
Action = Literal["pause", "resume", "stop", "set-control-mode"]

ACTIVE: tuple[Status, ...] = ("awaiting_worker", "queued", "running", "paused")
"""What counts against a workspace's cap; the other statuses are final."""


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for a run."""

    workspace_id: str
    query: str
    agent_id: str | None = None
    requested_by: str | None = None
    files: list[Json] = []
    metadata: Json = {}


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A worker is there and asks what to do."""

    workspace_id: str
    worker_id: str
    vm_id: str
    user_id: str
    session_id: str | None = None
    status: str = "ready"
    metadata: Json = {}


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody intervenes. ``set-control-mode`` needs ``control_mode``; the other actions take no notice of it."""

    action: Action
    requested_by: str | None = None
    control_mode: ControlMode | None = None


class StopAll(msgspec.Struct, frozen=True, kw_only=True):
    """Stops the unfinished runs of a workspace; without one, or with a blank one, of all."""

    workspace_id: str | None = None
    requested_by: str | None = None


class Dispatch(msgspec.Struct, frozen=True, kw_only=True):
    """A worker has begun with the run that it was given, as this turn."""

    worker_id: str
    turn_ref: str
    user_id: str | None = None
    conversation_ref: str | None = None


class Relay(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the turn, from the worker."""

    event_type: str
    source: str = "worker-stream"
    payload: Json = {}


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as it last said of itself."""

    worker_id: str
    workspace_id: str
    vm_id: str
    user_id: str
    session_id: str | None
    status: str
    metadata: Json
    last_heartbeat_at: str


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run as clients see it; what its worker has yet to be told is not in it."""

    run_id: str
    workspace_id: str
    agent_id: str | None
    conversation_ref: str
    query_message_id: str | None
    query: str
    requested_by: str | None
    files: list[Json]
    metadata: Json
    status: Status
    control_mode: ControlMode
    worker: WorkerView | None
    created_at: str
    updated_at: str
    last_heartbeat_at: str | None
    last_event_seq: int


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a run's timeline: ``seq`` is dense from 1 in each run."""

    seq: int
    timestamp: str
    event_type: str
    source: str
    payload: Json


class AssignedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run that a worker is to begin."""

    run_id: str
    workspace_id: str
    agent_id: str | None
    conversation_ref: str
    query: str
    requested_by: str | None
    files: list[Json]
    metadata: Json
    control_mode: ControlMode


class ControlCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is to do with a run of its own; it is told once."""

    run_id: str
    command_id: str
    action: Action
    requested_by: str | None
    control_mode: ControlMode
    created_at: str


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """Answers ``RunRequest``."""

    run: RunView
    events: list[RunEvent]


class Acted(msgspec.Struct, frozen=True, kw_only=True):
    """Answers ``Control``, ``Dispatch`` and ``Relay``."""

    run: RunView
    latest_event: RunEvent


class Beaten(msgspec.Struct, frozen=True, kw_only=True):
    """Answers ``Heartbeat``."""

    worker: WorkerView
    assigned_run: AssignedRun | None
    control_commands: list[ControlCommand]


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """Answers ``StopAll``; the ids in the order of creation."""

    workspace_id: str | None
    stopped_run_ids: list[str]
    count: int


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a timeline; ``next_after_seq`` is where the next one begins, exclusive."""

    run_id: str
    events: list[RunEvent]
    next_after_seq: int

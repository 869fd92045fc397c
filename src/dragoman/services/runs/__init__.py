"""Runs: work that is queued here and done by workers elsewhere (docs/runs.md)."""

from .errors import ActiveRunLimit, InvalidRun, RunFinished, RunNotFound, RunsError, RunsUnavailable, WorkerMismatch
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
    RunEvent,
    RunRequest,
    RunView,
    StopAll,
    Stopped,
    WorkerView,
)
from .service import Runs
from .settings import RunsSettings, with_environment

__all__ = [
    "Acted",
    "ActiveRunLimit",
    "AssignedRun",
    "Beaten",
    "Control",
    "ControlCommand",
    "Created",
    "Dispatch",
    "EventPage",
    "Heartbeat",
    "InvalidRun",
    "Relay",
    "RunEvent",
    "RunFinished",
    "RunNotFound",
    "RunRequest",
    "RunView",
    "Runs",
    "RunsError",
    "RunsSettings",
    "RunsUnavailable",
    "StopAll",
    "Stopped",
    "WorkerMismatch",
    "WorkerView",
    "with_environment",
]

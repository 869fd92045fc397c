"""What the control plane of runs refuses, as types. ``str()`` is what a client is told (windie spec §9)."""

from __future__ import annotations


class RunsError(Exception):
    """Base of everything that is refused."""


class RunNotFound(RunsError):
    """There is no such run, or none any more."""

    def __init__(self) -> None:
        super().__init__("Run not found")


class WorkerMismatch(RunsError):
    """There is no such run, or it is another worker's; the two answer alike."""

    def __init__(self) -> None:
        super().__init__("Run not found or worker mismatch")


class ActiveRunLimit(RunsError):
    """The workspace has as many unfinished runs as it may."""

    def __init__(self, workspace_id: str, limit: int) -> None:
        super().__init__(f"Active run limit reached for workspace '{workspace_id}' ({limit}).")
        self.workspace_id = workspace_id
        self.limit = limit


class InvalidRun(RunsError):
    """What was sent cannot be used. ``field`` is which part, by its wire name; ``why`` is for people."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why


class RunFinished(RunsError):
    """The run is ``status`` and stays so: nothing was recorded."""

    def __init__(self, status: str) -> None:
        super().__init__(f"Run is {status}")
        self.status = status


class RunsUnavailable(RunsError):
    """Runs cannot be kept or read now: the disk fails, the store is full or closed. Nothing was recorded."""

"""The reference worker of runs: takes what is queued on a Windie server, and has an agent do it (docs/runs.md)."""

from .execution import Identity, Outcome
from .memory import Memory, WorkerIsThere
from .runs import RunsClient
from .worker import Worker, WorkerOptions, identity

__all__ = ["Identity", "Memory", "Outcome", "RunsClient", "Worker", "WorkerIsThere", "WorkerOptions", "identity"]

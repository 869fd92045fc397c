"""What may become of a run: a command, the run and the time give facts or a typed refusal. Nothing here has effects.

docs/runs.md has the whole table.
"""

from __future__ import annotations

from dragoman.hub.clock import iso_time

from .errors import ActiveRunLimit, RunFinished, WorkerMismatch
from .messages import Control, Dispatch, Heartbeat, Relay, RunRequest, Status, WorkerView
from .settings import RunsSettings
from .state import Asked, Assigned, Beat, Controlled, Dispatched, LeaseEnded, Recorded, Relayed, Run, WorkerLost

WILLING = ("ready", "running")
"""Statuses in which a worker takes a run."""


def create(request: RunRequest, run_id: str, active: int, settings: RunsSettings, now: int) -> Recorded:
    """The first fact of a run, in a workspace that has ``active`` unfinished ones. Raises ``ActiveRunLimit``."""
    most = settings.max_active_per_workspace
    if active >= most:
        raise ActiveRunLimit(request.workspace_id, most)
    named = request.metadata.get("conversation_ref")
    ref = named if isinstance(named, str) and named.strip() else f"run-{run_id}"
    payload = {
        "run_id": run_id,
        "workspace_id": request.workspace_id,
        "agent_id": request.agent_id,
        "conversation_ref": ref,
        "status": "awaiting_worker",
        "control_mode": "agent_only",
    }
    change = Asked(
        run_id, request, ref, _milliseconds(settings.lease_seconds), _milliseconds(settings.worker_lost_seconds)
    )
    return Recorded(now, "run-created", "api", payload, change)


def worker_of(beat: Heartbeat, now: int) -> WorkerView:
    """The worker that was just heard."""
    return WorkerView(
        worker_id=beat.worker_id,
        workspace_id=beat.workspace_id,
        vm_id=beat.vm_id,
        user_id=beat.user_id,
        session_id=beat.session_id,
        status=beat.status,
        metadata=beat.metadata,
        last_heartbeat_at=iso_time(now),
    )


def is_bound(run: Run, worker: WorkerView) -> bool:
    """Whether the run is this worker's: a name counts in its workspace only."""
    bound = run.worker
    return bound is not None and (bound.worker_id, bound.workspace_id) == (worker.worker_id, worker.workspace_id)


def may_take(run: Run, worker: WorkerView) -> bool:
    """Whether a worker can be given a run that is nobody's."""
    return (
        run.status in ("awaiting_worker", "queued")
        and run.worker is None
        and run.workspace_id == worker.workspace_id
        and worker.status in WILLING
    )


def is_held(run: Run) -> bool:
    """Whether a worker has yet to begin with it: it takes no other one meanwhile."""
    return run.is_active and run.worker is not None and not run.begun


def assign(worker: WorkerView, now: int) -> Recorded:
    """The worker is given a run."""
    payload = {"worker_id": worker.worker_id, "vm_id": worker.vm_id, "user_id": worker.user_id, "status": "queued"}
    return Recorded(now, "run-worker-assigned", "backend", payload, Assigned(worker))


def beat(run: Run, worker: WorkerView, settings: RunsSettings, now: int) -> Recorded | None:
    """What a heartbeat of its worker means for a run; None for a finished one that has nothing to tell."""
    if not run.is_active and not run.pending:
        return None
    taken = tuple(command.command_id for command in run.pending)
    payload = {"worker_id": worker.worker_id, "status": worker.status, "session_id": worker.session_id}
    change = Beat(worker, taken, _is_given_again(run, worker, settings, now))
    return Recorded(now, "worker-heartbeat", "worker", payload, change)


def _is_given_again(run: Run, worker: WorkerView, settings: RunsSettings, now: int) -> bool:
    return (
        run.status == "queued"
        and not run.begun
        and worker.status in WILLING
        and run.given_at is not None
        and now - run.given_at >= _milliseconds(settings.again_seconds)
    )


def control(run: Run, order: Control, command_id: str, now: int, *, bulk: bool = False) -> Recorded:
    """Somebody intervenes. Raises ``RunFinished``."""
    _check_active(run)
    status = _status_after(run, order)
    mode = order.control_mode if order.action == "set-control-mode" else None
    change = Controlled(order.action, status, mode or run.control_mode, command_id, order.requested_by)
    payload = {
        "action": order.action,
        "requested_by": order.requested_by,
        "control_mode": change.control_mode,
        "status": status,
        "command_id": command_id,
        "bulk": bulk,
    }
    return Recorded(now, "run-control", "api", payload, change)


def _status_after(run: Run, order: Control) -> Status:
    if order.action == "pause":
        return "paused"
    if order.action == "stop":
        return "stopped"
    if order.action == "resume" and run.status == "paused":
        return _resumed(run)
    return run.status


def _resumed(run: Run) -> Status:
    """A run that was paused before anybody began is not running: it is given to a worker, or to its own again."""
    if run.begun:
        return "running"
    return "awaiting_worker" if run.worker is None else "queued"


def dispatch(run: Run, sent: Dispatch, now: int) -> Recorded | None:
    """Its worker has begun. None if that is known: the same turn again, by a worker that missed the answer.

    Raises ``WorkerMismatch`` for anybody but the worker that holds it, and for a second turn; ``RunFinished``.
    """
    worker = run.worker
    if worker is None or worker.worker_id != sent.worker_id or sent.user_id not in (None, worker.user_id):
        raise WorkerMismatch
    if run.query_message_id == sent.turn_ref:
        return None
    _check_active(run)
    if run.query_message_id is not None:
        raise WorkerMismatch
    ref = sent.conversation_ref if sent.conversation_ref and sent.conversation_ref.strip() else None
    payload = {
        "worker_id": sent.worker_id,
        "user_id": sent.user_id,
        "turn_ref": sent.turn_ref,
        "conversation_ref": ref or run.conversation_ref,
        "status": "paused" if run.status == "paused" else "running",
    }
    return Recorded(now, "run-dispatched", "worker", payload, Dispatched(sent.turn_ref, ref))


def relay(sent: Relay, now: int) -> Recorded:
    """An event of the turn, as sent."""
    return Recorded(now, sent.event_type, sent.source, sent.payload, Relayed())


def lapse(run: Run, now: int) -> Recorded | None:
    """What becomes of a run whose worker was silent for too long; None while there is time."""
    if run.deadline is None or now < run.deadline:
        return None
    worker_id = None if run.worker is None else run.worker.worker_id
    if not run.begun:
        return Recorded(now, "run-lease-ended", "backend", {"worker_id": worker_id}, LeaseEnded())
    retry = run.request.metadata.get("retry") is True
    payload = {"worker_id": worker_id, "turn_ref": run.query_message_id, "retry": retry}
    return Recorded(now, "run-worker-lost", "backend", payload, WorkerLost(retry))


def _check_active(run: Run) -> None:
    if not run.is_active:
        raise RunFinished(run.status)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)

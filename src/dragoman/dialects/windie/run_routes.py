"""The routes of runs: who wants work done, and the workers that do it (seed: runs; spec §9, docs/runs.md).

All want the runs key, beside what every route under ``/api/`` wants; stopping all wants the control key as well, where
there is one. Unknown fields of a body are taken no notice of: workers in use are not ours. A poll may wait for the next
event (``wait_seconds``), which the contract does not have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from hmac import compare_digest
from typing import Annotated, Any, TypeVar

import msgspec
from starlette.requests import Request

from dragoman.dialects.base import EVERYDAY
from dragoman.services.runs import (
    Acted,
    ActiveRunLimit,
    Beaten,
    Control,
    Created,
    Dispatch,
    EventPage,
    Heartbeat,
    InvalidRun,
    Relay,
    RunFinished,
    RunNotFound,
    RunRequest,
    RunsError,
    RunsUnavailable,
    RunView,
    StopAll,
    Stopped,
    WorkerMismatch,
)
from dragoman.services.runs.messages import Action, ControlMode

from .fields import Open, Shape, Text, Whole
from .host import Host
from .route import Call, Problem, Route

KEY = "x-windie-runs-key"
CONTROL_KEY = "x-windie-runs-control-key"

LARGEST = 2**53 - 1
"""Of a sequence number: more is no whole number to every client."""

MOST_EVENTS = 1000
LONGEST_WAIT = 3600
"""What may be asked for; how long a poll waits at most, the settings of runs say."""

Filled = Annotated[str, Text(least=1)]
Files = tuple[dict[str, Any], ...]

_STATUS: dict[type[RunsError], int] = {
    RunNotFound: 404,
    WorkerMismatch: 404,
    ActiveRunLimit: 409,
    RunFinished: 409,
    RunsUnavailable: 503,
}


class RunBody(Open, frozen=True, kw_only=True):
    """Asks for a run."""

    workspace_id: Filled
    query: Filled
    agent_id: str | None = None
    requested_by: str | None = None
    files: Files = ()
    metadata: dict[str, Any] = {}


class HeartbeatBody(Open, frozen=True, kw_only=True):
    """A worker is there, and asks what to do."""

    workspace_id: Filled
    worker_id: Filled
    vm_id: Filled
    user_id: Filled
    session_id: str | None = None
    status: Filled = "ready"
    metadata: dict[str, Any] = {}


class ControlBody(Open, frozen=True, kw_only=True):
    """Somebody intervenes; ``set-control-mode`` needs ``control_mode``."""

    action: Action
    requested_by: str | None = None
    control_mode: ControlMode | None = None


class StopAllBody(Open, frozen=True, kw_only=True):
    """Whose runs are stopped; without a workspace, or with a blank one, all."""

    workspace_id: str | None = None
    requested_by: str | None = None


class DispatchBody(Open, frozen=True, kw_only=True):
    """A worker has begun with the run that it was given."""

    worker_id: Filled
    turn_ref: Filled
    user_id: str | None = None
    conversation_ref: str | None = None


class RelayBody(Open, frozen=True, kw_only=True):
    """An event of the turn."""

    event_type: Filled
    source: Filled = "worker-stream"
    payload: dict[str, Any] = {}


class EventsQuery(Shape, frozen=True, kw_only=True):
    """Which events: those after ``after_seq``, exclusive. ``wait_seconds``: how long to wait where there is none."""

    after_seq: Annotated[int, Whole(0, LARGEST)] = 0
    limit: Annotated[int, Whole(1, MOST_EVENTS)] | None = None
    wait_seconds: Annotated[int, Whole(0, LONGEST_WAIT)] = 0


def with_key(host: Host, request: Request) -> None:
    """Raises ``Problem`` for whoever does not have the runs key: 503 where there is none, else 401."""
    key = host.settings.runs_key
    if key is None:
        raise Problem(503, "Runs API key is not configured")
    if not _shows(request, KEY, key):
        raise Problem(401, "Invalid runs API key")


def with_control_key(host: Host, request: Request) -> None:
    """Raises ``Problem`` (401) for whoever does not have the control key, where there is one."""
    key = host.settings.runs_control_key
    if key is not None and not _shows(request, CONTROL_KEY, key):
        raise Problem(401, "Invalid runs control API key")


def _shows(request: Request, name: str, key: str) -> bool:
    """In constant time. A header that comes twice is not the key: one of the two would be somebody else's."""
    shown = [value for header, value in request.headers.raw if header == name.encode()]
    return len(shown) == 1 and compare_digest(shown[0], key.encode())


A = TypeVar("A", bound=msgspec.Struct)


def _told(handler: Callable[[Call], Awaitable[A]]) -> Callable[[Call], Awaitable[A]]:
    """The same handler; what runs refuse is told as this dialect tells it."""

    @wraps(handler)
    async def handle(call: Call) -> A:
        try:
            return await handler(call)
        except InvalidRun as wrong:
            raise Problem(422, [_fault(call, wrong)]) from wrong
        except RunsError as refused:
            raise Problem(_STATUS[type(refused)], str(refused)) from refused

    return handle


def _fault(call: Call, wrong: InvalidRun) -> dict[str, Any]:
    place = "path" if wrong.field in call.path else "query" if call.query is not None else "body"
    return {"loc": [place, wrong.field], "msg": wrong.why, "type": "value_error"}


def _given(body: Shape) -> dict[str, Any]:
    """Its fields, without those that nobody knows."""
    return {name: getattr(body, name) for name in body.__struct_fields__ if name != "extra"}


@_told
async def create(call: Call) -> Created:
    """A new run, which waits for a worker."""
    given = _given(call.body)
    return await call.host.runs.create(RunRequest(**{**given, "files": list(given["files"])}))


@_told
async def heartbeat(call: Call) -> Beaten:
    """What a worker is to do. Such come all the time."""
    call.request.scope[EVERYDAY] = True
    return await call.host.runs.heartbeat(Heartbeat(**_given(call.body)))


@_told
async def stop_all(call: Call) -> Stopped:
    """Stop every unfinished run, of a workspace or of all."""
    return await call.host.runs.stop_all(StopAll(**_given(call.body)))


@_told
async def state(call: Call) -> RunView:
    """The run as it is."""
    return await call.host.runs.run(call.path["run_id"])


@_told
async def events(call: Call) -> EventPage:
    """A part of its timeline."""
    query: EventsQuery = call.query
    return await call.host.runs.events(call.path["run_id"], query.after_seq, query.limit, query.wait_seconds)


@_told
async def relay(call: Call) -> Acted:
    """An event from the worker, one of many."""
    call.request.scope[EVERYDAY] = True
    return await call.host.runs.relay(call.path["run_id"], Relay(**_given(call.body)))


@_told
async def control(call: Call) -> Acted:
    """Pause, resume, stop, or change who is in control."""
    return await call.host.runs.control(call.path["run_id"], Control(**_given(call.body)))


@_told
async def worker_dispatched(call: Call) -> Acted:
    """The worker has begun."""
    return await call.host.runs.dispatched(call.path["run_id"], Dispatch(**_given(call.body)))


_EVERY = {401: "Invalid runs API key", 422: "What was sent cannot be used", 503: "No runs key, or runs cannot be kept"}
_KNOWN = {**_EVERY, 404: "Run not found"}
_ACTIVE = {**_KNOWN, 409: "The run is finished"}


def _route(
    method: str,
    path: str,
    summary: str,
    handler: Any,
    answer: Any,
    refusals: Mapping[int, str],
    *,
    body: type[Shape] | None = None,
    query: type[Shape] | None = None,
    guards: tuple[Callable[[Host, Request], None], ...] = (with_key,),
) -> Route:
    return Route(
        method=method,
        path=f"/api/runs{path}",
        summary=summary,
        handler=handler,
        answer=answer,
        refusals=refusals,
        body=body,
        query=query,
        guards=guards,
    )


ROUTES: tuple[Route, ...] = (
    _route(
        "POST",
        "/",
        "Ask for a run",
        create,
        Created,
        {**_EVERY, 409: "The workspace has as many unfinished runs as it may"},
        body=RunBody,
    ),
    _route("POST", "/workers/heartbeat", "A worker asks what to do", heartbeat, Beaten, _EVERY, body=HeartbeatBody),
    _route(
        "POST",
        "/stop-all",
        "Stop all unfinished runs",
        stop_all,
        Stopped,
        _EVERY,
        body=StopAllBody,
        guards=(with_key, with_control_key),
    ),
    _route("GET", "/{run_id}", "A run as it is", state, RunView, _KNOWN),
    _route("GET", "/{run_id}/events", "Events of a run", events, EventPage, _KNOWN, query=EventsQuery),
    _route("POST", "/{run_id}/events", "Add a worker's event", relay, Acted, _KNOWN, body=RelayBody),
    _route("POST", "/{run_id}/control", "Intervene in a run", control, Acted, _ACTIVE, body=ControlBody),
    _route(
        "POST",
        "/{run_id}/worker-dispatched",
        "A worker has begun with its run",
        worker_dispatched,
        Acted,
        _ACTIVE,
        body=DispatchBody,
    ),
)
"""Literal paths stand before ``{run_id}``."""

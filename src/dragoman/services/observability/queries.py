"""A question to a metrics, log or trace store, and the requests that ask it (coworker, ``observability_query``). Pure.

What each store is asked, in this order, until one answers with success:

=========  =========================================================  ==========================================
language   requests                                                   parameters beside ``query``
=========  =========================================================  ==========================================
promql     GET ``/api/v1/query_range``, GET ``/api/v1/query``         start, end, step; time (seconds)
logql      GET, POST ``/select/logsql/query``                         start, end (milliseconds), limit
traceql    GET, POST ``/select/traceql/query``, then as logql         start, end (milliseconds), limit
=========  =========================================================  ==========================================
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from dragoman.hub.events import Json
from dragoman.hub.workspace_config import QueryEndpoints

QueryType = Literal["logql", "promql", "traceql"]

DEFAULT_LIMIT, MOST_LIMIT = 200, 10_000
"""Records that are asked for when a query says nothing, and at most."""

POINTS = 60
"""Steps in which a range of metrics is asked for."""

_LATEST = 8_640_000_000_000_000
"""Milliseconds since 1970 that a date can be at most, for whoever reads the answer in a browser."""


class QueryRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is asked. Times are milliseconds since 1970."""

    query_type: QueryType
    query: str
    from_ms: int | float | None = None
    to_ms: int | float | None = None
    limit: int | float | None = None


class QueryResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What came of it. ``data`` is JSON where the store gave that, else its text; ``error`` only where there is one."""

    query_type: QueryType
    query: str
    from_ms: int
    to_ms: int
    status: Literal["ok", "error"]
    data: Json
    error: str | msgspec.UnsetType = msgspec.UNSET


class Window(msgspec.Struct, frozen=True):
    """The time that is asked about, in milliseconds since 1970."""

    from_ms: int
    to_ms: int


class Attempt(msgspec.Struct, frozen=True):
    """One request. ``params`` are its query, or with POST its form."""

    method: Literal["GET", "POST"]
    base: str
    path: str
    params: dict[str, str]


class AttemptFailed(Exception):
    """Why a request gave nothing: words for the client, without the URL that was asked."""


def window_of(request: QueryRequest, *, now: int, seconds: int) -> Window:
    """The time of a request; what it leaves open ends ``now`` and is ``seconds`` long."""
    to_ms = now if request.to_ms is None else floored(request.to_ms)
    return Window(to_ms - seconds * 1000 if request.from_ms is None else floored(request.from_ms), to_ms)


def attempts(request: QueryRequest, window: Window, endpoints: QueryEndpoints) -> list[Attempt]:
    """The requests to try, one after the other. See the module."""
    query = request.query.strip()
    if request.query_type == "promql":
        return _metrics(query, window, endpoints.metrics)
    limit = DEFAULT_LIMIT if request.limit is None else max(1, min(floored(request.limit), MOST_LIMIT))
    params = {"query": query, "start": str(window.from_ms), "end": str(window.to_ms), "limit": str(limit)}
    if request.query_type == "logql":
        return _both(endpoints.logs, "select/logsql/query", params)
    base = endpoints.traces
    return [*_both(base, "select/traceql/query", params), *_both(base, "select/logsql/query", params)]


def _metrics(query: str, window: Window, base: str) -> list[Attempt]:
    start, end = _seconds(window.from_ms), _seconds(window.to_ms)
    step = str(max(1, (window.to_ms - window.from_ms) // 1000 // POINTS))
    over_time = {"query": query, "start": start, "end": end, "step": step}
    return [
        Attempt("GET", base, "api/v1/query_range", over_time),
        Attempt("GET", base, "api/v1/query", {"query": query, "time": end}),
    ]


def _both(base: str, path: str, params: dict[str, str]) -> list[Attempt]:
    return [Attempt("GET", base, path, params), Attempt("POST", base, path, params)]


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3f}".rstrip("0").rstrip(".")


def floored(value: float) -> int:
    """``value`` without its fraction, and within what a date can be."""
    return math.floor(max(-_LATEST, min(value, _LATEST)))

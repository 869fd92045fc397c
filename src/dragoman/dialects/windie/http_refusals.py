"""What a request is answered that cannot be done: one table from exceptions to statuses, one form for all (spec §1)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from dragoman.dialects.bodies import ClientGone
from dragoman.hub import errors as hub

from .route import UNCACHED, Problem

log = logging.getLogger("dragoman.windie")

_STATUS: tuple[tuple[tuple[type[hub.HubError], ...], int], ...] = (
    ((hub.NotPermitted,), 403),
    ((hub.UnknownSession, hub.Gone, hub.UnknownDecision, hub.UnknownCall, hub.UnknownCheckpoint), 404),
    ((hub.AlreadyResolved, hub.AnsweredAlready, hub.AlreadyRunning, hub.AlreadyEnded, hub.ConflictingRepeat), 409),
    ((hub.Busy, hub.Closed, hub.NotReady, hub.NotRunning, hub.UnknownTurn), 409),
    ((hub.LimitReached, hub.StorageUnavailable, hub.InputRefused, hub.Unsupported), 503),
)
"""What the hub refuses; 400 else."""


def refusal(status: int, detail: object, headers: Mapping[str, str] | None = None) -> Response:
    """The form of every error: ``{"detail": detail}``."""
    more = {"www-authenticate": "Bearer"} if status == 401 else {}
    return Response(
        msgspec.json.encode({"detail": detail}), status, {**UNCACHED, **more, **(headers or {})}, "application/json"
    )


def refused(problem: Exception) -> Response:
    """The answer to a request that ended so; of what nobody foresaw, only the log says more."""
    if isinstance(problem, Problem):
        if problem.code is not None:
            log.info("refused with %d: %s", problem.status, problem.code)
        return refusal(problem.status, problem.detail, problem.headers)
    if isinstance(problem, HTTPException):  # the server's guard speaks so of a body that is too large
        return refusal(problem.status_code, problem.detail)
    if isinstance(problem, hub.HubError):
        return refusal(next((status for kinds, status in _STATUS if isinstance(problem, kinds)), 400), str(problem))
    if isinstance(problem, ClientGone):
        return refusal(499, "the client is gone")  # for the log, and for nobody else
    log.error("a request failed", exc_info=problem)
    return refusal(500, "Internal Server Error")

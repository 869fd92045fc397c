"""What the hub refuses, and how a turn failed, as the seed's error codes and sources (seed: Error Reference)."""

from __future__ import annotations

from typing import NamedTuple

from dragoman.hub import errors as hub
from dragoman.hub.events import Problem

from . import messages as wire
from .javascript import clipped


class Kind(NamedTuple):
    """The two words that an ``error`` carries beside its message."""

    code: wire.ErrorCode
    source: wire.ErrorSource


INTERNAL = Kind("internal_error", "session")
INVALID = Kind("validation_failed", "session")
PROVIDER = Kind("provider_error", "provider")
BACKUP = Kind("backup_error", "backup")
DENIED = Kind("permission_denied", "permissions")
BUSY = Kind("busy", "session")

BUSY_TEXT = "Agent is busy"
FAILED_TEXT = "the request failed unexpectedly; the server's log says why"

_REFUSALS: tuple[tuple[type[hub.HubError], Kind], ...] = (
    (hub.Busy, BUSY),
    (hub.NotReady, BUSY),
    (hub.InputRefused, BUSY),
    (hub.NotPermitted, DENIED),
    (hub.UnknownSession, Kind("unknown_session", "protocol")),
    (hub.Gone, Kind("unknown_session", "protocol")),
    (hub.InvalidRequest, INVALID),
    (hub.InvalidAnswer, INVALID),
    (hub.ConflictingRepeat, INVALID),
    (hub.LimitReached, INVALID),
    (hub.Unsupported, INVALID),
    (hub.Closed, INVALID),
    (hub.NotRunning, INVALID),
    (hub.CheckpointFailed, BACKUP),
    (hub.UnknownCheckpoint, BACKUP),
)


def refusal(session: str, problem: hub.HubError) -> wire.Error:
    """The hub's own word, under the seed's code. ``Busy`` has the seed's text."""
    kind = next((kind for refused, kind in _REFUSALS if isinstance(problem, refused)), INTERNAL)
    return error(session, BUSY_TEXT if isinstance(problem, hub.Busy) else str(problem), kind)


def failure(session: str, problem: Problem | None) -> wire.Error:
    """Why a turn failed: by the problem's code, not by the words of its message (spec 13 no. 11)."""
    if problem is None:
        return error(session, "the turn failed", INTERNAL)
    return error(session, problem.message, _kind_of(problem))


def error(session: str, message: str, kind: Kind) -> wire.Error:
    """An ``error`` message. What a client has sent may stand in its text, so that is no longer than its errors are."""
    return wire.Error(session_id=session, message=clipped(message), code=kind.code, source=kind.source)


def _kind_of(problem: Problem) -> Kind:
    if problem.source == "provider" or problem.code.startswith("provider_"):
        return PROVIDER
    if problem.source == "permissions" or problem.code == "blocked":
        return DENIED
    return Kind("internal_error", "tool") if problem.source == "tool" else INTERNAL

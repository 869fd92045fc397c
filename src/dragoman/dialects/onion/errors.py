"""What the hub refuses, as ERROR (spec §4, §6): this protocol has texts, and a code only where newer hosts have one."""

from __future__ import annotations

from msgspec import UNSET

from dragoman.hub import errors as hub

from . import messages as wire

NOT_CONNECTED = "authenticate first (send CONNECT)"
PROMPT_REQUIRED = "prompt required"
FAILED = "the request failed unexpectedly; the server's log says why"
GONE = "the session is gone"

STALE = "STALE_ANSWER"
"""The code of an ERROR about an answer to what is not asked any more."""


def refusal(problem: hub.HubError) -> wire.Error:
    """The hub's own words; a missing right in those of the protocol."""
    if isinstance(problem, hub.NotPermitted):
        return wire.Error(message=f"forbidden: {problem}")
    if isinstance(problem, hub.StorageUnavailable | hub.LimitReached | hub.Busy | hub.NotReady):
        return wire.Error(message=str(problem), retryable=True)
    return wire.Error(message=str(problem))


def stale(request_id: str | None) -> wire.Error:
    """An answer came too late, or answers nothing that this client was asked."""
    return wire.Error(
        message="nothing is asked that this would answer: it was answered already, or never asked here",
        code=STALE,
        reason="stale",
        request_id=UNSET if request_id is None else request_id,
    )

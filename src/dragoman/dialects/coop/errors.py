"""Coop's error codes, and which of them each refusal of the hub becomes (one table for WebSocket and HTTP)."""

from __future__ import annotations

from dragoman.hub.errors import HubError

from .messages import Error

HTTP_STATUS = {
    "UNAUTHORIZED": 401,
    "BAD_REQUEST": 400,
    "NO_DRIVER": 404,
    "NOT_READY": 503,
    "AGENT_BUSY": 409,
    "NO_PROMPT": 409,
    "EXITED": 410,
    "INTERNAL": 500,
}

_CODES = {
    "not_permitted": "UNAUTHORIZED",
    "busy": "AGENT_BUSY",
    "input_refused": "AGENT_BUSY",
    "closed": "EXITED",
    "not_running": "EXITED",
    "gone": "EXITED",
    "unsupported": "NO_DRIVER",
    "unknown_decision": "NO_PROMPT",
    "already_resolved": "NO_PROMPT",
    "not_ready": "NOT_READY",
    "storage_unavailable": "NOT_READY",
    "limit_reached": "NOT_READY",
    "internal": "INTERNAL",
}
"""Hub code -> coop code; everything else is BAD_REQUEST."""

INVALID = Error(code="BAD_REQUEST", message="invalid message")
NOT_AUTHENTICATED = Error(code="UNAUTHORIZED", message="not authenticated")
WRONG_TOKEN = Error(code="UNAUTHORIZED", message="authentication failed")
FAILED = Error(code="INTERNAL", message="the server failed here; its log says why")
NO_MODEL = Error(code="NOT_READY", message="this session runs without a screen model")
BAD_BASE64 = Error(code="BAD_REQUEST", message="invalid base64 data")


def as_error(problem: HubError) -> Error:
    """The wire form of a hub refusal."""
    return Error(code=_CODES.get(problem.code, "BAD_REQUEST"), message=str(problem))

"""How both APIs of OpenAI refuse."""

from __future__ import annotations

from .heard import Json
from .script import Failure, Fault

_FAULTS: dict[Fault, tuple[int, str, str | None]] = {
    "unauthorized": (401, "invalid_request_error", "invalid_api_key"),
    "forbidden": (403, "invalid_request_error", "unsupported_country_region_territory"),
    "rate_limited": (429, "requests", "rate_limit_exceeded"),
    "overloaded": (503, "service_unavailable_error", "server_is_overloaded"),
    "server": (500, "server_error", None),
    "too_long": (400, "invalid_request_error", "context_length_exceeded"),
    "invalid": (400, "invalid_request_error", None),
}


def refuse(failure: Failure) -> tuple[int, Json]:
    """Status and body."""
    status, kind, code = _FAULTS[failure.fault]
    return status, {"error": {"message": failure.message, "type": kind, "param": None, "code": code}}

"""Why Codex' turn failed: its own words, and the kind of failure that they mean."""

from __future__ import annotations

from typing import Any

from dragoman.agents.common.fields import count_of, dict_of, text_of
from dragoman.agents.native.providers.port import Cause, ProviderFailed

Fields = dict[str, Any]

_CAUSES: dict[str, Cause] = {
    "unauthorized": "unauthorized",
    "usageLimitExceeded": "rate_limited",
    "rateLimitExceeded": "rate_limited",
    "sessionBudgetExceeded": "rate_limited",
    "serverOverloaded": "overloaded",
    "contextWindowExceeded": "too_long",
    "badRequest": "invalid_request",
    "modelNotFound": "invalid_request",
    "httpConnectionFailed": "network",
    "responseStreamConnectionFailed": "network",
    "responseStreamDisconnected": "network",
}
_STATUSES: dict[int, Cause] = {401: "unauthorized", 403: "unauthorized", 429: "rate_limited"}


def failure_of(error: Fields) -> ProviderFailed:
    """The failure that a turn's error is."""
    message = text_of(error, "message") or "Codex broke its turn off, and does not say why"
    info = error.get("codexErrorInfo")
    name = info if isinstance(info, str) else next(iter(info), "") if isinstance(info, dict) else ""
    status = count_of(dict_of(info, name), "httpStatusCode") if isinstance(info, dict) else None
    cause = _STATUSES.get(status or 0) or _CAUSES.get(name, "failed")
    more = text_of(error, "additionalDetails")
    return ProviderFailed(f"{message} ({more})" if more else message, cause=cause, status=status, detail=name or None)

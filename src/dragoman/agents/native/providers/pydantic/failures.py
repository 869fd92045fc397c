"""What went wrong, out of the library's exceptions: in one place, and with no key in it."""

from __future__ import annotations

from typing import Any

import httpx2
from pydantic_ai import exceptions as library
from pydantic_core import to_jsonable_python

from dragoman.agents.native.providers.error_answers import LONGEST_MESSAGE, kept
from dragoman.agents.native.providers.port import Cause, ProviderFailed
from dragoman.agents.native.providers.secret import Secret

from .cleaning import Cleaner

_CAUSES: tuple[tuple[type[Exception], Cause, bool], ...] = (
    (library.ModelAuthenticationError, "unauthorized", False),
    (library.ModelContextWindowExceededError, "too_long", False),
    (library.ModelQuotaExceededError, "rate_limited", False),
    (library.ModelRateLimitError, "rate_limited", True),
    (library.ModelUnavailableError, "overloaded", True),
    (library.ModelServerError, "failed", True),
    (library.ModelConnectionError, "network", True),
    (library.ModelRequestRejectedError, "invalid_request", False),
    (library.UserError, "invalid_request", False),
    (httpx2.TransportError, "network", True),
    (TimeoutError, "network", True),
    (OSError, "network", True),
)
"""The first that fits: what it is, and whether it may pass."""

_UNKNOWN: tuple[Cause, bool] = ("failed", False)
_PASSING = {408, 409, 429, *range(500, 600)}
_TOO_LONG = ("prompt is too long", "input token count", "maximum context length", "context window", "too many tokens")


def failure(error: Exception, provider: str, key: str | None) -> ProviderFailed:
    """The failure that an exception of a model call is."""
    if isinstance(error, ProviderFailed):
        return _hidden(error, key)
    cause, retryable = _cause(error)
    body = getattr(error, "body", None)
    status = getattr(error, "status_code", None)
    failed = ProviderFailed(
        _own_message(body) or _described(error, provider, status),
        cause=cause,
        retryable=retryable,
        status=status if isinstance(status, int) else None,
        retry_after=getattr(error, "retry_after", None),
        detail=_own_error(body),
    )
    return _hidden(failed, key)


def _cause(error: Exception) -> tuple[Cause, bool]:
    cause, retryable = next((it[1:] for it in _CAUSES if isinstance(error, it[0])), _UNKNOWN)
    if cause == "failed" and isinstance(error, library.ModelHTTPError):
        retryable = error.status_code in _PASSING
    if isinstance(error, library.ModelHTTPError):
        if error.provider_retry_hint is not None:
            retryable = error.provider_retry_hint
        text = str(_own_message(error.body) or "").lower()
        if cause in {"invalid_request", "failed"} and any(words in text for words in _TOO_LONG):
            return "too_long", False
    return cause, retryable


def _own_error(body: object) -> Any:
    """The provider's own error object, out of whatever is around it."""
    try:
        plain = to_jsonable_python(body, fallback=str)
    except (ValueError, RecursionError):  # it nests too deep
        return None
    while isinstance(plain, list) and len(plain) == 1:
        plain = plain[0]
    if isinstance(plain, dict) and isinstance(plain.get("error"), dict):
        return plain["error"]
    return plain


def _own_message(body: object) -> str | None:
    error = _own_error(body)
    message = error.get("message") if isinstance(error, dict) else error
    return message.strip() or None if isinstance(message, str) else None


def _described(error: Exception, provider: str, status: object) -> str:
    if isinstance(error, library.ModelTimeoutError | TimeoutError):
        return f"{provider} did not answer in time."
    if isinstance(error, library.ModelConnectionError | httpx2.TransportError):
        return f"the connection to {provider} failed"
    if status is not None:
        return f"{provider} answered with HTTP status {status}."
    said = str(getattr(error, "message", None) or error) or type(error).__name__
    return f"{provider}: {said}"


def _hidden(failed: ProviderFailed, key: str | None) -> ProviderFailed:
    """The same, as it may be recorded: without the key, in whichever form the provider or its package repeats it."""
    secret = Secret(None if key == "none" else key)
    cleaner = Cleaner(secret)
    return ProviderFailed(
        str(secret.hide(cleaner.text(str(failed))))[:LONGEST_MESSAGE],
        cause=failed.cause,
        retryable=failed.retryable,
        status=failed.status,
        retry_after=failed.retry_after,
        detail=kept(cleaner.json(failed.detail), secret),
    )

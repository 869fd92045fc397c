"""What a provider's error means: its status, and an error object in whichever form its server writes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import msgspec

from dragoman.hub.errors import NOT_JSON
from dragoman.hub.events import Json

from .port import Cause, ProviderFailed
from .secret import Secret

LONGEST_MESSAGE = 2000
"""Characters of a provider's message that are shown."""

LONGEST_DETAIL = 16 * 1024
"""Bytes of a provider's error object, as JSON, that is kept; a longer one is left out."""

DEEPEST = 64
"""Levels of a provider's JSON: half of what a fact may have, for it is put into several."""

_TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
_TOO_LONG_TEXTS = (
    "context length",  # OpenAI, vLLM, OpenRouter, LM Studio: "maximum context length is …"
    "context window",
    "context size",  # llama.cpp
    "context the overflows",  # LM Studio
    "context_length_exceeded",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "reduce the length of the messages",  # Groq
    "maximum prompt length",  # xAI
    "request too large for",  # more in one request than the rate limit allows in a minute: waiting changes nothing
    "input token count",
    "too many tokens",
)
_UNAUTHORIZED_TEXTS = ("incorrect api key", "invalid api key", "api key not valid")
"""xAI and Google say so with status 400."""

_CODES: dict[str, Cause] = {
    "invalid_api_key": "unauthorized",
    "authentication_error": "unauthorized",
    "permission_error": "unauthorized",
    "rate_limit_exceeded": "rate_limited",
    "rate_limit_error": "rate_limited",
    "insufficient_quota": "rate_limited",
    "overloaded": "overloaded",
    "overloaded_error": "overloaded",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "engine_overloaded_error": "overloaded",
    "service_unavailable": "overloaded",
    "server_error": "failed",
    "internal_error": "failed",
    "internal_server_error": "failed",
    "InternalServerError": "failed",
    "invalid_request_error": "invalid_request",
    "BadRequestError": "invalid_request",
    "invalid_prompt": "invalid_request",
    "model_not_found": "invalid_request",
    "not_found_error": "invalid_request",
}
_STATUSES: dict[int, Cause] = {
    401: "unauthorized",
    402: "failed",
    403: "unauthorized",
    408: "network",
    409: "failed",
    413: "too_long",
    425: "failed",
    429: "rate_limited",
    503: "overloaded",
    529: "overloaded",
}
_MAY_PASS = frozenset({408, 409, 425, 429})
_PASSING_CODES = frozenset(
    {name for name, cause in _CODES.items() if cause in {"rate_limited", "overloaded", "failed"}}
)
_NEVER_PASSES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


def answer_failed(status: int, body: bytes, headers: Mapping[str, str], secret: Secret) -> ProviderFailed:
    """An HTTP answer that is no success."""
    failed = _failure(_decoded(body), status, secret)
    failed.retry_after = retry_after(headers)
    if headers.get("x-should-retry") in {"true", "false"}:
        failed.retryable = headers["x-should-retry"] == "true"
    return failed


def event_failed(error: Json, secret: Secret) -> ProviderFailed:
    """An error object inside a stream, whose HTTP status said that all was well."""
    error = _error_of(error)
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and code.isdigit():
        code = int(code)
    return _failure(error, code if isinstance(code, int) and 400 <= code < 600 else None, secret)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the provider asks to wait, at least 0: milliseconds of its own, seconds, or an HTTP date."""
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after")
    seconds = _seconds(asked)
    return seconds if seconds is not None else _until(asked)


def _seconds(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return max(number, 0.0) if math.isfinite(number) else None


def _until(text: str | None) -> float | None:
    try:
        at = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max((at - datetime.now(UTC)).total_seconds(), 0.0)


def _decoded(body: bytes) -> Json:
    try:
        return msgspec.json.decode(body)
    except NOT_JSON:
        return body.decode("utf-8", "replace")


def nests_deeper(value: Json, levels: int) -> bool:
    """Whether JSON has more levels of lists and objects than that."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        insides = (outer.values() if isinstance(outer, dict) else outer for outer in level)
        level = [inner for inside in insides for inner in inside if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _failure(given: Json, status: int | None, secret: Secret) -> ProviderFailed:
    error = _error_of(given)
    said = _said(error)
    names = _names(error)
    cause = _cause(names, said, status)
    return ProviderFailed(
        secret.hide(said)[:LONGEST_MESSAGE] or _unsaid(status),
        cause=cause,
        retryable=_passes(cause, names, status),
        status=status,
        detail=kept(error, secret),
    )


def kept(error: Json, secret: Secret) -> Json:
    """The error object as it may be recorded, if it may."""
    if not isinstance(error, dict) or nests_deeper(error, DEEPEST):
        return None
    return secret.hide(error) if len(msgspec.json.encode(error)) <= LONGEST_DETAIL else None


def _error_of(given: Json) -> Json:
    """The innermost error object: OpenAI nests it, older vLLM does not, FastAPI says ``detail``, Google a list."""
    if isinstance(given, list) and given:
        given = given[0]
    if not isinstance(given, dict):
        return given
    for name in ("error", "detail"):
        inner = given.get(name)
        if inner and isinstance(inner, dict | str):
            return inner if isinstance(inner, dict) else {**given, "message": inner}
    return given


def _said(error: Json) -> str:
    if isinstance(error, str):
        return "" if error.lstrip().startswith("<") else error.strip()
    if not isinstance(error, dict):
        return ""
    code = error.get("code")
    message = error.get("message") or error.get("detail") or (code if isinstance(code, str) else "")
    message = message if isinstance(message, str) else msgspec.json.encode(message).decode()
    behind = _metadata(error).get("raw")
    if isinstance(behind, str) and behind not in message:  # OpenRouter: what the provider behind it said
        return f"{message}: {behind}"
    return message


def _metadata(error: dict[str, Any]) -> dict[str, Any]:
    metadata = error.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _unsaid(status: int | None) -> str:
    if status is None:
        return "the provider reported an error and did not say which"
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _names(error: Json) -> list[str]:
    if not isinstance(error, dict):
        return []
    return [name for name in (error.get("code"), error.get("type")) if isinstance(name, str)]


def _cause(names: list[str], said: str, status: int | None) -> Cause:
    if status not in {401, 403} and _is_too_long(names, said.lower()):
        return "too_long"
    if status in _STATUSES:
        return _STATUSES[status]
    if any(text in said.lower() for text in _UNAUTHORIZED_TEXTS):
        return "unauthorized"
    known = [_CODES[name] for name in names if name in _CODES]
    if known:
        return known[0]
    return "invalid_request" if status is not None and status < 500 else "failed"


def _is_too_long(names: list[str], said: str) -> bool:
    return any(name in _TOO_LONG_CODES for name in names) or any(text in said for text in _TOO_LONG_TEXTS)


def _passes(cause: Cause, names: list[str], status: int | None) -> bool:
    if cause == "too_long" or any(name in _NEVER_PASSES for name in names):
        return False
    if status is not None:
        return status in _MAY_PASS or status >= 500
    return any(name in _PASSING_CODES for name in names)

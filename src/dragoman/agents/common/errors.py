"""What kind of trouble an agent's error message means."""

from __future__ import annotations

from dragoman.hub.events import ErrorCategory

_SIGNS: tuple[tuple[ErrorCategory, tuple[str, ...]], ...] = (
    (
        "unauthorized",
        (
            "authentication_error",
            "authentication_failed",
            "invalid api key",
            "invalid_api_key",
            "permission_error",
            "unauthorized",
            "please run /login",
        ),
    ),
    (
        "out_of_credits",
        ("billing", "credit", "payment_required", "payment required", "insufficient_quota", "usage_limit_reached"),
    ),
    ("rate_limited", ("rate limit", "rate_limit", "too many requests", "429", "resource_exhausted")),
    (
        "no_internet",
        (
            "connection refused",
            "connection reset",
            "dns",
            "timeout",
            "timed out",
            "network",
            "econnrefused",
            "econnreset",
            "enotfound",
            "no internet",
            "connection error",
            "http_connection_failed",
        ),
    ),
    (
        "server_error",
        (
            "api_error",
            "overloaded",
            "experiencing high demand",
            "internal_error",
            "internal server error",
            "server_error",
            "500",
            "502",
            "503",
            "529",
        ),
    ),
)
"""Coop's signs, and those of the same kinds that today's agents print. The order is the contract: first match wins."""


def categorise(text: str) -> ErrorCategory:
    """The category of an error message, by what it contains, in whatever case."""
    lowered = text.lower()
    for category, signs in _SIGNS:
        if any(sign in lowered for sign in signs):
            return category
    return "other"

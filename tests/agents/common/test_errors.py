"""The category of an error message."""

from __future__ import annotations

import pytest

from dragoman.agents.common.errors import categorise


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("authentication_error: invalid x-api-key", "unauthorized"),
        ("Invalid API key · Please run /login", "unauthorized"),
        ("permission_error", "unauthorized"),
        ("Your credit balance is too low", "out_of_credits"),
        ("billing_error", "out_of_credits"),
        ("payment_required", "out_of_credits"),
        ("Rate limit exceeded", "rate_limited"),
        ("rate_limit_error", "rate_limited"),
        ("HTTP 429", "rate_limited"),
        ("Too Many Requests", "rate_limited"),
        ("connect ECONNREFUSED 127.0.0.1:1", "no_internet"),
        ("Request timed out", "no_internet"),
        ("getaddrinfo ENOTFOUND api.example", "no_internet"),
        ("API Error: 529 Overloaded", "server_error"),
        ("api_error", "server_error"),
        ("internal_server_error: We're currently experiencing high demand", "server_error"),
        ("We\u2019re currently experiencing high demand, which may cause temporary errors.", "server_error"),
        ("529 overloaded_error", "server_error"),
        ("502 Bad Gateway", "server_error"),
        ("API Error: 400 scripted failure", "other"),
        ("unknown", "other"),
        ("", "other"),
        # the first that fits: the order is the contract
        ("permission_error: billing", "unauthorized"),
        ("429 api_error", "rate_limited"),
    ],
)
def test_category(text: str, category: str) -> None:
    assert categorise(text) == category

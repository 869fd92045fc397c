"""Where spans go, and what is shown of a URL."""

from __future__ import annotations

import pytest

from dragoman.services.observability.endpoints import shown_url, traces_url

STORE = "http://127.0.0.1:10428/"


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
        (" http://host/otlp ", "http://host/otlp/v1/traces"),
        ("http://host/v1/traces", "http://host/v1/traces"),
        ("http://host/v1/traces/", "http://host/v1/traces"),
        ("http://host/insert/opentelemetry/v1/traces", "http://host/insert/opentelemetry/v1/traces"),
        ("", "http://127.0.0.1:10428/insert/opentelemetry/v1/traces"),
        ("  ", "http://127.0.0.1:10428/insert/opentelemetry/v1/traces"),
    ],
)
def test_where_spans_go(endpoint: str, url: str) -> None:
    assert traces_url(endpoint, STORE) == url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8428", "http://127.0.0.1:8428"),
        ("https://me:s3cret@host:1/path", "https://host:1/path"),
        ("https://host/path?key=s3cret#part", "https://host/path"),
        ("http://[", "(no URL)"),
    ],
)
def test_what_is_shown_of_a_url(url: str, shown: str) -> None:
    assert shown_url(url) == shown

"""URLs that somebody configured: where spans go, and how one may be shown."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit, urlunsplit

TRACES = "/v1/traces"
"""Where a collector takes spans, below the URL that it is configured by (OTLP/HTTP)."""

VICTORIA_TRACES = "/insert/opentelemetry/v1/traces"
"""Where VictoriaTraces takes them."""


def traces_url(otlp_endpoint: str, traces_base: str) -> str:
    """Where spans are sent: the endpoint, with the path of traces unless it has it (VictoriaTraces' ends in it, too).

    Without an endpoint the store that traces are read from takes them.
    """
    endpoint = otlp_endpoint.strip().rstrip("/")
    if not endpoint:
        return traces_base.strip().rstrip("/") + VICTORIA_TRACES
    return endpoint if endpoint.endswith(TRACES) else endpoint + TRACES


def shown_url(url: str) -> str:
    """``url`` without a name and password in it, and without its query: either may be a key (invariant 10)."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(no URL)"
    return urlunsplit(SplitResult(parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

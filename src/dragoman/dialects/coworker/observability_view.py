"""Where telemetry goes, as a link is told when it begins (seed: ``observability_status``)."""

from __future__ import annotations

from dragoman.hub.workspace_config import Observability
from dragoman.services.observability.endpoints import shown_url

from . import workspace_messages as around


def observability_status(session: str, configured: Observability) -> around.ObservabilityStatus:
    """All of it, also where it is switched off. Names, passwords and queries in its URLs are not told."""
    queries = configured.queries
    return around.ObservabilityStatus(
        session_id=session,
        enabled=configured.enabled,
        observability=around.ObservabilityConfig(
            otlp_http_endpoint=shown_url(configured.otlp_endpoint),
            query_api=around.QueryApi(
                logs_base_url=shown_url(queries.logs),
                metrics_base_url=shown_url(queries.metrics),
                traces_base_url=shown_url(queries.traces),
            ),
            default_window_sec=configured.default_window,
        ),
    )

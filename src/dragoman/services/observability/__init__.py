"""Observability: spans and figures of sessions, and what clients may ask of the stores that keep such (coworker)."""

from .query_proxy import QueryProxy
from .settings import ObservabilitySettings
from .telemetry import Telemetry

__all__ = ["ObservabilitySettings", "QueryProxy", "Telemetry"]

"""Settings of telemetry and of what is asked of its stores (``[observability]``)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from dragoman.hub.workspace_config import Observability, QueryEndpoints

Readers = Literal["local", "token", "anyone"]
Count = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class ExportSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How spans leave. What does not get away in time is dropped: nothing ever waits for it."""

    queue: Count = 2048
    """Spans that wait to be sent; a further one is dropped."""

    batch: Count = 512
    """Spans in one request."""

    every: Seconds = 5.0
    """Seconds after which fewer are sent, too."""

    seconds: Seconds = 10.0
    """For one request and its repetitions; then its spans are dropped."""

    close: float = 0.3
    """Seconds that the end of the server waits for what is still to be sent."""


class ObservabilitySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Traces, metrics, and the stores that can be asked for them."""

    enabled: bool = False
    """Whether spans are sent and stores may be asked. A folder's own configuration may say otherwise for queries."""

    otlp_endpoint: str = "http://127.0.0.1:4318"
    """Where spans are sent (OTLP/HTTP); ``/v1/traces`` is added unless it ends so. Empty: to ``traces_url``, as
    VictoriaTraces takes them. Needs the extra ``otel``."""

    headers: dict[str, str] = {}
    """Sent with the spans (``authorization``…); never shown."""

    service_name: str = "dragoman"
    """The name under which the spans are found."""

    details: bool = False
    """Whether spans carry error messages and the session's folder too: they may quote prompts, results and paths."""

    logs_url: str = "http://127.0.0.1:9428"
    """The store of logs (VictoriaLogs)."""

    metrics_url: str = "http://127.0.0.1:8428"
    """The store of metrics (Prometheus, VictoriaMetrics)."""

    traces_url: str = "http://127.0.0.1:10428"
    """The store of traces (VictoriaTraces)."""

    default_window: Count = 300
    """Seconds back from now that a query covers when it says nothing; at least 1."""

    query_seconds: Seconds = 10.0
    """For each request that a query makes."""

    query_bytes: Count = 4 * 1024 * 1024
    """Bytes of an answer that are taken; a longer one is an error."""

    checks: Count = 100
    """Checks of one evaluation, which are all asked at once."""

    metrics: bool = True
    """Whether ``/metrics`` is served."""

    metrics_readers: Readers = "local"
    """Who may read it: ``local`` whoever is on this machine, others with the token; ``token`` everybody with the token,
    where there is one; ``anyone``."""

    metric_names: Count = 50
    """Different tools, models and agents that metrics tell apart; further ones count as ``other``."""

    export: ExportSettings = ExportSettings()

    def observability(self) -> Observability:
        """The same as the port has it, for a folder that says nothing of its own."""
        return Observability(
            enabled=self.enabled,
            otlp_endpoint=self.otlp_endpoint,
            queries=QueryEndpoints(logs=self.logs_url, metrics=self.metrics_url, traces=self.traces_url),
            default_window=self.default_window,
        )

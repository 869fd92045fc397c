"""Spans as OpenTelemetry's library sends them (OTLP over HTTP). Imports it, so this is imported late, in a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from .spans import Span

_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_NS = 1_000_000


class OtlpSender:
    """Implements ``Sender``. ``seconds`` is for one request and its repetitions."""

    def __init__(self, url: str, headers: Mapping[str, str], *, service: str, version: str, seconds: float) -> None:
        session = requests.Session()
        session.trust_env = False  # no proxy that somebody else configured, no password from a .netrc
        self._exporter = OTLPSpanExporter(endpoint=url, headers=dict(headers), timeout=seconds, session=session)
        self._resource = Resource({"service.name": service, "service.version": version})
        self._scope = InstrumentationScope("dragoman", version)
        self._is_down = False

    def send(self, spans: Sequence[Span]) -> bool:
        return self._exporter.export([self._readable(span) for span in spans]) is SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        if not self._is_down:
            self._is_down = True
            self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _readable(self, span: Span) -> ReadableSpan:
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace, span.span),
            parent=None if span.parent is None else _context(span.trace, span.parent),
            resource=self._resource,
            attributes=span.attributes,
            kind=_KINDS[span.kind],
            status=_status(span),
            start_time=span.began * _NS,
            end_time=max(span.began, span.ended) * _NS,
            instrumentation_scope=self._scope,
        )


def _context(trace: int, span: int) -> SpanContext:
    return SpanContext(trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _status(span: Span) -> Status:
    if span.ok is None:
        return Status(StatusCode.UNSET)
    return Status(StatusCode.OK) if span.ok else Status(StatusCode.ERROR, span.message)

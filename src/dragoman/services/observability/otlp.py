"""Spans as OTLP over HTTP. Imports what makes them, OpenTelemetry's library, so this is imported late, in a thread.

The requests are ours: those of the library follow redirects with every header, read answers of any length, and take as
long as a collector drips.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import socket
import ssl
import threading
from collections.abc import Mapping, Sequence

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from .otlp_environment import read_environment
from .spans import Span

log = logging.getLogger("dragoman.telemetry")

_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_NS = 1_000_000

_FIRST_PAUSE = 1.0
"""Seconds before a request is repeated; twice as many before each further time."""

_BUSY = (429, 502, 503, 504)
"""Answers after which OTLP has a request repeated."""

_STOPPING = "the server stops"


class OtlpSender:
    """Implements ``Sender``. ``seconds`` is for one request and its repetitions, whatever the collector does."""

    def __init__(self, url: str, headers: Mapping[str, str], *, service: str, version: str, seconds: float) -> None:
        self._url = url
        said = read_environment(os.environ)
        # By lower case: the settings' word for a header counts, however it is spelled.
        given = {name.lower(): value for name, value in (said.headers | dict(headers)).items()}
        self._headers = given | {"content-type": "application/x-protobuf"}
        if said.gzip:
            self._headers["content-encoding"] = "gzip"
        self._gzip, self._tls = said.gzip, said.tls
        self._seconds = seconds
        self._resource = Resource({"service.name": service, "service.version": version})
        self._scope = InstrumentationScope("dragoman", version)
        self._why: str | None = None
        self._changing = threading.Lock()
        self._sending: tuple[asyncio.AbstractEventLoop, asyncio.Task[str | None]] | None = None
        self._is_down = False

    def send(self, spans: Sequence[Span]) -> bool:
        body = encode_spans([self._readable(span) for span in spans]).SerializeToString()
        if self._gzip:
            body = gzip.compress(body)
        why = asyncio.run(self._send(body))
        if why not in (None, self._why, _STOPPING):
            log.warning("the collector of spans: %s", why)
        self._why = why
        return why is None

    def shutdown(self) -> None:
        with self._changing:
            self._is_down = True
            if self._sending is not None:
                loop, sending = self._sending
                loop.call_soon_threadsafe(sending.cancel)

    async def _send(self, body: bytes) -> str | None:
        """Why it did not arrive, None if it did. Ended by ``shutdown``."""
        with self._changing:
            if self._is_down:
                return _STOPPING
            sending = asyncio.create_task(self._deliver(body))
            self._sending = asyncio.get_running_loop(), sending
        try:
            await asyncio.wait((sending,))
        finally:
            with self._changing:
                self._sending = None
        return _STOPPING if sending.cancelled() else sending.result()

    async def _deliver(self, body: bytes) -> str | None:
        why: str | None = None
        try:
            async with asyncio.timeout(self._seconds), _connections(self._tls) as http:
                pause = _FIRST_PAUSE
                while True:
                    status, why = await self._post(http, body)
                    if why is None or status not in _BUSY:
                        return why
                    await asyncio.sleep(pause)
                    pause *= 2
        except TimeoutError:
            return why or f"no answer within {self._seconds:g} s"
        except ValueError:  # aiohttp.InvalidURL is one; a header may be none, too
            return "the endpoint that is configured is no URL, or a header no header"

    async def _post(self, http: aiohttp.ClientSession, body: bytes) -> tuple[int, str | None]:
        """The answer's status, and why that is no success: without the URL, as a password may stand in it."""
        try:
            async with http.post(self._url, data=body, headers=self._headers, allow_redirects=False) as answer:
                return answer.status, None if 200 <= answer.status < 300 else f"HTTP {answer.status}"
        except aiohttp.InvalidURL:
            raise
        except (aiohttp.ClientError, OSError) as problem:
            if isinstance(problem, TimeoutError):
                raise
            return 503, f"no connection ({type(problem).__name__})"

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


def _connections(tls: ssl.SSLContext | None) -> aiohttp.ClientSession:
    """No proxy that somebody else configured, no password from a .netrc, no cookie."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=_Names(), force_close=True, ssl=tls or True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
    )


class _Names(AbstractResolver):
    """Looks names up in this thread, where nothing else waits: one of a pool would hold up the end of the server."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """There is nothing to close."""

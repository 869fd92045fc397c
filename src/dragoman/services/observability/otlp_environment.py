"""What OpenTelemetry's variables say about sending spans (``OTEL_EXPORTER_OTLP_…``): headers, certificates, gzip."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import msgspec
from opentelemetry.util.re import parse_env_headers


class OtlpEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """``tls`` is None where the system's certificates do."""

    headers: dict[str, str]
    gzip: bool
    tls: ssl.SSLContext | None


def read_environment(variables: Mapping[str, str]) -> OtlpEnvironment:
    """The variables, those for traces first. Raises ``OSError`` for a certificate that is none."""

    def said(name: str) -> str:
        return variables.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or variables.get(f"OTEL_EXPORTER_OTLP_{name}") or ""

    return OtlpEnvironment(
        headers=dict(parse_env_headers(said("HEADERS"), liberal=True)),
        gzip=said("COMPRESSION").strip().lower() == "gzip",
        tls=_tls(said("CERTIFICATE"), said("CLIENT_CERTIFICATE"), said("CLIENT_KEY")),
    )


def _tls(authorities: str, certificate: str, key: str) -> ssl.SSLContext | None:
    if not (authorities or certificate):
        return None
    context = ssl.create_default_context(cafile=authorities or None)
    if certificate:
        context.load_cert_chain(certificate, key or None)
    return context

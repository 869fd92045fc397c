"""Where telemetry goes, on the wire."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.dialects.coworker.messages import encode
from dragoman.dialects.coworker.observability_view import observability_status
from dragoman.hub.workspace_config import Observability, QueryEndpoints

from .recordings import received, recorded


def configured(otlp: str, *, enabled: bool = True) -> Observability:
    queries = QueryEndpoints(logs="http://l/", metrics="http://m:1/p?token=secret", traces="http://u:secret@t")
    return Observability(enabled=enabled, otlp_endpoint=otlp, queries=queries, default_window=60)


@pytest.mark.parametrize("enabled", [True, False], ids=["on", "off"])
def test_all_of_it_is_told_also_when_it_is_off_and_no_secret(enabled: bool) -> None:
    told = encode(observability_status("s", configured("https://me:secret@host/v1?key=secret", enabled=enabled)))
    assert msgspec.json.decode(told) == {
        "type": "observability_status",
        "sessionId": "s",
        "enabled": enabled,
        "observability": {
            "mode": "local_docker",
            "otlpHttpEndpoint": "https://host/v1",
            "queryApi": {"logsBaseUrl": "http://l/", "metricsBaseUrl": "http://m:1/p", "tracesBaseUrl": "http://t"},
            "defaultWindowSec": 60,
        },
    }


@recorded
@pytest.mark.parametrize("name", ["connect", "observability_enabled"])
def test_what_was_recorded_is_said_to_the_letter(name: str) -> None:
    (frame,) = received(name, "observability_status")
    said = frame["observability"]
    urls = said["queryApi"]
    known = Observability(
        enabled=frame["enabled"],
        otlp_endpoint=said["otlpHttpEndpoint"],
        queries=QueryEndpoints(logs=urls["logsBaseUrl"], metrics=urls["metricsBaseUrl"], traces=urls["tracesBaseUrl"]),
        default_window=said["defaultWindowSec"],
    )
    assert msgspec.json.decode(encode(observability_status(frame["sessionId"], known))) == frame

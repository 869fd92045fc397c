"""The page that Prometheus reads. Imports prometheus_client, so whoever starts quickly imports this late."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from .figures import Counted, Distribution, Family

_VERSION = re.compile(r"version=([^;,]*)")
_KNOWN_VERSIONS = ("0.0.1", "0.0.4", "1.0.0")


def page(families: Iterable[Family], accept: str) -> tuple[bytes, str]:
    """Figures, and what is known of the process: the page and its media type, as an ``Accept`` header asks for it.

    May run in a thread while the figures grow.
    """
    registry = CollectorRegistry()
    registry.register(_Families(families))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    encode, media_type = choose_encoder(accept if _is_sound(accept) else "")
    return encode(registry), media_type


def _is_sound(accept: str) -> bool:
    """Whether the library can read this header: it compares any versions as numbers, and repeats what they are."""
    return all(version.strip() in _KNOWN_VERSIONS for version in _VERSION.findall(accept))


class _Families(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            yield _histogram(family) if isinstance(family, Distribution) else _numbers(family)


def _numbers(family: Counted) -> Metric:
    made = CounterMetricFamily if family.grows else GaugeMetricFamily
    metric = made(family.name, family.help, labels=family.labels)
    for labels, value in tuple(family.values.items()):
        metric.add_metric(labels, value)
    return metric


def _histogram(family: Distribution) -> Metric:
    metric = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    bounds = [*map(repr, family.bounds), "+Inf"]
    for labels, counts in tuple(family.counts.items()):
        metric.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), family.sums.get(labels, 0.0))
    return metric

"""The one number that an answer of a metrics, log or trace store stands for (coworker, ``harness_slo_evaluate``)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from dragoman.hub.events import Json

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)

_TIMES = frozenset({"time", "_time", "ts", "timestamp", "@timestamp"})
"""Fields of a record that say when it was, in lower case: that is never what was asked for."""


def value_of(data: Json) -> float | None:
    """The value of an answer's ``data``; None when it holds something, but no number.

    Nothing at all (null, a result without series, containers without content) is 0: nothing happened. Prometheus'
    form of answer gives its newest sample and never anything else; any other the first number in reading order.
    """
    if isinstance(data, dict) and "status" in data and ("data" in data or data["status"] == "error"):
        return None if data["status"] == "error" else _result(data["data"])
    return _result(data)


def _result(data: Json) -> float | None:
    if isinstance(data, dict) and "resultType" in data:
        return _sampled(data["resultType"], data.get("result"))
    if _is_empty(data):
        return 0.0
    return next(_numbers(data), None)


def _sampled(kind: Json, result: Json) -> float | None:
    """The value of Prometheus' ``result``: of the first series that has one."""
    series = [{"value": result}] if kind in ("scalar", "string") and result else result
    if not isinstance(series, list):
        return 0.0 if series is None else None
    if all(isinstance(one, dict) and one.get("values") == [] for one in series):
        return 0.0
    return next((value for one in series for value in _samples(one)), None)


def _samples(series: Json) -> Iterator[float]:
    """The values of one series, newest first. A sample is a pair: its time, and its value as text."""
    if not isinstance(series, dict):
        return
    pairs = [series["value"]] if "value" in series else series.get("values")
    if not isinstance(pairs, list):
        return
    for pair in reversed(pairs):
        if isinstance(pair, list) and len(pair) == 2:
            value = number(pair[1])
            if value is not None:
                yield value


def _is_empty(data: Json) -> bool:
    """Whether there is no content at all, however it is wrapped."""
    if isinstance(data, dict):
        return all(map(_is_empty, data.values()))
    if isinstance(data, list):
        return all(map(_is_empty, data))
    return data is None


def _numbers(data: Json) -> Iterator[float]:
    """Every number, depth first."""
    if isinstance(data, dict):
        for key, inner in data.items():
            if key.lower() not in _TIMES:
                yield from _numbers(inner)
    elif isinstance(data, list):
        for inner in data:
            yield from _numbers(inner)
    elif (value := number(data)) is not None:
        yield value


def number(value: Json) -> float | None:
    """A finite number, or a text that is one (an empty text is none); else None."""
    if isinstance(value, str):
        text = value.strip()
        value = float(text) if _NUMBER.fullmatch(text) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return None
    return found if math.isfinite(found) else None

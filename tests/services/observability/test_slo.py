"""Whether a promise holds: every way that a value can be there, missing, or not to be trusted."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from dragoman.hub.errors import InvalidRequest
from dragoman.services.observability.queries import QueryRequest, QueryResult
from dragoman.services.observability.samples import value_of
from dragoman.services.observability.slo import NO_NUMBER, SloCheck, evaluate, judge

NOW = 1_700_000_300_000


def prometheus(kind: str, result: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": result}}


def series(*values: Any, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "values": [[1_700_000_000 + 60 * at, value] for at, value in enumerate(values)]}


def single(value: Any, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [1_700_000_000, value]}


DEEP: Any = 5
for _ in range(100):
    DEEP = [DEEP]

VALUES: dict[str, tuple[Any, float | None]] = {
    # nothing at all is 0
    "null": (None, 0),
    "no series in a vector": (prometheus("vector", []), 0),
    "no series in a matrix": (prometheus("matrix", []), 0),
    "a result that is null": (prometheus("vector", None), 0),
    "series without samples": (prometheus("matrix", [series(), series()]), 0),
    "an empty list": ([], 0),
    "an empty object": ({}, 0),
    "containers without content": ({"traces": [], "metrics": {}}, 0),
    "success without data": ({"status": "success", "data": []}, 0),
    # Prometheus' samples
    "a vector": (prometheus("vector", [single("7")]), 7),
    "a number that is no text": (prometheus("vector", [single(7.5)]), 7.5),
    "the newest of a matrix": (prometheus("matrix", [series("0.5", "0.25")]), 0.25),
    "the newest of a matrix that can be read": (prometheus("matrix", [series("0.5", "0.25", "NaN")]), 0.25),
    "the first series of several": (prometheus("vector", [single("1", code="200"), single("2", code="500")]), 1),
    "the first series that can be read": (prometheus("vector", [single("NaN"), single("2")]), 2),
    "a scalar": (prometheus("scalar", [1_700_000_000, "3"]), 3),
    "a string that is a number": (prometheus("string", [1_700_000_000, "3"]), 3),
    "without its envelope": (prometheus("vector", [single("4")])["data"], 4),
    "a scientific number": (prometheus("vector", [single("1.5e-3")]), 0.0015),
    "a negative number": (prometheus("vector", [single("-2")]), -2),
    # what is there, but no number, is never 0, nor a time or a label
    "NaN": (prometheus("vector", [single("NaN")]), None),
    "NaN all over a matrix": (prometheus("matrix", [series("NaN", "NaN")]), None),
    "infinity": (prometheus("vector", [single("+Inf")]), None),
    "a text": (prometheus("string", [1_700_000_000, "up"]), None),
    "a label that is a number": (prometheus("vector", [single("NaN", code="200")]), None),
    "a sample of one": (prometheus("vector", [{"metric": {}, "value": [1_700_000_000]}]), None),
    "a histogram": (prometheus("vector", [{"metric": {}, "histogram": [1_700_000_000, {"count": "9"}]}]), None),
    "series that are none": (prometheus("vector", [5, "6"]), None),
    "a result that is none": (prometheus("vector", "7"), None),
    "an error that was called a success": ({"status": "error", "errorType": "bad_data", "error": "1:2"}, None),
    "an error with a number in it": ({"status": "error", "data": {"code": 5}}, None),
    "an empty text inside a result": (prometheus("vector", [single("")]), None),
    "an empty text": ({"n": ""}, None),
    "lines of a log stream": (prometheus("streams", [{"stream": {}, "values": [["1700000000000000000", "up"]]}]), None),
    # anything else: the first number in reading order
    "a number": (5, 5),
    "a record": ({"_msg": "a", "n": 3, "m": 4}, 3),
    "a record of texts": ({"_msg": "a", "count(*)": "42"}, 42),
    "a record with its time first": ({"_time": 1_700_000_000, "Timestamp": 17, "n": 3}, 3),
    "something nested": ({"a": {"b": ["x", {"c": 9}]}}, 9),
    "something deep": (DEEP, 5),
    "plain text": ("plain text", None),
    "records, a line each": ('{"_msg":"a","n":3}\n{"_msg":"b","n":4}\n', None),
    "a record without a number": ({"_msg": "a"}, None),
    "true": ({"up": True}, None),
    "digits that are not ASCII": ({"n": "٣"}, None),
    "a number as Python writes it": ({"n": "1_000"}, None),
    "a number too large for a float": (10**400, None),
    "a text too large for a float": ("1e999", None),
}


@pytest.mark.parametrize(("data", "value"), VALUES.values(), ids=VALUES.keys())
def test_the_value_of_an_answer(data: Any, value: float | None) -> None:
    assert value_of(data) == value


def check(**more: Any) -> SloCheck:
    given = {"id": "a", "type": "custom", "query_type": "promql", "query": "q", "op": "<", "threshold": 1}
    return SloCheck(**{**given, "window_sec": 300, **more})


def answer(data: Any = None, *, error: str | None = None) -> QueryResult:
    return QueryResult(
        query_type="promql",
        query="q",
        from_ms=0,
        to_ms=1,
        status="ok" if error is None else "error",
        data=data,
        error=msgspec.UNSET if error is None else error,
    )


@pytest.mark.parametrize(
    ("op", "below", "same", "above"),
    [
        ("<", True, False, False),
        ("<=", True, True, False),
        (">", False, False, True),
        (">=", False, True, True),
        ("==", False, True, False),
        ("!=", True, False, True),
    ],
)
def test_operators(op: Any, below: bool, same: bool, above: bool) -> None:
    told = [judge(check(op=op, threshold=2), answer(value)).passed for value in (1, 2.0, 2.5)]
    assert told == [below, same, above]


def test_a_check_without_a_value_fails_and_says_why() -> None:
    for op in ("<", "!=", "=="):
        failed = judge(check(op=op, threshold=0), answer("plain text"))
        assert (failed.actual, failed.passed, failed.reason) == (None, False, NO_NUMBER)
    failed = judge(check(op="!="), answer(error="HTTP 500: broken"))
    assert (failed.actual, failed.passed, failed.reason) == (None, False, "HTTP 500: broken")


def test_a_result_in_its_wire_form() -> None:
    """As recorded from the original: keys, their order, whole numbers as they are."""
    passed = judge(check(id="c", op="==", threshold=0), answer(prometheus("vector", [])))
    assert msgspec.json.encode(passed) == (
        b'{"id":"c","type":"custom","queryType":"promql","query":"q","op":"==","threshold":0,"windowSec":300,'
        b'"actual":0,"pass":true}'
    )
    failed = judge(check(id="d"), answer(prometheus("vector", [single("NaN")])))
    assert msgspec.json.encode(failed).endswith(
        b'"actual":null,"pass":false,"reason":"Unable to derive numeric value from query result"}'
    )
    assert judge(check(), answer(prometheus("vector", [single("0.25")]))).actual == 0.25
    assert type(judge(check(), answer(prometheus("vector", [single("7")]))).actual) is int


async def test_all_are_asked_at_once_each_over_its_own_window() -> None:
    asked: list[QueryRequest] = []
    everybody_asks = asyncio.Event()

    async def ask(request: QueryRequest) -> QueryResult:
        asked.append(request)
        if len(asked) == 3:
            everybody_asks.set()
        await everybody_asks.wait()
        return answer(len(request.query))

    checks = [check(id="a", query="x"), check(id="b", query="xxx", window_sec=600), check(id="c", query="", op="==")]
    result = await asyncio.wait_for(evaluate(checks, ask, now=NOW, report_only=False, strict_mode=True), 10)
    assert [(it.from_ms, it.to_ms) for it in asked] == [
        (NOW - 300_000, NOW),
        (NOW - 600_000, NOW),
        (NOW - 300_000, NOW),
    ]
    assert (result.report_only, result.strict_mode, result.passed) == (False, True, False)
    assert (result.from_ms, result.to_ms) == (NOW - 600_000, NOW)
    assert [(it.id, it.actual, it.passed) for it in result.checks] == [
        ("a", 1, False),
        ("b", 3, False),
        ("c", 0, False),
    ]


async def test_all_passed_and_fractions_of_a_window() -> None:
    async def ask(request: QueryRequest) -> QueryResult:
        assert request.from_ms == NOW - 501
        return answer(None)

    result = await evaluate([check(window_sec=0.5005), check(window_sec=0.5005)], ask, now=NOW)
    assert result.passed
    assert result.from_ms == NOW - 501
    assert (result.report_only, result.strict_mode) == (True, False)


async def test_too_many_checks_are_refused() -> None:
    async def ask(request: QueryRequest) -> QueryResult:
        raise AssertionError("nothing is asked")

    with pytest.raises(InvalidRequest, match=r"observability\.checks"):
        await evaluate([check()] * 101, ask, now=NOW)

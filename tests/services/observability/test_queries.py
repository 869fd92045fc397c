"""What the stores are asked, in which order, and what becomes of their answers: with a store that the test plays."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web

from dragoman.services.observability import QueryProxy
from dragoman.services.observability.queries import QueryRequest, QueryResult, window_of
from dragoman.services.observability.query_proxy import DISABLED
from dragoman.services.observability.slo import NO_NUMBER, SloCheck, evaluate
from tests.hub.rig import FakeClock

from .stores import Asked, at, playing, text

NOW = 1_700_000_300_000
FROM, TO = 1_700_000_000_000, 1_700_000_300_000
VECTOR = {"status": "success", "data": {"resultType": "vector", "result": []}}


@pytest.fixture
async def proxy() -> AsyncIterator[QueryProxy]:
    made = QueryProxy(seconds=5, most_bytes=1000, clock=FakeClock(NOW))
    yield made
    await made.close()


def promql(query: str = "up", **more: Any) -> QueryRequest:
    return QueryRequest(query_type="promql", query=query, **more)


def asks(kind: Any, **more: Any) -> QueryRequest:
    return QueryRequest(query_type=kind, query="*", from_ms=FROM, to_ms=TO, **more)


async def test_metrics_are_asked_over_time_first(proxy: QueryProxy) -> None:
    async with playing(lambda _: text(json.dumps(VECTOR))) as store:
        result = await proxy.query(promql(" up ", from_ms=FROM + 0.7, to_ms=TO + 0.9), at(f"{store.url}/"))
    assert msgspec.to_builtins(result) == {
        "queryType": "promql",
        "query": "up",
        "fromMs": FROM,
        "toMs": TO,
        "status": "ok",
        "data": VECTOR,
    }
    [asked] = store.asked
    assert (asked.method, asked.path) == ("GET", "/api/v1/query_range")
    assert asked.params == {"query": "up", "start": "1700000000", "end": "1700000300", "step": "5"}


async def test_then_at_one_moment(proxy: QueryProxy) -> None:
    def script(asked: Asked) -> web.Response:
        return text("no ranges", 500) if asked.path.endswith("range") else text(json.dumps(VECTOR))

    async with playing(script) as store:
        result = await proxy.query(promql(from_ms=FROM, to_ms=FROM + 1500), at(f"{store.url}/prometheus"))
    assert (result.status, result.data) == ("ok", VECTOR)
    assert store.requests == [("GET", "/prometheus/api/v1/query_range"), ("GET", "/prometheus/api/v1/query")]
    assert store.asked[0].params["step"] == "1"
    assert store.asked[1].params == {"query": "up", "time": "1700000001.5"}


async def test_logs_are_asked_for_with_get_then_post(proxy: QueryProxy) -> None:
    async with playing(
        lambda asked: text("here" if asked.method == "POST" else "gone", 200 + 300 * (asked.method == "GET"))
    ) as store:
        result = await proxy.query(asks("logql", limit=99_999_999), at(store.url))
    assert (result.status, result.data) == ("ok", "here")
    assert store.requests == [("GET", "/select/logsql/query"), ("POST", "/select/logsql/query")]
    wanted = {"query": "*", "start": str(FROM), "end": str(TO), "limit": "10000"}
    assert [asked.params for asked in store.asked] == [wanted, wanted]


async def test_traces_are_asked_for_in_four_ways(proxy: QueryProxy) -> None:
    async with playing(lambda asked: text(f"not at {asked.path} with {asked.method}", 404)) as store:
        result = await proxy.query(asks("traceql"), at(store.url))
    traces, logs = "/select/traceql/query", "/select/logsql/query"
    assert store.requests == [("GET", traces), ("POST", traces), ("GET", logs), ("POST", logs)]
    assert (result.status, result.data) == ("error", None)
    assert result.error == f"HTTP 404: not at {logs} with POST"
    assert store.asked[0].params["limit"] == "200"


@pytest.mark.parametrize(("given", "limit"), [(None, "200"), (0, "1"), (-5, "1"), (7.9, "7"), (10_001, "10000")])
async def test_limits(proxy: QueryProxy, given: float | None, limit: str) -> None:
    async with playing(lambda _: text("")) as store:
        await proxy.query(asks("logql", limit=given), at(store.url))
    assert store.asked[0].params["limit"] == limit


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "window"),
    [
        (None, None, (NOW - 300_000, NOW)),
        (None, 500_000.9, (200_000, 500_000)),
        (1000.7, 5000.9, (1000, 5000)),
        (-0.5, None, (-1, NOW)),
        (float("-inf"), float("inf"), (-8_640_000_000_000_000, 8_640_000_000_000_000)),
    ],
)
def test_windows(from_ms: float | None, to_ms: float | None, window: tuple[int, int]) -> None:
    found = window_of(promql(from_ms=from_ms, to_ms=to_ms), now=NOW, seconds=300)
    assert (found.from_ms, found.to_ms) == window


DEEP = "[" * 200 + "]" * 200
DEEPER = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("body", "data"),
    [
        ('{"a":[1,"x"]}', {"a": [1, "x"]}),
        ("\ufeff 5 ", 5),
        ("plain text", "plain text"),
        ('{"n":3}\n{"n":4}\n', '{"n":3}\n{"n":4}\n'),
        ('{"n":NaN}', '{"n":NaN}'),
        ("", None),
        (" \n ", None),
        ("null", None),
        (DEEP, DEEP),
    ],
)
async def test_an_answer_is_json_or_text_or_nothing(proxy: QueryProxy, body: str, data: Any) -> None:
    async with playing(lambda _: text(body)) as store:
        result = await proxy.query(promql(), at(store.url))
    assert (result.status, result.data) == ("ok", data)
    assert "error" not in msgspec.to_builtins(result)
    msgspec.json.encode(result)


async def test_what_nests_without_end_stays_text() -> None:
    proxy = QueryProxy()
    async with playing(lambda _: text(DEEPER)) as store:
        assert (await proxy.query(promql(), at(store.url))).data == DEEPER
    await proxy.close()


async def test_a_prometheus_error_with_status_200_is_an_answer(proxy: QueryProxy) -> None:
    body = {"status": "error", "error": "parse error"}
    async with playing(lambda _: text(json.dumps(body))) as store:
        result = await proxy.query(promql(), at(store.url))
    assert (result.status, result.data) == ("ok", body)


async def test_nothing_is_asked_where_it_is_off(proxy: QueryProxy) -> None:
    async with playing(lambda _: text("here")) as store:
        result = await proxy.query(promql(" up ", from_ms=1000.7, to_ms=5000.9), at(store.url, enabled=False))
    assert not store.asked
    assert msgspec.json.encode(result) == (
        b'{"queryType":"promql","query":"up","fromMs":1000,"toMs":5000,"status":"error","data":null,'
        b'"error":"Observability is disabled for this session."}'
    )
    assert result.error == DISABLED


# What goes wrong


async def test_the_body_of_an_error_is_cut(proxy: QueryProxy) -> None:
    async with playing(lambda _: text("é" * 5000, 502)) as store:
        result = await proxy.query(promql(), at(store.url))
    assert result.error == "HTTP 502: " + "é" * 400


async def test_an_answer_that_is_too_long_is_an_error(proxy: QueryProxy) -> None:
    async with playing(lambda _: text("x" * 1001)) as store:
        result = await proxy.query(promql(), at(store.url))
        assert (await proxy.query(promql(), at(store.url))).status == "error"
    assert (result.status, result.data) == ("error", None)
    assert "1000 bytes" in str(result.error)


async def test_nobody_there(proxy: QueryProxy) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        result = await proxy.query(promql(), at(f"http://me:s3cret@127.0.0.1:{port}"))
    assert result.status == "error"
    assert f"cannot connect to 127.0.0.1:{port}" in str(result.error)
    assert "s3cret" not in str(result)


@pytest.mark.parametrize("url", ["", "not a url", "ftp://127.0.0.1", "http://", "http://[", "http://127.0.0.1:99999"])
async def test_what_is_no_url_is_an_error(proxy: QueryProxy, url: str) -> None:
    result = await proxy.query(promql(), at(url))
    assert result.status == "error"
    assert result.error


async def test_a_store_that_does_not_answer_is_given_up() -> None:
    proxy = QueryProxy(seconds=0.05)
    release = asyncio.Event()

    async def silent(_: Asked) -> web.Response:
        await release.wait()
        return text("late")

    async with playing(silent) as store:
        result = await proxy.query(promql(), at(store.url))
        release.set()
    await proxy.close()
    assert result.error == "no answer within 0.05 s"
    assert len(store.asked) == 2


async def test_a_store_that_drips_is_given_up() -> None:
    proxy = QueryProxy(seconds=0.1)
    over = asyncio.Semaphore(0)

    async def drip(request: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.01)
        writer.close()
        over.release()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    result = await proxy.query(promql(), at(f"http://127.0.0.1:{port}"))
    for _ in range(2):  # both requests
        await over.acquire()
    await proxy.close()
    server.close()
    await server.wait_closed()
    assert result.error == "no answer within 0.1 s"


async def test_a_redirect_is_not_followed(proxy: QueryProxy) -> None:
    """Whoever answers for a store must not choose whom this machine asks next."""
    async with playing(lambda _: text("secret of another host")) as other:
        elsewhere = {"location": f"{other.url}/x"}
        async with playing(lambda _: web.Response(status=302, headers=elsewhere)) as store:
            result = await proxy.query(promql(), at(store.url))
    assert str(result.error).startswith("HTTP 302: ")
    assert not other.asked


async def test_no_proxy_and_no_cookie(proxy: QueryProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    def script(_: Asked) -> web.Response:
        answer = text("1")
        answer.set_cookie("seen", "before")
        return answer

    async with playing(lambda _: text("proxied")) as other, playing(script) as store:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, other.url)
        results = [await proxy.query(promql(), at(store.url)) for _ in range(2)]
    assert [result.data for result in results] == [1, 1]
    assert not other.asked
    assert all("cookie" not in {name.lower() for name in asked.headers} for asked in store.asked)


async def test_once_closed_it_asks_nobody(proxy: QueryProxy) -> None:
    async with playing(lambda _: text("1")) as store:
        assert (await proxy.query(promql(), at(store.url))).data == 1
        await proxy.close()
        result = await proxy.query(promql(), at(store.url))
    assert result.status == "error"
    assert len(store.asked) == 1


async def test_the_recorded_evaluation_of_the_original(proxy: QueryProxy) -> None:
    """The answers that its recording server gave, and the results that it made of them."""
    matrix = {"resultType": "matrix", "result": [{"metric": {}, "values": [[1700000000, "0.5"], [1700000060, "0.25"]]}]}
    seven = {"resultType": "vector", "result": [{"metric": {}, "value": [1700000000, "7"]}]}
    nan = {"resultType": "vector", "result": [{"metric": {}, "value": [1700000000, "NaN"]}]}

    def script(asked: Asked) -> web.Response:
        query = asked.params["query"]
        if query == "range_fail" and asked.path.endswith("range"):
            return text("broken", 500)
        given = {"ok": matrix, "range_fail": seven, "nan": nan, "empty": VECTOR["data"]}.get(query)
        if given is not None:
            return text(json.dumps({"status": "success", "data": given}))
        return text({"text": "plain text", "none": ""}.get(query, '{"_msg":"a","n":3}\n{"_msg":"b","n":4}\n'))

    rows: list[tuple[Any, str, Any, float, float | None, bool]] = [
        ("promql", "ok", "<", 0.3, 0.25, True),
        ("promql", "ok", ">=", 0.3, 0.25, False),
        ("promql", "empty", "==", 0, 0, True),
        ("promql", "nan", "<", 1, None, False),
        ("promql", "text", "<", 1, None, False),
        ("logql", "*", "==", 3, None, False),
        ("logql", "none", "==", 0, 0, True),
        ("promql", "range_fail", "!=", 7, 7, False),
    ]
    checks = [
        SloCheck(id=query, type="custom", query_type=kind, query=query, op=op, threshold=threshold, window_sec=300)
        for kind, query, op, threshold, _, _ in rows
    ]
    async with playing(script) as store:

        async def ask(request: QueryRequest) -> QueryResult:
            return await proxy.query(request, at(store.url))

        result = await evaluate(checks, ask, now=NOW)
    assert [(it.actual, it.passed) for it in result.checks] == [(actual, passed) for *_, actual, passed in rows]
    assert [it.reason for it in result.checks if it.actual is None] == [NO_NUMBER] * 3
    assert not result.passed

"""What is read of a request, and how it is refused, whatever the route (spec §1)."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from dragoman.dialects.windie.route import Call, Route
from dragoman.dialects.windie.routes import make_routes
from tests.server.asking import get

from .http_rig import RUNS_KEY, WindieServer, serving_windie

RUN = {"workspace_id": "w", "query": "q"}
NOWHERE = "/api/runs/nowhere/events"


async def runs(server: WindieServer, body: Any, **headers: str) -> Any:
    return await server.post("/api/runs/", body, x_windie_runs_key=RUNS_KEY, **headers)


@pytest.mark.parametrize(
    ("query", "loc", "text"),
    [
        ("after_seq=-1", "after_seq", "must be from 0 to 9007199254740991"),
        ("after_seq=x", "after_seq", "must be an integer"),
        ("after_seq=", "after_seq", "must be an integer"),
        ("after_seq=%D9%A3", "after_seq", "must be an integer"),
        ("after_seq=1.5", "after_seq", "must be an integer"),
        (f"after_seq={'9' * 5000}", "after_seq", "must be an integer"),
        ("limit=1&limit=2", "limit", "given more than once"),
    ],
)
async def test_what_an_address_asks_for_is_checked(open_server: WindieServer, query: str, loc: str, text: str) -> None:
    reply = await open_server.get(f"{NOWHERE}?{query}", x_windie_runs_key=RUNS_KEY)
    assert reply.refused == (422, [{"loc": ["query", loc], "msg": text, "type": "value_error"}])


@pytest.mark.parametrize("query", ["after_seq=%FF", "&".join(f"a{n}=1" for n in range(200))])
async def test_an_address_that_says_nothing(open_server: WindieServer, query: str) -> None:
    reply = await open_server.get(f"{NOWHERE}?{query}", x_windie_runs_key=RUNS_KEY)
    assert reply.refused == (422, [{"loc": ["query"], "msg": "cannot be decoded", "type": "value_error"}])


async def test_parameters_that_nobody_knows_are_nobodys_business(open_server: WindieServer) -> None:
    reply = await open_server.get(f"{NOWHERE}?_=1&_=2&limit=5", x_windie_runs_key=RUNS_KEY)
    assert reply.refused == (404, "Run not found")


async def test_all_that_is_wrong_is_told_at_once(open_server: WindieServer) -> None:
    reply = await runs(open_server, {"workspace_id": "", "files": [{}, 7], "metadata": []})
    assert reply.refused == (
        422,
        [
            {"loc": ["body", "workspace_id"], "msg": "must have at least 1 characters", "type": "value_error"},
            {"loc": ["body", "query"], "msg": "field required", "type": "value_error"},
            {"loc": ["body", "files", 1], "msg": "must be an object", "type": "value_error"},
            {"loc": ["body", "metadata"], "msg": "must be an object", "type": "value_error"},
        ],
    )


@pytest.mark.parametrize("body", [b"{", b"nul", b"\xff", b'{"a": "\\ud800"}', b"[" * 100_000, b'{"a": 1} {}'])
async def test_a_body_that_is_no_json(open_server: WindieServer, body: bytes) -> None:
    reply = await runs(open_server, body)
    assert reply.refused == (422, [{"loc": ["body"], "msg": "JSON decode error", "type": "json_invalid"}])


@pytest.mark.parametrize("media", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.a+json"])
async def test_json_by_any_of_its_names(open_server: WindieServer, media: str) -> None:
    assert (await runs(open_server, RUN, content_type=media)).status == 200


async def test_a_large_body_is_read_in_a_thread_and_a_larger_one_is_refused(tmp_path: Path) -> None:
    async with serving_windie(tmp_path, windie={"body_limit": 200_000, "offload_bytes": 1000}) as server:
        assert (await runs(server, {**RUN, "query": "q" * 2000})).status == 200
        status, detail = (await runs(server, {**RUN, "query": "q" * 200_000})).refused
        assert status == 413
        assert "200000" in detail


async def test_one_that_does_not_come_is_given_up(open_server: WindieServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.dialects.bodies.FIRST_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", open_server.port)
    lines = ("POST /windie/api/install/register HTTP/1.1", "host: 127.0.0.1", "content-length: 9", "", "{")
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(10):
        assert (await reader.readline()) == b"HTTP/1.1 408 Request Timeout\r\n"
    writer.close()


async def test_what_nobody_foresaw_is_told_to_the_log_alone(
    open_server: WindieServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(call: Call) -> Response:
        raise ZeroDivisionError("s3cret of ours")

    routes = make_routes(open_server.host, [Route(method="GET", path="/x", summary="Fails", handler=broken)])
    with caplog.at_level(logging.ERROR):
        answer = await get(routes, "/x")
    assert (answer.status, answer.text) == (500, '{"detail":"Internal Server Error"}')
    assert "s3cret of ours" in caplog.text

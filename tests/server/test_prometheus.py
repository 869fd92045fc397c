"""End to end with a real Prometheus: it scrapes our server, and clients' questions and checks are asked of it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.permissions import LOCAL
from dragoman.hub.workspace_config import Observability, QueryEndpoints
from dragoman.server.serve import Server
from dragoman.services.observability import QueryProxy
from dragoman.services.observability.queries import QueryRequest, QueryResult
from dragoman.services.observability.samples import value_of
from dragoman.services.observability.slo import NO_NUMBER, SloCheck, evaluate
from tests.hub.rig import until

from .asking import serving

PROMETHEUS = shutil.which("prometheus")

pytestmark = pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed (apt-get install prometheus)")

LIMIT = 60.0
"""Seconds for something to be scraped; the machine may be busy."""

CONFIG = """
global:
  scrape_interval: 200ms
scrape_configs:
  - job_name: dragoman
    authorization: {{credentials: s3cret}}
    static_configs:
      - targets: ["{target}"]
"""


@contextlib.asynccontextmanager
async def prometheus(folder: Path, target: str) -> AsyncIterator[str]:
    """The URL of one that scrapes ``target``, with its data in ``folder``."""
    folder.mkdir()
    (folder / "prometheus.yml").write_text(CONFIG.format(target=target))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    line = [
        str(PROMETHEUS),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(line, stdout=log, stderr=log, cwd=folder)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 30)


class Asked:
    """A Prometheus, and the proxy that asks it."""

    def __init__(self, proxy: QueryProxy, url: str) -> None:
        self.proxy = proxy
        self.where = Observability(
            enabled=True,
            otlp_endpoint="",
            queries=QueryEndpoints(logs=url, metrics=url, traces=url),
            default_window=300,
        )

    async def query(self, request: QueryRequest) -> QueryResult:
        return await self.proxy.query(request, self.where)

    async def promql(self, query: str) -> QueryResult:
        return await self.query(QueryRequest(query_type="promql", query=query))

    async def becomes(self, query: str, value: float) -> QueryResult:
        """Ask until the newest value is this one."""
        async with asyncio.timeout(LIMIT):
            while True:
                result = await self.promql(query)
                if result.status == "ok" and value_of(result.data) == value:
                    return result
                await asyncio.sleep(0.1)


async def run(server: Server, folder: Path, script: str) -> None:
    session = await server.registry.create(LOCAL, kind="scripted", cwd=str(folder))
    await session.start(LOCAL)
    await session.submit(LOCAL, script, via="test")
    await until(lambda: not session.shown.turn and not session.shown.queue)


def check(name: str, query: str, op: Any, threshold: float) -> SloCheck:
    return SloCheck(
        id=name, type="custom", query_type="promql", query=query, op=op, threshold=threshold, window_sec=300
    )


@pytest.mark.slow
async def test_a_real_prometheus_is_asked_about_our_own_turns(tmp_path: Path) -> None:
    closed = {"metrics_readers": "token"}
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(tmp_path, server={"token": "s3cret"}, observability=closed))
        await run(server, tmp_path, 'tool bash {"command": "date"}\nsay done')
        await run(server, tmp_path, "say done")
        await run(server, tmp_path, "fail")
        url = await stack.enter_async_context(prometheus(tmp_path / "prometheus", f"127.0.0.1:{server.port}"))
        proxy = QueryProxy(seconds=LIMIT)
        stack.push_async_callback(proxy.close)
        asked = Asked(proxy, url)

        up = await asked.becomes('up{job="dragoman"}', 1)
        assert up.data["data"]["resultType"] == "matrix"
        await asked.becomes("sum(dragoman_turns_total)", 3)
        await asked.becomes('dragoman_turns_total{outcome="failed"}', 1)
        await asked.becomes('dragoman_tool_calls_total{tool="bash",status="ok"}', 1)
        await asked.becomes("dragoman_turn_duration_seconds_count", 3)

        checks = [
            check("failed", 'sum(dragoman_turns_total{outcome="failed"})', "<=", 1),
            check("failed-strictly", 'sum(dragoman_turns_total{outcome="failed"})', "==", 0),
            check("share", 'sum(dragoman_turns_total{outcome="failed"}) / sum(dragoman_turns_total)', "<", 0.5),
            check("slow", "histogram_quantile(0.95, sum by (le) (dragoman_turn_duration_seconds_bucket))", "<", 60),
            check("interrupted", 'sum(dragoman_turns_total{outcome="interrupted"})', "==", 0),
            check("nan", "0 * sum(dragoman_turns_total) / 0", "==", 0),
            check("scalar", "scalar(sum(dragoman_turns_total))", ">", 2),
            check("not-promql", "sum(", "==", 0),
        ]
        result = await evaluate(checks, asked.query, now=time.time_ns() // 1_000_000)
        told = {it.id: (it.actual, it.passed) for it in result.checks}
        assert told["failed"] == (1, True)
        assert told["failed-strictly"] == (1, False)
        assert told["share"][1]
        assert told["slow"][1]
        assert told["interrupted"] == (0, True)
        assert told["nan"] == (None, False)
        assert told["scalar"] == (3, True)
        assert told["not-promql"] == (None, False)
        reasons = {it.id: it.reason for it in result.checks}
        assert reasons["nan"] == NO_NUMBER
        assert str(reasons["not-promql"]).startswith('HTTP 400: {"status":"error","errorType":"bad_data"')
        assert not result.passed

"""The page that Prometheus reads: what is on it, and who may."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect

from dragoman.hub.permissions import LOCAL
from dragoman.server.serve import Server
from tests.hub.rig import until

from .asking import Answer, get, serving

ELSEWHERE = "192.0.2.1"
TOKEN = {"authorization": "Bearer s3cret"}


def values(page: str) -> dict[str, float]:
    """Each sample by its name and labels, as they stand on the page."""
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


async def ask(server: Server, *, peer: str = "127.0.0.1", **headers: str) -> Answer:
    assert server._application is not None
    return await get(server._application, "/metrics", peer=peer, **headers)


async def run(server: Server, folder: Path, script: str) -> None:
    """One turn of a scripted session, to its end."""
    session = await server.registry.create(LOCAL, kind="scripted", cwd=str(folder))
    await session.start(LOCAL)
    await session.submit(LOCAL, script, via="test")
    await until(lambda: not session.shown.turn and not session.shown.queue)


async def test_what_is_on_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        await run(server, tmp_path, 'tool bash {"command": "sk-live-0a1b"}\nsay sk-live-0a1b')
        await run(server, tmp_path, "fail sk-live-0a1b")
        async with connect(server.addresses()["hub"], proxy=None):
            page = await ask(server)
        found = values(page.text)
    assert page.status == 200
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert found["dragoman_turns_total{agent=unknown,kind=scripted,outcome=completed}"] == 1
    assert found["dragoman_turns_total{agent=unknown,kind=scripted,outcome=failed}"] == 1
    assert found["dragoman_turn_duration_seconds_count{kind=scripted}"] == 2
    assert found["dragoman_turn_duration_seconds_bucket{kind=scripted,le=+Inf}"] == 2
    assert found["dragoman_tool_calls_total{status=ok,tool=bash}"] == 1
    assert found["dragoman_events_total{type=turn.started}"] == 2
    assert found["dragoman_journal_latency_seconds_count"] > 6
    assert found["dragoman_links_open{dialect=hub}"] == 1
    assert found["dragoman_links_total{dialect=hub}"] == 1
    assert found["dragoman_sessions_loaded"] == 2
    assert found["dragoman_journal_writable"] == 1
    assert found["process_resident_memory_bytes"] > 0
    assert "sk-live-0a1b" not in page.text
    assert str(tmp_path) not in page.text


async def test_a_closed_link_is_no_longer_open(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        assert server._application is not None
        async with connect(server.addresses()["hub"], proxy=None):
            pass
        await until(lambda: server._application is not None and not server._application.links)
        found = values((await ask(server)).text)
        assert (found["dragoman_links_open{dialect=hub}"], found["dragoman_links_total{dialect=hub}"]) == (0, 1)


async def test_requests_are_counted_by_dialect_and_kind_of_answer(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        assert server._application is not None
        await get(server._application, "/hub/sessions")
        await get(server._application, "/hub/nothing")
        found = values((await ask(server)).text)
        assert found["dragoman_http_requests_total{dialect=hub,status=2xx}"] == 1
        assert found["dragoman_http_requests_total{dialect=hub,status=4xx}"] == 1


async def test_openmetrics_for_who_asks_for_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        page = await ask(server, accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert page.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert page.text.endswith("# EOF\n")


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain;version=abc",
        "text/plain; version = 1.x",
        "application/openmetrics-text;version=",
        "application/openmetrics-text;version=99999999999999999999.x.y",
        'text/plain;version="0.0.4";escaping=nonsense;q=zz',
        ";;;===,,,",
    ],
)
async def test_a_header_that_makes_no_sense_asks_for_the_plain_page(tmp_path: Path, accept: str) -> None:
    async with serving(tmp_path) as server:
        page = await ask(server, accept=accept)
    assert page.status == 200
    assert "9999" not in page.headers["content-type"]


async def test_many_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        pages = await asyncio.gather(*(ask(server) for _ in range(20)))
    assert {page.status for page in pages} == {200}


@pytest.mark.parametrize(
    ("readers", "token", "local", "local_with", "remote", "remote_with"),
    [
        ("local", "s3cret", 200, 200, 401, 200),
        ("token", "s3cret", 401, 200, 401, 200),
        ("anyone", "s3cret", 200, 200, 200, 200),
        ("token", None, 200, 200, 200, 200),  # nothing but loopback is bound without one
    ],
)
async def test_who_may_read_it(
    tmp_path: Path, readers: str, token: str | None, local: int, local_with: int, remote: int, remote_with: int
) -> None:
    async with serving(tmp_path, server={"token": token}, observability={"metrics_readers": readers}) as server:
        assert (await ask(server)).status == local
        assert (await ask(server, **TOKEN)).status == local_with
        assert (await ask(server, peer=ELSEWHERE)).status == remote
        assert (await ask(server, peer=ELSEWHERE, **TOKEN)).status == remote_with
        assert (await ask(server, peer=ELSEWHERE, authorization="Bearer wrong")).status == remote


async def test_it_can_be_left_out(tmp_path: Path) -> None:
    async with serving(tmp_path, observability={"metrics": False}) as server:
        assert (await ask(server)).status == 404


async def test_the_end_of_the_server_waits_for_no_collector(tmp_path: Path) -> None:
    """Nobody listens at that address; a turn and the end of the server take what they take without it."""
    pytest.importorskip("opentelemetry.sdk.trace", reason="the extra otel is not installed")
    watched = {"enabled": True, "otlp_endpoint": "http://127.0.0.1:9", "export": {"every": 0.01}}
    async with serving(tmp_path, observability=watched) as server:
        await run(server, tmp_path, "say hello")
        found = values((await ask(server)).text)
        assert found["dragoman_turns_total{agent=unknown,kind=scripted,outcome=completed}"] == 1
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 2.0


def test_a_start_loads_no_library_for_it() -> None:
    """They take longer to load than the server takes to start."""
    late = ("prometheus_client", "opentelemetry", "aiohttp", "requests")
    program = f"import sys, dragoman.server.serve; print([name for name in {late} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"

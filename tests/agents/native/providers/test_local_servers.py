"""Model servers on this machine: found by what they answer; what answers anything else is not there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from dragoman.agents.native.providers.local_servers import ANSWER_BYTES, LocalServer, LocalServers

from .web import Reply, Web, models, web


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as made:
        yield made


def looking(*urls: str, seconds: float = 5.0, **more: Any) -> LocalServers:
    return LocalServers(urls, seconds=seconds, cache_seconds=60.0, **more)


async def found(site: Web, seconds: float = 5.0) -> LocalServer | None:
    servers = await looking(f"{site.url}/v1", seconds=seconds).find()
    return servers[0] if servers else None


@pytest.mark.parametrize(
    ("replies", "server", "kind"),
    [
        ({"/v1/models": models("a", owner="vllm")}, "uvicorn", "vllm"),
        ({"/v1/models": models("a", owner="llamacpp")}, "", "llamacpp"),
        ({"/v1/models": models("a")}, "llama.cpp", "llamacpp"),
        ({"/v1/models": models("a", owner="library")}, "", "ollama"),
        ({"/v1/models": models("me/a", owner="me"), "/api/version": (200, {"version": "0.9"})}, "", "ollama"),
        (
            {"/v1/models": (200, {"object": "list", "data": None}), "/api/version": (200, {"version": "1"})},
            "",
            "ollama",
        ),
        ({"/v1/models": models("a", owner="organization_owner")}, "", "lmstudio"),
        ({"/v1/models": models("a"), "/api/v0/models": (200, {"data": []})}, "", "lmstudio"),
        ({"/v1/models": models("a"), "/api/version": (200, ["no"])}, "", "local"),
        ({"/v1/models": models("a"), "/api/version": None}, "", "local"),
    ],
)
async def test_programs_are_told_apart(replies: dict[str, Reply], server: str, kind: str) -> None:
    async with web(replies, server=server) as site:
        seen = await found(site, seconds=0.5 if None in replies.values() else 5.0)
    assert seen is not None
    assert seen.kind == kind
    assert seen.base_url == f"{site.url}/v1"


async def test_models_come_in_the_servers_order_with_what_they_take_and_without_what_cannot_talk() -> None:
    listed = [
        {"id": "b", "max_model_len": 32768},
        {"id": "a", "meta": {"n_ctx": 4096}},
        {"id": "nomic-embed-text:latest"},
        {"id": "b"},
        {"id": 7},
        {"id": ""},
        {"id": "x\x1b[31m"},
        {"id": "long" * 100},
        {"id": "c", "max_model_len": -1, "meta": 5},
        "nonsense",
    ]
    async with web({"/v1/models": (200, {"data": listed})}) as site:
        seen = await found(site)
    assert seen is not None
    assert [(model.id, model.context_window) for model in seen.models] == [("b", 32768), ("a", 4096), ("c", 0)]


@pytest.mark.parametrize(
    "reply",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"\x00\xff" * 4000,
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/v1/models\r\nContent-Length: 0\r\n\r\n",
        (404, {"data": []}),
        (500, {"data": []}),
        (200, []),
        (200, {"data": {}}),
        (200, {"models": []}),
        (200, {"data": ["x" * ANSWER_BYTES]}),
        (200, None),
    ],
)
async def test_what_answers_anything_else_is_not_there(reply: Reply) -> None:
    async with web({"/v1/models": reply}) as site:
        assert await found(site) is None


async def test_deeply_nested_json_is_no_answer() -> None:
    body = b'{"data":' + b"[" * 100_000
    async with web({"/v1/models": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body}) as site:
        assert await found(site) is None


async def test_all_are_asked_at_once(stack: AsyncExitStack) -> None:
    sites = [await stack.enter_async_context(web({"/v1/models": models("a", owner="vllm")})) for _ in range(3)]
    answer = asyncio.Event()
    for site in sites:
        site.delay = answer
    looks = asyncio.create_task(looking(*(f"{site.url}/v1" for site in sites)).find())
    while not all(site.asked for site in sites):
        await asyncio.sleep(0)
    answer.set()
    assert [server.port for server in await looks] == [site.port for site in sites]


async def test_one_that_hangs_costs_its_limit_and_hides_no_other(stack: AsyncExitStack) -> None:
    mute = await stack.enter_async_context(web({"/v1/models": None}))
    good = await stack.enter_async_context(web({"/v1/models": models("a", owner="vllm")}))
    with socket.socket() as unanswered:
        unanswered.bind(("127.0.0.1", 0))
        unanswered.listen(0)
        port = unanswered.getsockname()[1]
        servers = looking(
            f"http://127.0.0.1:{port}/v1", f"{mute.url}/v1", "http://127.0.0.1:1/v1", f"{good.url}/v1", seconds=0.5
        )
        seen = await servers.find()
    assert [server.base_url for server in seen] == [f"{good.url}/v1"]
    assert mute.paths == ["/v1/models"]


async def test_what_was_found_holds_for_a_while_and_is_asked_for_once() -> None:
    clock = 100.0
    async with web({"/v1/models": models("a", owner="vllm")}) as site:
        servers = LocalServers([f"{site.url}/v1"], seconds=5.0, cache_seconds=5.0, now=lambda: clock)
        results = await asyncio.gather(*(servers.find() for _ in range(5)))
        assert {len(seen) for seen in results} == {1}
        assert len(site.asked) == 1
        site.replies = {}
        clock += 4.9
        assert len(await servers.find()) == 1
        clock += 0.2
        assert await servers.find() == ()
        assert len(site.asked) == 2


async def test_whoever_waits_for_a_look_that_was_cancelled_looks_itself() -> None:
    async with web({"/v1/models": models("a", owner="vllm")}) as site:
        site.delay = asyncio.Event()
        servers = looking(f"{site.url}/v1")
        first = asyncio.create_task(servers.find())
        second = asyncio.create_task(servers.find())
        while not site.asked:
            await asyncio.sleep(0)
        first.cancel()
        site.delay.set()
        assert len(await second) == 1
        with pytest.raises(asyncio.CancelledError):
            await first


def test_nothing_but_this_machine_is_asked() -> None:
    urls = ["http://192.168.0.9:11434/v1", "http://example.org/v1", "ftp://127.0.0.1/", "http://localhost:5/v1/"]
    servers = looking(*urls, "http://localhost:5/v1", "http://127.9.9.9:6/v1", "http://[::1]:7/v1")
    assert servers.urls == ("http://localhost:5/v1", "http://127.9.9.9:6/v1", "http://[::1]:7/v1")
    assert servers.ports == {5, 6, 7}


async def test_a_server_is_shown_its_own_key_and_no_other() -> None:
    async with web({"/v1/models": models("a", owner="vllm")}) as keyed, web() as other:
        url = f"{keyed.url}/v1"
        servers = looking(url, f"{other.url}/v1", key=lambda asked: "its-key" if asked == url else None)
        await servers.find()
    assert keyed.asked[0][1]["authorization"] == "Bearer its-key"
    assert "authorization" not in other.asked[0][1]

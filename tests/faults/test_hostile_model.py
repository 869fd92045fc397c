"""A model server that means harm, behind a real server: others stay quick, and the key stays where it is."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from .process import Served
from .test_abuse import CALM, worst_answer
from .test_soak import MIB, descriptors, resident

KEY = "sk-planted-0123456789-abcdefghijklmnop"
SOON = 1.0
"""Seconds that a cancel may take."""


def events(*deltas: dict[str, Any]) -> bytes:
    chunks = ({"choices": [{"index": 0, "delta": delta}]} for delta in deltas)
    return b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks)


DONE = events({"content": "fine"}) + b"data: [DONE]\n\n"


def of_calls(n: int) -> bytes:
    calls = ({"index": n + k, "id": f"c{n + k}", "function": {"name": "glob", "arguments": "{}"}} for k in range(100))
    return events(*({"tool_calls": [call]} for call in calls))


def of_details(n: int) -> bytes:
    details = ({"type": "reasoning.text", "index": n + k, "text": "x"} for k in range(100))
    return events(*({"reasoning_details": [detail]} for detail in details))


def for_ever(piece: bytes) -> Iterator[bytes]:
    return (piece for _ in count())


STREAMS: dict[str, Callable[[], Iterator[bytes]]] = {
    "words": lambda: for_ever(events(*[{"content": "ab "}] * 200)),
    "thoughts and words": lambda: for_ever(events(*[{"reasoning_content": "a"}, {"content": "b"}] * 100)),
    "calls": lambda: (of_calls(n) for n in count(step=100)),
    "details": lambda: (of_details(n) for n in count(step=100)),
    "nothing": lambda: for_ever(events(*[{}] * 200)),
    "comments": lambda: for_ever(b": still here\n\n" * 1000),
    "lines": lambda: for_ever(b"data:\n" * 10_000),
    "one line": lambda: for_ever(b"data: " + b"x" * 65536),
}


@asynccontextmanager
async def model_server(answer: Callable[[], Iterator[bytes]], status: str = "200 OK") -> AsyncIterator[str]:
    """Answers every question with these pieces, until whoever asked has had enough; its base URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET"):  # which models it has
                body = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
                return
            writer.write(f"HTTP/1.1 {status}\r\nContent-Type: text/event-stream\r\n\r\n".encode())
            for piece in answer():
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@asynccontextmanager
async def serving(folder: Path, url: str) -> AsyncIterator[tuple[Served, str]]:
    """A server whose native sessions are answered by that model server, and one such session."""
    config = folder / "config.toml"
    config.write_text(
        f"""[log]
level = "debug"
[native]
provider = "house"
local_servers = []
[native.turn]
retry_first = 0.01
[native.providers.house]
api = "openai-chat"
base_url = "{url}"
models = ["m"]
"""
    )
    served = Served(folder / "server", "--config", str(config))
    await served.start()
    try:
        await served.asked("PUT", "/providers/house/key", {"key": KEY})
        asked = {"kind": "native", "cwd": str(folder)}
        yield served, (await served.asked("POST", "/sessions", asked))["session"]
    finally:
        served.kill()


async def turn(served: Served, session: str, *, seconds: float) -> dict[str, Any]:
    """Run one turn, cancelled if it takes longer than that; its end."""
    turn = (await served.asked("POST", f"/sessions/{session}/prompts", {"text": "hello"}))["turn"]
    began = time.monotonic()
    while True:
        page = await served.asked("GET", f"/sessions/{session}/events?limit=10")
        for fact in (event["fact"] for event in page["events"]):
            if fact["type"] == "turn.ended" and fact["turn"] == turn:
                end: dict[str, Any] = fact
                return end
        if time.monotonic() - began > seconds:
            asked = time.monotonic()
            status, answer = await asyncio.to_thread(served.ask, "POST", f"/sessions/{session}/cancel", {"turn": turn})
            assert status == 200 or answer["error"]["code"] == "unknown_turn", "it may have ended by itself"
            assert time.monotonic() - asked < SOON
        await asyncio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
async def test_an_answer_without_end_costs_a_bounded_amount_and_delays_no_one(tmp_path: Path, name: str) -> None:
    answers = iter([iter([DONE])])

    def answer() -> Iterator[bytes]:
        return next(answers, None) or STREAMS[name]()

    async with (
        model_server(answer) as url,
        serving(tmp_path, url) as (served, session),
    ):
        assert (await turn(served, session, seconds=20))["outcome"] == "completed"  # what is imported late is there
        memory, open_before, stop = resident(served.pid), descriptors(served.pid), asyncio.Event()
        waiting = asyncio.create_task(worst_answer(served, stop))
        end = await turn(served, session, seconds=4)
        stop.set()
        assert end["outcome"] == "cancelled" or end["problem"]["code"] == "provider_failed"
        assert await waiting < CALM
        assert resident(served.pid) - memory < 128 * MIB
        assert descriptors(served.pid) <= open_before + 2
        assert "Traceback" not in served.log.read_text()


FORMS = {
    "in an error": ("401 Unauthorized", f"Incorrect API key provided: {KEY}, that is {KEY[:14]}... or {KEY[-16:]}"),
    "in what the model says": ("200 OK", events({"content": f"it is {KEY}"}).decode() + "data: [DONE]\n\n"),
    "in a call": (
        "200 OK",
        events({"tool_calls": [{"index": 0, "id": KEY, "function": {"name": KEY, "arguments": KEY}}]}).decode()
        + "data: [DONE]\n\n",
    ),
    "in an error of the stream": ("200 OK", f'data: {{"error":{{"message":"{KEY}","code":"{KEY}"}}}}\n\n'),
}


@pytest.mark.parametrize("form", FORMS)
async def test_a_key_that_the_model_server_repeats_is_nowhere_but_in_its_file(tmp_path: Path, form: str) -> None:
    status, said = FORMS[form]
    said_once = iter([said.encode()])
    async with (
        model_server(lambda: iter([next(said_once, DONE)]), status) as url,
        serving(tmp_path, url) as (served, session),
    ):
        await turn(served, session, seconds=20)
        shown = json.dumps([await served.whole_log(session), await served.asked("GET", f"/sessions/{session}")])
        assert KEY[:12] not in shown
        served.stop()
        for file in served.folder.rglob("*"):
            if file.is_file() and "keys" not in file.parts:
                assert KEY[:12].encode() not in file.read_bytes(), file.name
        await served.start()

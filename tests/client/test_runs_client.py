"""A server of runs that answers oddly: its worker is told so, as of a server that cannot now, and never breaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from dragoman.client.errors import Refused
from dragoman.client.windie_worker import RunsClient
from dragoman.client.windie_worker.runs import is_passing

RUN = {"run_id": "r", "conversation_ref": "c", "query": "q", "files": [], "metadata": {}}
EVENT = {"seq": 1, "event_type": "x"}


@pytest.fixture
async def answering() -> AsyncIterator[Callable[[object], Any]]:
    """Starts a server that gives every request this answer; returns a client of it."""
    servers = []

    async def start(answer: object) -> RunsClient:
        body = json.dumps(answer).encode()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n")
            writer.write(b"content-length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        servers.append(server)
        return RunsClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "key")

    yield start
    for server in servers:
        server.close()


ODD_NAMES = (1, "", "\x1b[2J", "a\nb", "r" * 513)

ODD_BEATS = [
    {},
    {"assigned_run": None},
    {"assigned_run": None, "control_commands": 7},
    {"assigned_run": None, "control_commands": ["x", None]},
    {"assigned_run": None, "control_commands": [{"action": "stop"}]},
    {"assigned_run": "r", "control_commands": []},
    {"assigned_run": {"x": 1}, "control_commands": []},
    *(
        {"assigned_run": {**RUN, "run_id": name}, "control_commands": []}
        for name in (1, "", "\x1b[2J", "a\nb", "r" * 513)
    ),
    *({"assigned_run": {**RUN, key: 7}, "control_commands": []} for key in RUN),
    {"assigned_run": {**RUN, "files": ["x"]}, "control_commands": []},
]

ODD_ACTS = [{}, {"run": {}}, {"run": 1, "latest_event": EVENT}, {"run": {}, "latest_event": {"seq": "1"}}]


@pytest.mark.parametrize("answer", ODD_BEATS, ids=lambda answer: json.dumps(answer)[:60])
async def test_an_odd_answer_to_a_heartbeat_is_none(answer: object, answering: Any) -> None:
    client = await answering(answer)
    with pytest.raises(Refused, match="not one of a server of runs") as refused:
        await client.heartbeat({})
    assert is_passing(refused.value)


@pytest.mark.parametrize("answer", ODD_ACTS, ids=json.dumps)
async def test_an_odd_answer_to_what_a_worker_tells_is_none(answer: object, answering: Any) -> None:
    client = await answering(answer)
    for call in (client.dispatched("r", {}), client.relay("r", {})):
        with pytest.raises(Refused, match="not one of a server of runs"):
            await call


async def test_what_is_no_event_is_passed_over(answering: Any) -> None:
    client = await answering({"events": [1, {}, {"seq": "1"}, {"seq": True}, EVENT]})
    assert await client.events("r") == [EVENT]


async def test_right_answers_are_given_as_they_are(answering: Any) -> None:
    beaten = {"assigned_run": RUN, "control_commands": [{"run_id": "r", "action": "stop"}]}
    assert await (await answering(beaten)).heartbeat({}) == beaten
    acted = {"run": {}, "latest_event": EVENT}
    client = await answering(acted)
    assert [await client.dispatched("r", {}), await client.relay("r", {})] == [acted, acted]

"""Clients that are broken or mean harm: what they get is typed and short, and costs nobody anything."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus

from dragoman.dialects.coworker.harness_fields import PAYLOAD_BYTES

from .conftest import MakeServer
from .rig import Coworker, Frame, raw_link, script

LONG = "x" * (5 * 1024 * 1024)
"""Longer than anything that a reply may repeat, and than a prompt may be."""

REPLY = 6000
"""Bytes of a reply that repeats what is too long."""

CONTEXT = {"objective": "o", "acceptanceCriteria": [], "constraints": []}
CHECK = {"type": "custom", "queryType": "logql", "query": "q", "op": "<", "threshold": 1, "windowSec": 1}


async def asked(socket: ClientConnection, session: str, *messages: dict[str, Any]) -> list[Frame]:
    """Send them, and hear until nothing more is said of them: each is answered once."""
    for message in messages:
        await socket.send(json.dumps({"sessionId": session, **message}))
    heard: list[Frame] = []
    async with asyncio.timeout(20):
        while len(heard) < len(messages):
            frame = json.loads(await socket.recv())
            if frame["type"] in ("error", "log", "features"):
                heard.append(frame)
    return heard


@pytest.mark.parametrize(
    "message",
    [
        {"type": "ask_response", "requestId": LONG, "answer": ""},
        {"type": "approval_response", "requestId": LONG, "approved": True},
        {"type": "execute_command", "name": LONG},
        {"type": "read_skill", "skillName": LONG},
        {"type": "enable_skill", "skillName": LONG},
        {"type": "disable_skill", "skillName": LONG},
        {"type": "delete_skill", "skillName": LONG},
        {"type": "session_backup_restore", "checkpointId": LONG},
        {"type": "session_backup_delete_checkpoint", "checkpointId": LONG},
        {"type": "user_message", "text": LONG},
        {"type": "user_message", "text": "hi", "clientMessageId": LONG},
        {"type": "execute_command", "name": "init", "arguments": "hi", "clientMessageId": LONG},
        {"type": "set_model", "model": LONG},
        {"type": "harness_context_set", "context": {"runId": LONG, **CONTEXT}},
        {"type": "observability_query", "query": {"queryType": "logql", "query": LONG}},
        {"type": "harness_slo_evaluate", "checks": [{"id": LONG, **CHECK}]},
        {"type": "provider_auth_set_api_key", "provider": "openai", "methodId": "api_key", "apiKey": LONG},
    ],
    ids=lambda message: "-".join((message["type"], *list(message)[-1:])),
)
async def test_what_is_too_long_is_not_repeated(served: Coworker, message: dict[str, Any]) -> None:
    """Invariant 5: a reply that is as long as a message breaks the bound of a link that does not read."""
    async with raw_link(served.url) as socket:
        session = json.loads(await socket.recv())["sessionId"]
        (reply,) = await asked(socket, session, message)
        assert len(json.dumps(reply)) < REPLY
        if reply["type"] == "error":
            assert reply["code"] in ("validation_failed", "backup_error", "provider_error"), reply


async def test_payloads_are_taken_up_to_their_limit(served: Coworker) -> None:
    context = {"runId": "r", **CONTEXT, "metadata": {"long": "x" * (PAYLOAD_BYTES - 1000)}}
    async with served.client() as link:
        kept = await link.client.set_harness_context(context)
        assert kept is not None
        assert kept["metadata"] == context["metadata"]


async def test_an_answer_is_no_longer_than_a_prompt(served: Coworker) -> None:
    async with raw_link(served.url) as socket:
        session = json.loads(await socket.recv())["sessionId"]
        question = script('call ask {"question":"Which?"}', "say done")
        await socket.send(json.dumps({"type": "user_message", "sessionId": session, "text": question}))
        while (frame := json.loads(await socket.recv()))["type"] != "ask":
            pass
        answer = {"type": "ask_response", "requestId": frame["requestId"]}
        (refused,) = [one for one in await asked(socket, session, {**answer, "answer": LONG}) if one["type"] == "error"]
        assert (refused["code"], refused["source"]) == ("validation_failed", "session")
        await socket.send(json.dumps({**answer, "sessionId": session, "answer": "this"}))
        async with asyncio.timeout(20):
            while json.loads(await socket.recv()) != {"type": "session_busy", "sessionId": session, "busy": False}:
                pass


@pytest.mark.parametrize("query", ["after=1", "after=999999", "features=resume&after=999999"])
async def test_a_cursor_without_its_session_is_refused_and_makes_none(make_server: MakeServer, query: str) -> None:
    served = await make_server()
    with pytest.raises(InvalidStatus) as refused:
        async with raw_link(f"{served.url}?{query}"):
            pass
    assert refused.value.response.status_code == 400
    assert (await served.asked("GET", "/sessions"))["sessions"] == []


async def test_features_that_are_asked_for_in_a_turn_never_name_an_earlier_cursor(served: Coworker) -> None:
    """Who went back to it would be told twice what stands before it."""
    hello = json.dumps({"type": "client_hello", "client": "late", "features": ["resume"]})
    async with raw_link(served.url) as socket:
        session = json.loads(await socket.recv())["sessionId"]
        turn = {"type": "user_message", "sessionId": session, "text": script("deltas 20000")}
        await socket.send(json.dumps(turn))
        cursors: list[tuple[str, int]] = []
        async with asyncio.timeout(60):
            while (frame := json.loads(await socket.recv())).get("busy", True):
                if frame["type"] == "model_stream_chunk" and frame["index"] % 1000 == 0:
                    await socket.send(hello)
                if "cursor" in frame:
                    cursors.append((frame["type"], frame["cursor"]))
        assert [kind for kind, _ in cursors].count("features") > 5
        for (_, before), (kind, cursor) in itertools.pairwise(cursors):
            assert cursor >= before, f"{kind} {cursor} behind {before}"


async def test_a_link_that_is_behind_in_a_log_that_was_dropped_is_ended(make_server: MakeServer) -> None:
    """It would wait for the rest for ever."""
    served = await make_server()
    async with raw_link(served.url, max_queue=1) as socket:
        session = json.loads(await socket.recv())["sessionId"]
        text = script("deltas 60000")
        await socket.send(json.dumps({"type": "user_message", "sessionId": session, "text": text}))
        async with asyncio.timeout(60):
            while (await served.asked("GET", f"/sessions/{session}"))["seq"] < 60_000:
                await asyncio.sleep(0.1)
        await served.asked("POST", f"/sessions/{session}/close", {})
        await served.asked("DELETE", f"/sessions/{session}")
        async with asyncio.timeout(20):
            async for _ in socket:
                pass
        assert (socket.close_code, socket.close_reason) == (1001, "the session is gone")

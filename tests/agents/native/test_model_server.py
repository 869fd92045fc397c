"""The scripted model server: one script is the same answer on every API, and bad requests are refused."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from .model_server import ModelServer, serving
from .model_server.heard import User
from .model_server.script import Answer, Failure, Gate, Say, Think, say, use

PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}
HEADERS = {"anthropic-version": "2023-06-01"}


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with serving() as server:
        yield server


def body(api: str, text: str = "Hi") -> dict[str, Any]:
    user = {"role": "user", "content": text}
    return {
        "openai-chat": {
            "model": "m",
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "system", "content": "Be kind."}, user],
        },
        "openai-responses": {"model": "m", "stream": True, "instructions": "Be kind.", "input": [user]},
        "anthropic": {"model": "m", "stream": True, "max_tokens": 9, "system": "Be kind.", "messages": [user]},
        "gemini": {
            "systemInstruction": {"parts": [{"text": "Be kind."}]},
            "contents": [{"role": "user", "parts": [{"text": text}]}],
        },
    }[api]


async def post(server: ModelServer, api: str, given: dict[str, Any]) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as http,
        http.post(server.url + PATHS[api], json=given, headers=HEADERS) as answer,
    ):
        return answer.status, await answer.text()


@pytest.mark.parametrize("api", PATHS)
async def test_it_says_its_script_and_keeps_what_it_was_asked(server: ModelServer, api: str) -> None:
    server.script(Answer((Think(("Hm",)), Say(("Hel", "lo")), use("look", {"a": 1}, id="call_1"))))
    status, text = await post(server, api, body(api))
    assert status == 200, text
    assert all(it in text for it in ("Hm", "Hel", "look", "call_1"))
    asked = server.journal[0].asked
    assert (asked.system, asked.messages, asked.model) == ("Be kind.", (User("Hi"),), "m")
    assert server.violations == []


@pytest.mark.parametrize("api", PATHS)
async def test_a_named_script_is_chosen_by_the_newest_text(server: ModelServer, api: str) -> None:
    server.named["wave"] = (say("Waves."),)
    _, text = await post(server, api, body(api, "Please [[script:wave]]"))
    assert "Waves." in text
    assert server.journal[0].script == "wave"


@pytest.mark.parametrize("api", PATHS)
async def test_a_failure_has_the_api_s_own_form_and_a_time_to_come_back(server: ModelServer, api: str) -> None:
    server.script(Failure("rate_limited", "Slow down.", retry_after=7))
    status, text = await post(server, api, body(api))
    assert status == 429
    assert json.loads(text)["error"]["message"] == "Slow down."


BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "a call without result": (
        "openai-chat",
        {
            "messages": [
                {"role": "user", "content": "Hi"},
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}],
                },
                {"role": "user", "content": "And?"},
            ]
        },
    ),
    "a result without call": (
        "openai-responses",
        {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
    ),
    "two results of one call": (
        "openai-responses",
        {
            "input": [
                {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "x"},
                {"type": "function_call_output", "call_id": "c", "output": "x"},
            ]
        },
    ),
    "a result after text": (
        "anthropic",
        {
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "t", "input": {}}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Look"},
                        {"type": "tool_result", "tool_use_id": "c", "content": "x"},
                    ],
                },
            ]
        },
    ),
    "an empty text block": ("anthropic", {"messages": [{"role": "user", "content": [{"type": "text", "text": " "}]}]}),
    "a signature of somebody else": (
        "anthropic",
        {
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": "b"}]},
                {"role": "user", "content": "Hi"},
            ]
        },
    ),
    "a call unanswered": (
        "gemini",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Hi"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "t", "args": {}}}]},
                {"role": "user", "parts": [{"text": "Hi"}]},
            ]
        },
    ),
    "no parts": ("gemini", {"contents": [{"role": "user", "parts": []}]}),
    "an empty assistant message": (
        "openai-chat",
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]},
    ),
}


@pytest.mark.parametrize("what", BAD)
async def test_what_the_real_api_would_refuse_is_refused(server: ModelServer, what: str) -> None:
    api, change = BAD[what]
    server.script(say("Never said."))
    status, text = await post(server, api, {**body(api), **change})
    assert status == 400
    assert json.loads(text)["error"]["message"] == server.violations[0]
    assert "malformed request" not in server.violations[0]


@pytest.mark.parametrize("api", PATHS)
async def test_a_cut_stream_ends_without_its_end(server: ModelServer, api: str) -> None:
    server.script(Answer((Say(("one", "two", "three")),), cut_after=2))
    with pytest.raises(aiohttp.ClientPayloadError):
        await post(server, api, body(api))


async def test_a_stream_waits_at_a_gate_and_ends_when_its_client_leaves(server: ModelServer) -> None:
    server.script(say("one", Gate("g"), "two"), say("one", Gate("h"), "two"))
    first = asyncio.create_task(post(server, "anthropic", body("anthropic")))
    await server.gates["g"].reached.wait()
    server.gates["g"].open()
    assert "two" in (await first)[1]
    second = asyncio.create_task(post(server, "anthropic", body("anthropic")))
    await server.gates["h"].reached.wait()
    second.cancel()
    await asyncio.wait_for(server.journal[1].left.wait(), 5)


async def test_as_a_process_it_tells_its_port_takes_scripts_and_shows_its_journal() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.agents.native.model_server", "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        port = json.loads(await process.stdout.readline())["port"]
        server = ModelServer()
        server.url = f"http://127.0.0.1:{port}"
        async with aiohttp.ClientSession() as http:
            await http.put(f"{server.url}/scripts/s", data=msgspec.json.encode([say("Read from JSON.")]))
            _, text = await post(server, "openai-chat", body("openai-chat", "[[script:s]]"))
            assert "Read from JSON." in text
            async with http.get(f"{server.url}/journal") as answer:
                entries = await answer.json()
            assert entries[0]["heard"]["messages"] == [{"type": "user", "text": "[[script:s]]", "pictures": []}]
    finally:
        process.terminate()
        assert await process.wait() == 0

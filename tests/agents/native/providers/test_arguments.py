"""Whatever a model writes for a call's arguments, every API takes the conversation that has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("pydantic_ai")

from pydantic_ai.messages import ModelResponse, NativeToolCallPart

from dragoman.agents.native.calls import shown_input
from dragoman.agents.native.model_call import Answer, call_model
from dragoman.agents.native.providers.conversation import (
    AssistantMessage,
    Call,
    Message,
    ModelRequest,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from dragoman.agents.native.providers.openai_chat import OpenAIChat
from dragoman.agents.native.providers.openai_responses import OpenAIResponses
from dragoman.agents.native.providers.port import CallMade, Provider, ProviderFailed, StreamEvent
from dragoman.agents.native.providers.pydantic import PydanticAI
from dragoman.agents.native.providers.pydantic.endings import resumed
from dragoman.agents.native.settings import NativeSettings, TurnLimits
from tests.agents.native.model_server import ModelServer, serving
from tests.agents.native.model_server.heard import Assistant
from tests.agents.native.model_server.script import Answer as Scripted
from tests.agents.native.model_server.script import Use, say

from .played import Play, playing, sse

MODELS = {
    "anthropic": "claude-sonnet-5",
    "google": "gemini-2.5-pro",
    "openai-chat": "gpt-4.1",
    "openai-responses": "gpt-5",
    "our openai-chat": "gpt-4.1",
    "our openai-responses": "gpt-5",
}
LOOK = ToolSpec("look", "Look at a file.", {"type": "object", "properties": {"path": {"type": "string"}}})

DEEP = 5000
WRITTEN = [
    *("", " ", "{}", '{"path": "a"}', ' {"path":\n"a"} ', '{"path": "a", "path": "b"}', '{"": {"": []}}'),
    *("null", "true", "3", "-0.0", '"text"', "[]", "[1, {}]", "text", "{", '{"path": "a', '{"path": oops}', "{}{}"),
    *("NaN", "Infinity", '{"path": "a", "offset": NaN}', '{"offset": -Infinity}', '{"a": [{"b": Infinity}]}'),
    *('{"a": 1e999}', '{"a": ' + "9" * 400 + "}", '{"a": -' + "9" * 30 + "}", '{"a": 1e-999}'),
    *("[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, '{"a":' * 100 + "1" + "}" * 100, "[" * DEEP),
    *('{"a": "\\ud800"}', '{"\\udfff": 1}', '"\\ud83d"', '{"a": "\\ud83d\\ude00"}', '{"a": "\ud800"}', "\udfff"),
    *('{"a": "\\u0000"}', '{"a": "\x00"}', "\x00", '{"a": "\u2028"}', "{'a': 1}", '{"a": 1,}', "{a: 1}"),
    *('{"INVALID_JSON": "x"}', '{"input": NaN}', '{"a": "<|end|>"}', "\ufeff{}"),
]

ODD = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = (
    ODD.map(json.dumps)
    | st.dictionaries(st.text(max_size=3), ODD, max_size=3).map(json.dumps)
    | st.text(st.characters(exclude_categories=()), max_size=12)
    | st.text(st.sampled_from('{}[]",:\\ud8e0NaInfity-. '), max_size=20)
)


def provider_of(way: str, server: ModelServer) -> Provider:
    api: Any = way.removeprefix("our ")
    base_url = server.base_url("gemini" if api == "google" else api)
    if api == way:
        return PydanticAI("vendor", api, key="sk-0123456789abcdef", base_url=base_url, settings=NativeSettings())
    ours = OpenAIChat if api == "openai-chat" else OpenAIResponses
    return ours(name="vendor", base_url=base_url, key="sk-0123456789abcdef", settings=NativeSettings())


@asynccontextmanager
async def reaching(way: str) -> AsyncIterator[tuple[Provider, ModelServer]]:
    async with serving() as server:
        provider = provider_of(way, server)
        try:
            yield provider, server
        finally:
            await provider.close()


async def asked(provider: Provider, way: str, *messages: Message) -> Answer:
    answer = Answer(provider.name)

    async def take(event: StreamEvent) -> None:
        answer.take(event)

    request = ModelRequest(model=MODELS[way], system="Be kind.", messages=messages, tools=(LOOK,), web_search=True)
    await call_model(provider, request, TurnLimits(retries=0), on_event=take, on_retry=lambda *_: None)
    return answer


def pieces(text: str) -> tuple[str, ...]:
    """In two, if there is so much of it."""
    half = len(text) // 2
    return tuple(piece for piece in (text[:half], text[half:]) if piece)


async def called(provider: Provider, way: str, server: ModelServer, text: str) -> Sequence[CallMade]:
    """What becomes of a call with this text; nothing where the API has no such calls."""
    server.script(Scripted((Use("look", pieces(text), "call_1"),)))
    try:
        return (await asked(provider, way, UserMessage("Look."))).calls
    except ProviderFailed:
        assert way == "google", "only Google fails an answer for its arguments"
        return []


async def goes_back(provider: Provider, way: str, server: ModelServer, text: str) -> None:
    made = await called(provider, way, server, text)
    given = [shown_input(it.arguments) for it in made]
    if not made:
        given = [shown_input(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))]  # made elsewhere
    call = Call("call_1", "look", given[0], made[0].metadata if made else None)
    said = AssistantMessage((call,), "vendor" if made else "another")
    server.script(say("Fine."))
    await asked(provider, way, UserMessage("Look."), said, ToolMessage("call_1", "look", "no", failed=True))
    assert server.violations == [], text[:80]
    entry = server.journal[-1]
    json.dumps(entry.body, allow_nan=False, ensure_ascii=False).encode()
    (again,) = [it for message in entry.asked.messages if isinstance(message, Assistant) for it in message.calls]
    wanted = given[0] if isinstance(given[0], dict) else {} if given[0] is None else {"input": given[0]}
    assert msgspec.json.decode(again.arguments) == wanted


@pytest.mark.parametrize("way", MODELS)
async def test_any_arguments_that_a_model_wrote_go_back_to_it(way: str) -> None:
    async with reaching(way) as (provider, server):
        for text in WRITTEN:
            await goes_back(provider, way, server, text)


@pytest.mark.parametrize("way", MODELS)
@settings(
    max_examples=3, phases=[Phase.generate], deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(written=st.lists(ARGUMENTS, min_size=10, max_size=30))
def test_any_arguments_whatever_go_back(way: str, written: list[str]) -> None:
    async def run() -> None:
        async with reaching(way) as (provider, server):
            for text in written:
                await goes_back(provider, way, server, text)

    asyncio.run(run())


@pytest.mark.parametrize("way", MODELS)
async def test_calls_with_one_id_have_ids_of_their_own(way: str) -> None:
    async with reaching(way) as (provider, server):
        server.script(
            Scripted(tuple(Use("look", (json.dumps({"path": str(number)}),), "call_1") for number in range(3)))
        )
        answer = await asked(provider, way, UserMessage("Look."))
        assert [json.loads(it.arguments) for it in answer.calls] == [{"path": str(number)} for number in range(3)]
        assert len({it.call for it in answer.calls}) == 3


def test_what_a_paused_answer_held_as_text_goes_back_as_json() -> None:
    written = ['{"query": NaN}', '{"query": "\ud800"}', '{"query": "tea"}', "", "[1]"]
    said = ModelResponse(parts=[NativeToolCallPart("web_search", text, "call_1") for text in written])
    (again,) = resumed([said])
    arguments = [part.args for part in again.parts if isinstance(part, NativeToolCallPart)]
    assert arguments == [
        {"input": '{"query": NaN}'},
        {"input": '{"query": "\ufffd"}'},
        {"query": "tea"},
        {},
        {"input": [1]},
    ]


@pytest.mark.parametrize("given", [{}, {"id": None}, {"id": ""}])
async def test_calls_without_an_id_have_ids_of_their_own(given: dict[str, Any]) -> None:
    calls = [
        {"index": at, **given, "type": "function", "function": {"name": "look", "arguments": "{}"}} for at in range(2)
    ]
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    said = {**head, "choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": None}]}
    end = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    async with playing(Play([sse(said, end, done=True)])) as server:
        provider = PydanticAI("vendor", "openai-chat", key="sk-0123456789abcdef", base_url=server.url)
        try:
            answer = await asked(provider, "openai-chat", UserMessage("Look."))
        finally:
            await provider.close()
    assert all(it.call for it in answer.calls)
    assert len({it.call for it in answer.calls}) == 2

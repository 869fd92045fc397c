"""A bare client behind a bare server: ``python -m bench.models.bare HOW MODELS-URL``

A link's message ``{"api", "model"}`` makes a model call, and each delta of its answer is a frame on that link; the last
frame is ``{"end":true}``. Nothing is kept. HOW is ``least`` (aiohttp, our own event parser, msgspec), ``sdk`` (the
vendor's package), ``pydantic-ai`` (the adapter of ours that uses it) or ``library`` (pydantic-ai by itself).
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import msgspec
import uvloop

from bench.bare.terminal import Send, serve
from dragoman.agents.native.providers.conversation import ModelRequest, UserMessage
from dragoman.agents.native.providers.port import PartGrew
from dragoman.agents.native.providers.sse import SseParser

Ask = Callable[[str, str], AsyncIterator[str]]
"""API and model in; texts out."""

PROMPT = "count"
END = b'{"end":true}'
PLACES = {"openai-chat": "chat/completions", "openai-responses": "responses"}


class Delta(msgspec.Struct):
    """A frame."""

    type: str
    text: str


class App:
    """The ASGI application."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        if scope["type"] != "websocket":
            return
        await receive()
        await send({"type": "websocket.accept"})
        async with asyncio.TaskGroup() as calls:
            while (message := await receive())["type"] != "websocket.disconnect":
                calls.create_task(self._call(json.loads(message["text"]), send))

    async def _call(self, asked: dict[str, str], send: Send) -> None:
        encode = msgspec.json.Encoder().encode
        async for text in self._ask(asked["api"], asked["model"]):
            await send({"type": "websocket.send", "bytes": encode(Delta("delta", text))})
        await send({"type": "websocket.send", "bytes": END})

    def end(self) -> None:
        """Nothing to end."""


def least(url: str) -> Ask:
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    decode = msgspec.json.Decoder().decode

    async def ask(api: str, model: str) -> AsyncIterator[str]:
        parser = SseParser()
        async with session.post(f"{url}/v1/{PLACES[api]}", json={"model": model, "stream": True}) as response:
            while chunk := await response.content.readany():
                for event in parser.feed(chunk):
                    text = _text(decode(event.data)) if event.data != b"[DONE]" else None
                    if text:
                        yield text

    return ask


def _text(said: dict[str, Any]) -> str | None:
    """What either of OpenAI's APIs says in an event."""
    if choices := said.get("choices"):
        content: str | None = choices[0]["delta"].get("content")
        return content
    return said["delta"] if said.get("type") == "response.output_text.delta" else None


def sdk(url: str) -> Ask:
    """The vendors' packages, imported when asked for: together they take seconds."""
    clients: dict[str, Any] = {}

    def openai() -> Any:
        import openai  # noqa: PLC0415

        return openai.AsyncOpenAI(api_key="none", base_url=f"{url}/v1")

    def anthropic() -> Any:
        import anthropic  # noqa: PLC0415

        return anthropic.AsyncAnthropic(api_key="none", base_url=url)

    def google() -> Any:
        from google import genai  # noqa: PLC0415

        return genai.Client(api_key="none", http_options={"base_url": url})

    makers = {"openai-chat": openai, "openai-responses": openai, "anthropic": anthropic, "google": google}

    async def ask(api: str, model: str) -> AsyncIterator[str]:
        client = clients.get(api) or clients.setdefault(api, makers[api]())
        async for text in _SDK[api](client, model):
            yield text

    return ask


async def _sdk_chat(client: Any, model: str) -> AsyncIterator[str]:
    stream = await client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": PROMPT}], stream=True
    )
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            yield chunk.choices[0].delta.content


async def _sdk_responses(client: Any, model: str) -> AsyncIterator[str]:
    async for event in await client.responses.create(model=model, input=PROMPT, stream=True):
        if event.type == "response.output_text.delta":
            yield event.delta


async def _sdk_anthropic(client: Any, model: str) -> AsyncIterator[str]:
    messages = [{"role": "user", "content": PROMPT}]
    async for event in await client.messages.create(model=model, messages=messages, max_tokens=1000, stream=True):
        if event.type == "content_block_delta":
            yield event.delta.text


async def _sdk_google(client: Any, model: str) -> AsyncIterator[str]:
    async for chunk in await client.aio.models.generate_content_stream(model=model, contents=PROMPT):
        if chunk.text:
            yield chunk.text


_SDK: dict[str, Callable[[Any, str], AsyncIterator[str]]] = {
    "openai-chat": _sdk_chat,
    "openai-responses": _sdk_responses,
    "anthropic": _sdk_anthropic,
    "google": _sdk_google,
}


def pydantic_ai(url: str) -> Ask:
    from dragoman.agents.native.providers.pydantic import PydanticAI  # noqa: PLC0415  large, and an extra

    providers: dict[str, Any] = {}

    async def ask(api: Any, model: str) -> AsyncIterator[str]:
        base = f"{url}/v1" if api.startswith("openai") else url
        provider = providers.get(api) or providers.setdefault(api, PydanticAI("bench", api, key="none", base_url=base))
        async for event in provider.stream(ModelRequest(model=model, system="", messages=(UserMessage(PROMPT),))):
            if isinstance(event, PartGrew):
                yield event.text

    return ask


def library(url: str) -> Ask:
    """The library as its own documentation has it, for OpenAI's APIs."""
    from pydantic_ai.direct import model_request_stream  # noqa: PLC0415  large, and an extra
    from pydantic_ai.messages import ModelRequest as Asked  # noqa: PLC0415
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta  # noqa: PLC0415
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    provider = OpenAIProvider(api_key="none", base_url=f"{url}/v1")
    makers: dict[str, Any] = {"openai-chat": OpenAIChatModel, "openai-responses": OpenAIResponsesModel}

    async def ask(api: str, model: str) -> AsyncIterator[str]:
        asked = [Asked.user_text_prompt(PROMPT)]
        async with model_request_stream(makers[api](model, provider=provider), asked) as events:
            async for event in events:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart) and event.part.content:
                    yield event.part.content
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    yield event.delta.content_delta

    return ask


async def main() -> None:
    how, url = sys.argv[1:]
    await serve(App({"least": least, "sdk": sdk, "pydantic-ai": pydantic_ai, "library": library}[how](url)))


if __name__ == "__main__":
    uvloop.run(main())

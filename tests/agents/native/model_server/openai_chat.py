"""OpenAI Chat Completions."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from . import openai_errors
from .api import Event, new_id
from .heard import Assistant, Called, Heard, Json, Message, Picture, Result, Said, Thought, Tool, User, demand, picture
from .playback import Playback
from .script import Answer, Failure, Gate, Say, Search, Think, Usage, Use

_ROLES = {"system", "developer", "user", "assistant", "tool"}


class OpenAIChat:
    """See the module. Thoughts are given as local servers give them, in ``reasoning_content``."""

    name = "openai-chat"

    def hear(self, body: Json, headers: dict[str, str], model: str) -> Heard:
        demand(body.get("stream") is True, "only streaming is scripted")
        demand((body.get("stream_options") or {}).get("include_usage"), "usage must be asked for")
        messages = body["messages"]
        for message in messages:
            _check(message)
        system = [_text(it["content"]) for it in messages if it["role"] in {"system", "developer"}]
        return Heard(
            model=body["model"],
            system="\n\n".join(system),
            messages=tuple(_message(it) for it in messages if it["role"] not in {"system", "developer"}),
            tools=tuple(_tool(it["function"]) for it in body.get("tools", [])),
            web_search=bool(body.get("web_search_options")),
            reasoning="reasoning_effort" in body,
            max_output_tokens=body.get("max_completion_tokens", body.get("max_tokens")),
        )

    async def speak(self, answer: Answer, heard: Heard, playback: Playback) -> AsyncIterator[Event]:
        head: Json = {
            "id": new_id("chatcmpl"),
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": heard.model,
        }

        def chunk(delta: Json, finish: str | None = None) -> Event:
            return "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        yield chunk({"role": "assistant", "content": ""})
        calls = 0
        for part in answer.parts:
            if isinstance(part, Gate):
                await playback.hold(part)
                continue
            if isinstance(part, Use):
                async for delta in _call_deltas(part, calls, playback):
                    yield chunk(delta)
                calls += 1
                continue
            for key, pieces in _texts(part):
                async for piece in playback.pieces(pieces):
                    yield chunk({key: piece})
        playback.end()
        if answer.broken is not None:
            yield "", {"error": {"message": answer.broken.message, "type": "server_error", "param": None, "code": None}}
            return
        yield chunk({}, "stop" if answer.finished == "pause" else answer.finished)
        if answer.usage is not None:
            yield "", {**head, "choices": [], "usage": _usage(answer.usage)}
        yield "", "[DONE]"

    def refuse(self, failure: Failure) -> tuple[int, Json]:
        return openai_errors.refuse(failure)


def _texts(part: Say | Think | Search) -> Iterator[tuple[str, tuple[Any, ...]]]:
    if isinstance(part, Search):
        yield "content", (part.text,)
    else:
        yield "content" if isinstance(part, Say) else "reasoning_content", part.pieces


async def _call_deltas(part: Use, index: int, playback: Playback) -> AsyncIterator[Json]:
    head = {"id": part.id or new_id("call"), "type": "function", "function": {"name": part.tool, "arguments": ""}}
    yield {"tool_calls": [{"index": index, **head}]}
    async for piece in playback.pieces(part.arguments):
        yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _check(message: Json) -> None:
    role = message.get("role")
    demand(role in _ROLES, f"Invalid value: {role!r}")
    content = message.get("content")
    if role == "assistant":
        demand(content or message.get("tool_calls"), "assistant message needs 'content' or 'tool_calls'")
        demand(message.get("tool_calls") != [], "empty array 'tool_calls'")
    else:
        demand(isinstance(content, str | list), f"content of {role} must be text or parts")
        demand(content != [], f"content of {role} is an empty array")


def _text(content: str | list[Json] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part["text"] for part in content if part["type"] in {"text", "refusal"})


def _message(message: Json) -> Message:
    content = message.get("content")
    if message["role"] == "tool":
        demand(isinstance(content, str) or all(it["type"] == "text" for it in content or []), "tools give only text")
        return Result(message["tool_call_id"], _text(content))
    if message["role"] == "user":
        return User(_text(content), tuple(_pictures(content)))
    return Assistant(tuple(_parts(message)))


def _pictures(content: str | list[Json] | None) -> Iterator[Picture]:
    for part in content if isinstance(content, list) else []:
        if part["type"] == "image_url":
            yield picture(part["image_url"]["url"])


def _parts(message: Json) -> Iterator[Said | Thought | Called]:
    if thought := message.get("reasoning_content"):
        yield Thought(thought, "")
    if said := _text(message.get("content")):
        yield Said(said)
    for call in message.get("tool_calls") or []:
        demand(isinstance(call["function"]["arguments"], str), "arguments must be text")
        yield Called(call["id"], call["function"]["name"], call["function"]["arguments"])


def _tool(function: Json) -> Tool:
    return Tool(function["name"], function.get("description", ""), function["parameters"])

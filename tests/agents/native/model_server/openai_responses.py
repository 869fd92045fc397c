"""OpenAI Responses."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from . import openai_errors
from .api import Event, new_id
from .heard import (
    Assistant,
    Called,
    Heard,
    Json,
    Message,
    Picture,
    Result,
    Said,
    Thought,
    Tool,
    User,
    demand,
    picture,
    sign,
    signed_by,
)
from .playback import Playback
from .script import Answer, Failure, Gate, Part, Say, Search, Think, Usage, Use, joined

_BY_MODEL = {"message", "reasoning", "function_call", "web_search_call"}
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class OpenAIResponses:
    """See the module."""

    name = "openai-responses"

    def hear(self, body: Json, headers: dict[str, str], model: str) -> Heard:
        demand(body.get("stream") is True, "only streaming is scripted")
        given = body["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        system = [body.get("instructions") or ""]
        system += [_text(it["content"]) for it in items if it.get("role") in {"system", "developer"}]
        tools = body.get("tools", [])
        return Heard(
            model=body["model"],
            system="\n\n".join(filter(None, system)),
            messages=tuple(_messages(it for it in items if it.get("role") not in {"system", "developer"})),
            tools=tuple(_tool(it) for it in tools if it["type"] == "function"),
            web_search=any(it["type"].startswith("web_search") for it in tools),
            reasoning=bool((body.get("reasoning") or {}).get("summary")),
            max_output_tokens=body.get("max_output_tokens"),
        )

    async def speak(self, answer: Answer, heard: Heard, playback: Playback) -> AsyncIterator[Event]:
        numbers = itertools.count()

        def event(kind: str, **more: Any) -> Event:
            return kind, {"type": kind, "sequence_number": next(numbers), **more}

        head = _head(heard.model)
        yield event("response.created", response={**head, "status": "in_progress", "output": []})
        output: list[Json] = []
        for part in _told(answer.parts):
            if isinstance(part, Gate):
                await playback.hold(part)
                continue
            index = len(output)
            item: Json = {}
            async for kind, more in _item_events(part, index, playback):
                item = more.get("item", item)
                yield event(f"response.{kind}", **more)
            output.append(item)
        playback.end()
        status, more = _end(answer)
        usage = _usage(answer.usage) if answer.usage is not None else None
        yield event(f"response.{status}", response={**head, "status": status, "output": output, "usage": usage, **more})

    def refuse(self, failure: Failure) -> tuple[int, Json]:
        return openai_errors.refuse(failure)


def _head(model: str) -> Json:
    return {
        "id": new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "model": model,
        "error": None,
        "incomplete_details": None,
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "usage": None,
    }


def _end(answer: Answer) -> tuple[str, Json]:
    if answer.broken is not None:
        return "failed", {"error": {"code": "server_error", "message": answer.broken.message}}
    if reason := _INCOMPLETE.get(answer.finished):
        return "incomplete", {"incomplete_details": {"reason": reason}}
    return "completed", {}


def _told(parts: tuple[Part, ...]) -> Iterator[Part]:
    """A search is followed by a message of its own."""
    for part in parts:
        yield part
        if isinstance(part, Search):
            yield Say((part.text,))


async def _item_events(
    part: Say | Think | Use | Search, index: int, playback: Playback
) -> AsyncIterator[tuple[str, Json]]:
    if isinstance(part, Say):
        events = _message_events(part, index, playback)
    elif isinstance(part, Think):
        events = _reasoning_events(part, index, playback)
    elif isinstance(part, Use):
        events = _call_events(part, index, playback)
    else:
        events = _search_events(part, index)
    async for event in events:
        yield event


async def _message_events(part: Say, index: int, playback: Playback) -> AsyncIterator[tuple[str, Json]]:
    item: Json = {"type": "message", "id": new_id("msg"), "role": "assistant", "status": "in_progress", "content": []}
    place = {"item_id": item["id"], "output_index": index, "content_index": 0}
    content = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    yield "output_item.added", {"output_index": index, "item": item}
    yield "content_part.added", {**place, "part": content}
    async for piece in playback.pieces(part.pieces):
        yield "output_text.delta", {**place, "delta": piece, "logprobs": []}
    text = joined(part.pieces)
    whole = {**content, "text": text}
    yield "output_text.done", {**place, "text": text, "logprobs": []}
    yield "content_part.done", {**place, "part": whole}
    yield "output_item.done", {"output_index": index, "item": {**item, "status": "completed", "content": [whole]}}


async def _reasoning_events(part: Think, index: int, playback: Playback) -> AsyncIterator[tuple[str, Json]]:
    text = joined(part.pieces)
    item: Json = {"type": "reasoning", "id": new_id("rs"), "summary": [], "encrypted_content": ""}
    place = {"item_id": item["id"], "output_index": index, "summary_index": 0}
    yield "output_item.added", {"output_index": index, "item": item}
    yield "reasoning_summary_part.added", {**place, "part": {"type": "summary_text", "text": ""}}
    async for piece in playback.pieces(part.pieces):
        yield "reasoning_summary_text.delta", {**place, "delta": piece}
    summary = {"type": "summary_text", "text": text}
    yield "reasoning_summary_text.done", {**place, "text": text}
    yield "reasoning_summary_part.done", {**place, "part": summary}
    done = {**item, "summary": [summary], "encrypted_content": sign("openai-responses", text)}
    yield "output_item.done", {"output_index": index, "item": done}


async def _call_events(part: Use, index: int, playback: Playback) -> AsyncIterator[tuple[str, Json]]:
    item: Json = {
        "type": "function_call",
        "id": new_id("fc"),
        "call_id": part.id or new_id("call"),
        "name": part.tool,
        "arguments": "",
        "status": "in_progress",
    }
    place = {"item_id": item["id"], "output_index": index}
    yield "output_item.added", {"output_index": index, "item": item}
    async for piece in playback.pieces(part.arguments):
        yield "function_call_arguments.delta", {**place, "delta": piece}
    text = joined(part.arguments)
    yield "function_call_arguments.done", {**place, "arguments": text}
    yield "output_item.done", {"output_index": index, "item": {**item, "arguments": text, "status": "completed"}}


async def _search_events(part: Search, index: int) -> AsyncIterator[tuple[str, Json]]:
    sources = [{"type": "url", "url": url} for url in part.urls]
    action = {"type": "search", "query": part.query, "queries": [part.query], "sources": sources}
    item: Json = {"type": "web_search_call", "id": new_id("ws"), "status": "in_progress"}
    place = {"item_id": item["id"], "output_index": index}
    yield "output_item.added", {"output_index": index, "item": item}
    for state in ("in_progress", "searching", "completed"):
        yield f"web_search_call.{state}", place
    yield "output_item.done", {"output_index": index, "item": {**item, "status": "completed", "action": action}}


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


def _messages(items: Iterator[Json]) -> Iterator[Message]:
    """Items that the model gave stand for one message as long as they follow each other."""
    for by_model, group in itertools.groupby(items, _by_model):
        if by_model:
            entries = list(group)
            _check_reasoning(entries)
            yield Assistant(tuple(part for entry in entries for part in _parts(entry)))
        else:
            yield from map(_message, group)


def _by_model(item: Json) -> bool:
    return item.get("type", "message") in _BY_MODEL and item.get("role", "assistant") == "assistant"


def _check_reasoning(items: list[Json]) -> None:
    kinds = [item.get("type", "message") for item in items]
    demand(kinds[-1] != "reasoning", "Item of type 'reasoning' was provided without its required following item.")
    ids = [item["id"] for item in items if item.get("id")]
    demand(len(set(ids)) == len(ids), f"Duplicate item found with id {ids}.")


def _message(item: Json) -> Message:
    kind = item.get("type", "message")
    if kind == "function_call_output":
        return Result(item["call_id"], _text(item["output"]), pictures=tuple(_pictures(item["output"])))
    demand(kind == "message" and item.get("role") == "user", f"Invalid item: {kind} of {item.get('role')}")
    demand(item["content"] != [], "content is an empty array")
    return User(_text(item["content"]), tuple(_pictures(item["content"])))


def _text(content: str | list[Json]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(it["text"] for it in content if it["type"] in {"input_text", "output_text", "text"})


def _pictures(content: str | list[Json]) -> Iterator[Picture]:
    for part in content if isinstance(content, list) else []:
        if part["type"] == "input_image":
            yield picture(part["image_url"])


def _parts(item: Json) -> Iterator[Said | Thought | Called]:
    kind = item.get("type", "message")
    if kind == "reasoning":
        signature = item.get("encrypted_content") or ""
        demand(
            not signature or signed_by("openai-responses", signature), "The encrypted content could not be verified."
        )
        yield Thought("\n".join(it["text"] for it in item["summary"]), signature)
    elif kind == "function_call":
        demand(isinstance(item["arguments"], str), "arguments must be text")
        yield Called(item["call_id"], item["name"], item["arguments"])
    elif kind == "message":
        demand(item["content"] not in ("", []), "content of an assistant message is empty")
        yield Said(_text(item["content"]))


def _tool(tool: Json) -> Tool:
    return Tool(tool["name"], tool.get("description", ""), tool["parameters"])

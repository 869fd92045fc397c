"""Anthropic Messages."""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec

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
    sign,
)
from .playback import Playback
from .script import Answer, Failure, Fault, Finish, Gate, Say, Search, Think, Usage, Use, joined

_FAULTS: dict[Fault, tuple[int, str]] = {
    "unauthorized": (401, "authentication_error"),
    "forbidden": (403, "permission_error"),
    "rate_limited": (429, "rate_limit_error"),
    "overloaded": (529, "overloaded_error"),
    "server": (500, "api_error"),
    "too_long": (400, "invalid_request_error"),
    "invalid": (400, "invalid_request_error"),
}
_STOPS: dict[Finish, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "pause": "pause_turn",
}
_ID = re.compile(r"[a-zA-Z0-9_-]+")


class Anthropic:
    """See the module."""

    name = "anthropic"

    def hear(self, body: Json, headers: dict[str, str], model: str) -> Heard:
        demand(body.get("stream") is True, "only streaming is scripted")
        demand("anthropic-version" in headers, "anthropic-version: header is required")
        demand(isinstance(body.get("max_tokens"), int), "max_tokens: Field required")
        _check_thinking(body)
        messages = [{**it, "content": _blocks(it["content"])} for it in body["messages"]]
        _check_messages(messages)
        tools = body.get("tools", [])
        return Heard(
            model=body["model"],
            system="\n\n".join(it["text"] for it in _blocks(body.get("system") or [])),
            messages=tuple(_messages(messages)),
            tools=tuple(_tool(it) for it in tools if "input_schema" in it),
            web_search=any(it.get("type", "").startswith("web_search") for it in tools),
            reasoning=(body.get("thinking") or {}).get("type") in {"enabled", "adaptive"},
            max_output_tokens=body["max_tokens"],
        )

    async def speak(self, answer: Answer, heard: Heard, playback: Playback) -> AsyncIterator[Event]:
        def event(kind: str, **more: Any) -> Event:
            return kind, {"type": kind, **more}

        usage = answer.usage or Usage(0, 0)
        yield event("message_start", message=_head(heard.model, usage))
        yield event("ping")
        blocks = itertools.count()
        for part in answer.parts:
            if isinstance(part, Gate):
                await playback.hold(part)
                continue
            async for kind, more in _part_events(part, blocks, playback):
                yield event(kind, **more)
        playback.end()
        if answer.broken is not None:
            yield event("error", error={"type": "api_error", "message": answer.broken.message})
            return
        delta = {"stop_reason": _STOPS[answer.finished], "stop_sequence": None}
        yield event("message_delta", delta=delta, usage={"output_tokens": usage.output})
        yield event("message_stop")

    def refuse(self, failure: Failure) -> tuple[int, Json]:
        status, kind = _FAULTS[failure.fault]
        error = {"type": kind, "message": failure.message}
        return status, {"type": "error", "error": error, "request_id": new_id("req")}


def _head(model: str, usage: Usage) -> Json:
    return {
        "id": new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input - usage.cached - usage.written,
            "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": usage.written,
            "output_tokens": 1,
        },
    }


async def _part_events(
    part: Say | Think | Use | Search, blocks: Iterator[int], playback: Playback
) -> AsyncIterator[tuple[str, Json]]:
    if isinstance(part, Search):
        for block in _search_blocks(part):
            index = next(blocks)
            yield "content_block_start", {"index": index, "content_block": block}
            yield "content_block_stop", {"index": index}
        part = Say((part.text,))
    index = next(blocks)
    start, kind, key, pieces = _block(part)
    yield "content_block_start", {"index": index, "content_block": start}
    async for piece in playback.pieces(pieces):
        yield "content_block_delta", {"index": index, "delta": {"type": kind, key: piece}}
    if isinstance(part, Think):
        delta = {"type": "signature_delta", "signature": sign("anthropic", joined(pieces))}
        yield "content_block_delta", {"index": index, "delta": delta}
    yield "content_block_stop", {"index": index}


def _block(part: Say | Think | Use) -> tuple[Json, str, str, tuple[Any, ...]]:
    """How a block starts, and the type, the key and the pieces of its deltas."""
    if isinstance(part, Say):
        return {"type": "text", "text": ""}, "text_delta", "text", part.pieces
    if isinstance(part, Think):
        return {"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", part.pieces
    start = {"type": "tool_use", "id": part.id or new_id("toolu"), "name": part.tool, "input": {}}
    return start, "input_json_delta", "partial_json", part.arguments


def _search_blocks(part: Search) -> Iterator[Json]:
    call = new_id("srvtoolu")
    yield {"type": "server_tool_use", "id": call, "name": "web_search", "input": {"query": part.query}}
    found = [
        {"type": "web_search_result", "url": url, "title": url, "encrypted_content": "eA==", "page_age": None}
        for url in part.urls
    ]
    yield {"type": "web_search_tool_result", "tool_use_id": call, "content": found}


def _blocks(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _check_thinking(body: Json) -> None:
    thinking = body.get("thinking") or {}
    if thinking.get("type") != "enabled":
        return
    demand(thinking["budget_tokens"] >= 1024, "thinking.enabled.budget_tokens: must be at least 1024")
    demand(thinking["budget_tokens"] < body["max_tokens"], "max_tokens must be greater than thinking.budget_tokens")
    demand(body.get("temperature", 1) == 1, "temperature may only be set to 1 when thinking is enabled")


def _check_messages(messages: list[Json]) -> None:
    demand(messages and messages[0]["role"] == "user", "messages: first message must use the user role")
    for number, message in enumerate(messages):
        demand(message["role"] in {"user", "assistant"}, f"messages.{number}: role {message['role']!r}")
        demand(message["content"], f"messages.{number}: all messages must have non-empty content")
        for block in message["content"]:
            _check_block(block, f"messages.{number}")
        kinds = [block["type"] for block in message["content"]]
        last = max((at for at, kind in enumerate(kinds) if kind == "tool_result"), default=-1)
        demand(set(kinds[: last + 1]) <= {"tool_result"}, f"messages.{number}: tool_result blocks must come first")
    paused = any(block["type"] == "server_tool_use" for block in messages[-1]["content"])
    demand(messages[-1]["role"] == "user" or paused, "This model does not support assistant message prefill.")


def _check_block(block: Json, where: str) -> None:
    if block["type"] == "text":
        demand(block["text"].strip(), f"{where}: text content blocks must contain non-whitespace text")
    elif block["type"] == "thinking":
        good = block.get("signature") == sign("anthropic", block["thinking"])
        demand(good, f"{where}: Invalid `signature` in `thinking` block")
    elif block["type"] == "tool_use":
        demand(_ID.fullmatch(block["id"]), f"{where}: tool_use.id does not match the pattern")
        demand(isinstance(block["input"], dict), f"{where}: tool_use.input: Input should be a valid dictionary")
    elif block["type"] == "tool_result":
        content = block.get("content")
        for inner in content if isinstance(content, list) else []:
            _check_block(inner, where)


def _messages(messages: list[Json]) -> Iterator[Message]:
    """Messages of one role that follow each other are one to this API."""
    for role, group in itertools.groupby(messages, lambda it: it["role"]):
        blocks = [block for message in group for block in message["content"]]
        if role == "assistant":
            yield Assistant(tuple(part for block in blocks for part in _part(block)))
            continue
        yield from (_result(block) for block in blocks if block["type"] == "tool_result")
        rest = [block for block in blocks if block["type"] != "tool_result"]
        if rest:
            yield User(_text(rest), tuple(_pictures(rest)))


def _text(blocks: list[Json]) -> str:
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


def _pictures(blocks: list[Json]) -> Iterator[Picture]:
    for block in blocks:
        if block["type"] == "image":
            yield Picture(block["source"]["media_type"], base64.b64decode(block["source"]["data"]))


def _part(block: Json) -> Iterator[Said | Thought | Called]:
    if block["type"] == "text":
        yield Said(block["text"])
    elif block["type"] == "thinking":
        yield Thought(block["thinking"], block["signature"])
    elif block["type"] == "tool_use":
        yield Called(block["id"], block["name"], msgspec.json.encode(block["input"]).decode())


def _result(block: Json) -> Result:
    content = _blocks(block.get("content") or [])
    failed = bool(block.get("is_error"))
    return Result(block["tool_use_id"], _text(content), failed, pictures=tuple(_pictures(content)))


def _tool(tool: Json) -> Tool:
    return Tool(tool["name"], tool.get("description", ""), tool["input_schema"])

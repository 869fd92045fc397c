"""A scripted model behind the APIs of the real ones, and a journal of all that it was asked: the tests' side channel.

``python -m tests.e2e.model_server --port 0`` prints one JSON line with its port. What it says is chosen by a directive
in the newest text of the user (see ``model_script``). ``GET /journal`` is a list of every request, oldest first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import socket
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from .model_script import Act, Asked, Call, Fail, Item, Say, act, asked

Json = dict[str, Any]

_WORDS = re.compile(r"\S+\s*|\s+")
_ARGUMENT_PIECE = 40


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Journal:
    """Every request, in the order of arrival."""

    def __init__(self) -> None:
        self.entries: list[Json] = []

    def note(self, api: str, request: Request, **more: Any) -> Json:
        """Begin an entry; the answer completes it."""
        entry: Json = {
            "at": now(),
            "api": api,
            "method": request.method,
            "path": request.url.path,
            "begin": None,
            "end": None,
            "cancelled": False,
            **more,
        }
        self.entries.append(entry)
        return entry

    def note_model(self, api: str, request: Request, body: Json, question: Asked, does: Act) -> Json:
        return self.note(
            api,
            request,
            model=body.get("model"),
            stream=bool(body.get("stream")),
            user_text=question.user_text,
            tools_count=len(question.tools),
            tools=list(question.tools),
            is_tool_result=bool(question.results),
            tool_results=list(question.results),
            did=_describe(does),
        )


JOURNAL = Journal()


def _describe(does: Act) -> str:
    if isinstance(does, Call):
        return "call " + ", ".join(call.tool for call in does.all)
    return f"fail {does.status}" if isinstance(does, Fail) else f"say {does.text[:60]}"


def _id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex[:20]}"


def _words(text: str) -> list[str]:
    return _WORDS.findall(text) or [""]


def _pieces(text: str) -> Iterator[str]:
    yield from (text[at : at + _ARGUMENT_PIECE] for at in range(0, len(text), _ARGUMENT_PIECE))


def _text_of(content: Any) -> str:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else json.dumps(content)
    return "\n".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))


def _answer(entry: Json, body: Json, status: int = 200) -> Response:
    entry["begin"] = entry["end"] = now()
    return JSONResponse(body, status)


async def _recorded(events: AsyncIterator[tuple[str, Any]], entry: Json) -> AsyncIterator[str]:
    """Events as server-sent ones, with the journal told when they began, ended or were cut off."""
    entry["begin"] = now()
    try:
        async for name, data in events:
            text = data if isinstance(data, str) else json.dumps(data)
            yield (f"event: {name}\n" if name else "") + f"data: {text}\n\n"
    except (asyncio.CancelledError, GeneratorExit):
        entry["cancelled"] = True
        raise
    finally:
        entry["end"] = now()


def _stream(events: AsyncIterator[tuple[str, Any]], entry: Json) -> Response:
    headers = {"cache-control": "no-cache", "request-id": _id("req")}
    return StreamingResponse(_recorded(events, entry), media_type="text/event-stream", headers=headers)


# Anthropic Messages


def _anthropic_items(messages: Iterable[Json]) -> Iterator[Item]:
    for message in messages:
        if message["role"] == "assistant":
            yield Item("model")
        elif message["role"] == "user":
            content = message["content"]
            for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                if block.get("type") == "tool_result":
                    yield Item("result", _text_of(block.get("content")))
                elif block.get("type") == "text":
                    yield Item("text", block["text"])


async def anthropic(request: Request) -> Response:
    body = await request.json()
    tools = [tool.get("name", "") for tool in body.get("tools", [])]
    schema = json.dumps(body.get("output_config") or body.get("output_format") or {})
    question = asked(
        list(_anthropic_items(body.get("messages", []))),
        tools,
        schema=schema if "schema" in schema else "",
        whole=json.dumps(body),
    )
    does = act(question)
    entry = JOURNAL.note_model("anthropic", request, body, question, does)
    if isinstance(does, Fail):
        error = {"type": "error", "error": {"type": "api_error", "message": "scripted failure"}}
        return _answer(entry, error, does.status)
    head: Json = {
        "id": _id("msg"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 1},
    }
    if body.get("stream"):
        return _stream(_anthropic_events(head, does), entry)
    if isinstance(does, Say):
        blocks: list[Json] = [{"type": "text", "text": does.text}]
    else:
        blocks = [_tool_use(call, call.arguments) for call in does.all]
    stop = "end_turn" if isinstance(does, Say) else "tool_use"
    return _answer(entry, {**head, "content": blocks, "stop_reason": stop})


def _tool_use(call: Call, arguments: Json) -> Json:
    return {"type": "tool_use", "id": _id("toolu"), "name": call.tool, "input": arguments}


async def _anthropic_events(head: Json, does: Say | Call) -> AsyncIterator[tuple[str, Any]]:
    def event(kind: str, **more: Any) -> tuple[str, Any]:
        return kind, {"type": kind, **more}

    said = does if isinstance(does, Say) else Say("I will use a tool.", 0)
    yield event("message_start", message=head)
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for word in _words(said.text):
        yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
        await asyncio.sleep(said.pause)
    yield event("content_block_stop", index=0)
    for index, call in enumerate(does.all if isinstance(does, Call) else (), 1):
        yield event("content_block_start", index=index, content_block=_tool_use(call, {}))
        for piece in _pieces(json.dumps(call.arguments)):
            yield event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": piece})
        yield event("content_block_stop", index=index)
    stop = "end_turn" if isinstance(does, Say) else "tool_use"
    yield event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 25})
    yield event("message_stop")


async def anthropic_count(request: Request) -> Response:
    body = await request.body()
    return _answer(JOURNAL.note("count", request), {"input_tokens": len(body) // 4 + 1})


# OpenAI Responses


def _responses_items(entries: Iterable[Json]) -> Iterator[Item]:
    for entry in entries:
        kind = entry.get("type", "message")
        if kind.endswith("_call_output"):
            yield Item("result", _text_of(entry.get("output")))
        elif kind == "message" and entry.get("role") == "user":
            yield Item("text", _text_of(entry.get("content")))
        elif kind == "message" and entry.get("role") == "assistant":
            yield Item("model")


def _responses_tools(tools: Iterable[Json]) -> Iterator[str]:
    for tool in tools:
        if tool.get("type") == "namespace":
            inner = list(_responses_tools(tool.get("tools", [])))
            yield from inner
            yield from (f"{tool['name']}.{name}" for name in inner)
        yield tool.get("name") or tool.get("type", "")


async def responses(request: Request) -> Response:
    body = await request.json()
    given = body.get("input", [])
    items = [Item("text", given)] if isinstance(given, str) else list(_responses_items(given))
    schema = (body.get("text") or {}).get("format") or {}
    question = asked(
        items,
        list(_responses_tools(body.get("tools", []))),
        schema=json.dumps(schema) if schema.get("type") == "json_schema" else "",
        whole=json.dumps(body),
    )
    does = act(question)
    entry = JOURNAL.note_model("responses", request, body, question, does)
    if isinstance(does, Fail):
        return _answer(entry, {"error": {"message": "scripted failure", "type": "server_error"}}, does.status)
    head: Json = {"id": _id("resp"), "object": "response", "created_at": now() // 1000, "model": body.get("model")}
    if body.get("stream"):
        return _stream(_responses_events(head, does), entry)
    return _answer(entry, _response_done(head, _response_items(does)))


def _response_items(does: Say | Call) -> list[Json]:
    return [_response_item(one) for one in (does.all if isinstance(does, Call) else (does,))]


def _response_item(does: Say | Call) -> Json:
    if isinstance(does, Say):
        content = [{"type": "output_text", "text": does.text, "annotations": []}]
        return {"type": "message", "id": _id("msg"), "role": "assistant", "status": "completed", "content": content}
    namespace, _, name = does.tool.rpartition(".")
    common = {"call_id": _id("call"), "name": name, "status": "completed"}
    if namespace:
        common["namespace"] = namespace
    if does.raw is not None:
        return {"type": "custom_tool_call", "id": _id("ctc"), "input": does.raw, **common}
    return {"type": "function_call", "id": _id("fc"), "arguments": json.dumps(does.arguments), **common}


def _response_done(head: Json, items: list[Json]) -> Json:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 25,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 125,
    }
    return {**head, "status": "completed", "output": items, "usage": usage}


async def _responses_events(head: Json, does: Say | Call) -> AsyncIterator[tuple[str, Any]]:
    number = iter(range(1_000_000))

    def event(kind: str, **more: Any) -> tuple[str, Any]:
        return kind, {"type": kind, "sequence_number": next(number), **more}

    items = _response_items(does)
    yield event("response.created", response={**head, "status": "in_progress", "output": [], "usage": None})
    for index, item in enumerate(items):
        place = {"item_id": item["id"], "output_index": index}
        if isinstance(does, Say):
            empty = {**item, "status": "in_progress", "content": []}
            yield event("response.output_item.added", output_index=index, item=empty)
            part = {"type": "output_text", "text": "", "annotations": []}
            yield event("response.content_part.added", **place, content_index=0, part=part)
            for word in _words(does.text):
                yield event("response.output_text.delta", **place, content_index=0, delta=word)
                await asyncio.sleep(does.pause)
            yield event("response.output_text.done", **place, content_index=0, text=does.text)
        elif item["type"] == "function_call":
            started = {**item, "arguments": "", "status": "in_progress"}
            yield event("response.output_item.added", output_index=index, item=started)
            for piece in _pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
            yield event("response.function_call_arguments.done", **place, arguments=item["arguments"])
        else:
            started = {**item, "input": "", "status": "in_progress"}
            yield event("response.output_item.added", output_index=index, item=started)
            yield event("response.custom_tool_call_input.done", **place, input=item["input"])
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=_response_done(head, items))


# OpenAI Chat Completions


def _chat_items(messages: Iterable[Json]) -> Iterator[Item]:
    for message in messages:
        if message["role"] == "tool":
            yield Item("result", _text_of(message.get("content")))
        elif message["role"] == "user":
            yield Item("text", _text_of(message.get("content")))
        elif message["role"] == "assistant":
            yield Item("model")


async def chat(request: Request) -> Response:
    body = await request.json()
    tools = [tool["function"]["name"] for tool in body.get("tools", []) if tool.get("type") == "function"]
    form = body.get("response_format") or {}
    question = asked(
        list(_chat_items(body["messages"])),
        tools,
        schema=json.dumps(form) if form.get("type") == "json_schema" else "",
        whole=json.dumps(body),
    )
    does = act(question)
    entry = JOURNAL.note_model("chat", request, body, question, does)
    if isinstance(does, Fail):
        return _answer(entry, {"error": {"message": "scripted failure", "type": "server_error"}}, does.status)
    head: Json = {"id": _id("chatcmpl"), "created": now() // 1000, "model": body.get("model")}
    if body.get("stream"):
        return _stream(_chat_events(head, does), entry)
    message: Json = {"role": "assistant", "content": does.text if isinstance(does, Say) else None}
    if isinstance(does, Call):
        message["tool_calls"] = [_chat_call(call) for call in does.all]
    choice = {"index": 0, "message": message, "finish_reason": _chat_stop(does)}
    return _answer(entry, {**head, "object": "chat.completion", "choices": [choice], "usage": _CHAT_USAGE})


_CHAT_USAGE = {"prompt_tokens": 100, "completion_tokens": 25, "total_tokens": 125}


def _chat_call(call: Call) -> Json:
    function = {"name": call.tool, "arguments": json.dumps(call.arguments)}
    return {"id": _id("call"), "type": "function", "function": function}


def _chat_stop(does: Say | Call) -> str:
    return "stop" if isinstance(does, Say) else "tool_calls"


async def _chat_events(head: Json, does: Say | Call) -> AsyncIterator[tuple[str, Any]]:
    def chunk(delta: Json, finish: str | None = None) -> tuple[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return "", {**head, "object": "chat.completion.chunk", "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    if isinstance(does, Say):
        for word in _words(does.text):
            yield chunk({"content": word})
            await asyncio.sleep(does.pause)
    else:
        calls = [{"index": index, **_chat_call(call)} for index, call in enumerate(does.all)]
        yield chunk({"tool_calls": calls})
    yield chunk({}, _chat_stop(does))
    yield "", {**head, "object": "chat.completion.chunk", "choices": [], "usage": _CHAT_USAGE}
    yield "", "[DONE]"


# Gemini


def _gemini_items(contents: Iterable[Json]) -> Iterator[Item]:
    for content in contents:
        if content.get("role") == "model":
            yield Item("model")
            continue
        for part in content.get("parts", []):
            if "functionResponse" in part:
                yield Item("result", json.dumps(part["functionResponse"].get("response")))
            elif part.get("text"):
                yield Item("text", part["text"])


async def gemini(request: Request) -> Response:
    model, _, method = request.path_params["call"].partition(":")
    body = {**await request.json(), "model": model, "stream": method.startswith("stream")}
    if method == "countTokens":
        return _answer(JOURNAL.note("count", request), {"totalTokens": len(json.dumps(body)) // 4 + 1})
    declared = [tool.get("functionDeclarations", []) for tool in body.get("tools", [])]
    config = body.get("generationConfig", {})
    question = asked(
        list(_gemini_items(body.get("contents", []))),
        [function["name"] for functions in declared for function in functions],
        schema=json.dumps(config.get("responseJsonSchema") or config.get("responseSchema") or ""),
        whole=json.dumps(body),
    )
    if question.schema == '""':
        question = Asked(question.user_text, question.results, question.tools, "", question.whole)
    does = act(question)
    entry = JOURNAL.note_model("gemini", request, body, question, does)
    if isinstance(does, Fail):
        error = {"code": does.status, "message": "scripted failure", "status": "INTERNAL"}
        return _answer(entry, {"error": error}, does.status)
    if body["stream"]:
        return _stream(_gemini_events(model, does), entry)
    parts = [{"text": does.text}] if isinstance(does, Say) else [_gemini_call(call) for call in does.all]
    return _answer(entry, _candidate(model, parts, "STOP"))


def _gemini_call(call: Call) -> Json:
    return {"functionCall": {"id": _id("fc"), "name": call.tool, "args": call.arguments}}


def _candidate(model: str, parts: list[Json], finish: str | None = None) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 25, "totalTokenCount": 125}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": _id("r")}


async def _gemini_events(model: str, does: Say | Call) -> AsyncIterator[tuple[str, Any]]:
    if isinstance(does, Call):
        yield "", _candidate(model, [_gemini_call(call) for call in does.all], "STOP")
        return
    for word in _words(does.text):
        yield "", _candidate(model, [{"text": word}])
        await asyncio.sleep(does.pause)
    yield "", _candidate(model, [{"text": ""}], "STOP")


# Around them


async def models(request: Request) -> Response:
    entry = JOURNAL.note("models", request)
    model = {"id": "scripted-1", "object": "model", "type": "model", "created": 1, "display_name": "Scripted"}
    return _answer(entry, {"object": "list", "data": [model], "models": [], "has_more": False})


async def root(request: Request) -> Response:
    JOURNAL.note("root", request)
    return Response()


async def journal(_: Request) -> Response:
    return JSONResponse(JOURNAL.entries)


async def other(request: Request) -> Response:
    entry = JOURNAL.note("other", request)
    return _answer(entry, {"type": "error", "error": {"type": "not_found_error", "message": "not scripted"}}, 404)


app = Starlette(
    routes=[
        Route("/", root, methods=["GET", "HEAD"]),
        Route("/journal", journal),
        Route("/v1/messages", anthropic, methods=["POST"]),
        Route("/v1/messages/count_tokens", anthropic_count, methods=["POST"]),
        Route("/v1/responses", responses, methods=["POST"]),
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1beta/models/{call:path}", gemini, methods=["POST"]),
        Route("/v1/models", models),
        Route("/{rest:path}", other, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]),
    ]
)


def main() -> None:
    parser = argparse.ArgumentParser(description="a scripted model server")
    parser.add_argument("--port", type=int, default=0, help="TCP port, 0 for a free one")
    listener = socket.create_server(("127.0.0.1", parser.parse_args().port))
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    config = uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()

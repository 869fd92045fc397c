"""Gemini."""

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
    signed_by,
)
from .playback import Playback
from .script import Answer, Failure, Fault, Finish, Gate, Say, Search, Think, Usage, Use, joined

_FAULTS: dict[Fault, tuple[int, str]] = {
    "unauthorized": (401, "UNAUTHENTICATED"),
    "forbidden": (403, "PERMISSION_DENIED"),
    "rate_limited": (429, "RESOURCE_EXHAUSTED"),
    "overloaded": (503, "UNAVAILABLE"),
    "server": (500, "INTERNAL"),
    "too_long": (400, "INVALID_ARGUMENT"),
    "invalid": (400, "INVALID_ARGUMENT"),
}
_FINISHES: dict[Finish, str] = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    "content_filter": "SAFETY",
    "pause": "STOP",
}
_UNCHECKED = base64.b64encode(b"skip_thought_signature_validator").decode()
"""What Google documents for calls that another model made."""


class Gemini:
    """See the module. A call whose arguments are no JSON ends the answer with ``MALFORMED_FUNCTION_CALL``."""

    name = "gemini"

    def hear(self, body: Json, headers: dict[str, str], model: str) -> Heard:
        body = _camel(body)
        contents = body["contents"]
        _check_contents(contents)
        config = body.get("generationConfig") or {}
        tools = body.get("tools") or []
        system = (body.get("systemInstruction") or {}).get("parts", [])
        return Heard(
            model=model,
            system="\n\n".join(part["text"] for part in system),
            messages=tuple(_messages(contents)),
            tools=tuple(_tool(it) for tool in tools for it in tool.get("functionDeclarations", [])),
            web_search=any("googleSearch" in tool for tool in tools),
            reasoning=bool((config.get("thinkingConfig") or {}).get("includeThoughts")),
            max_output_tokens=config.get("maxOutputTokens"),
        )

    async def speak(self, answer: Answer, heard: Heard, playback: Playback) -> AsyncIterator[Event]:
        head = {"modelVersion": heard.model, "responseId": new_id("r")}
        usage = _usage(answer.usage) if answer.usage is not None else None

        def chunk(parts: list[Json], **more: Any) -> Event:
            candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **more}
            data = {"candidates": [candidate], **head}
            return "", data if usage is None else {**data, "usageMetadata": usage}

        malformed = grounding = None
        for part in answer.parts:
            if isinstance(part, Gate):
                await playback.hold(part)
                continue
            if isinstance(part, Use):
                call = _call(part, await playback.whole(part.arguments))
                malformed = malformed or call is None
                if call is not None:
                    yield chunk([call])
                continue
            if isinstance(part, Search):
                grounding = _grounding(part)
            async for wire in _texts(part, playback):
                yield chunk([wire])
        playback.end()
        if answer.broken is not None:
            yield "", {"error": {"code": 500, "message": answer.broken.message, "status": "INTERNAL"}}
            return
        more: Json = {"groundingMetadata": grounding} if grounding else {}
        if malformed:
            more["finishMessage"] = "Malformed function call"
        yield chunk([], finishReason="MALFORMED_FUNCTION_CALL" if malformed else _FINISHES[answer.finished], **more)

    def refuse(self, failure: Failure) -> tuple[int, Json]:
        status, word = _FAULTS[failure.fault]
        error: Json = {"code": status, "message": failure.message, "status": word}
        if failure.retry_after is not None:
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            error["details"] = [{"@type": kind, "retryDelay": f"{failure.retry_after:g}s"}]
        return status, {"error": error}


def _call(part: Use, text: str) -> Json | None:
    """A call as a part, None for what is no JSON object; nothing stands for an empty one.

    The signature is on the call, as newer models do it."""
    try:
        arguments = msgspec.json.decode(text or "{}", type=dict)
    except msgspec.DecodeError:
        return None
    call = {"id": part.id or new_id("fc"), "name": part.tool, "args": arguments}
    return {"functionCall": call, "thoughtSignature": sign("gemini", part.tool)}


async def _texts(part: Say | Think | Search, playback: Playback) -> AsyncIterator[Json]:
    if isinstance(part, Search):
        yield {"text": part.text}
        return
    async for piece in playback.pieces(part.pieces):
        yield {"text": piece, "thought": True} if isinstance(part, Think) else {"text": piece}
    if isinstance(part, Think):
        yield {"text": "", "thoughtSignature": sign("gemini", joined(part.pieces))}


def _grounding(part: Search) -> Json:
    chunks = [{"web": {"uri": url, "title": url}} for url in part.urls]
    segment = {"startIndex": 0, "endIndex": len(part.text.encode()), "text": part.text}
    supports = [{"segment": segment, "groundingChunkIndices": [0]}]
    return {"webSearchQueries": [part.query], "groundingChunks": chunks, "groundingSupports": supports}


def _usage(usage: Usage) -> Json:
    return {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.input + usage.output,
    }


def _camel(value: Any, name: str = "") -> Any:
    """Both spellings of names are taken; what is the caller's own stays as it is."""
    if name in {"args", "response", "parameters", "parametersJsonSchema"}:
        return value
    if isinstance(value, list):
        return [_camel(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    names = {key: re.sub(r"_([a-z])", lambda it: it[1].upper(), key) for key in value}
    return {names[key]: _camel(inner, names[key]) for key, inner in value.items()}


def _check_contents(contents: list[Json]) -> None:
    demand(contents, "contents is not specified")
    demand(contents[0].get("role", "user") == "user", "the first content must be of role user")
    for number, content in enumerate(contents):
        demand(content.get("role", "user") in {"user", "model"}, "Please use a valid role: user, model.")
        demand(content.get("parts"), f"contents[{number}].parts must not be empty")
        for part in content["parts"]:
            _check_part(part, number)
    demand(contents[-1].get("role", "user") == "user", "the last content must be of role user")


def _check_part(part: Json, number: int) -> None:
    signature = part.get("thoughtSignature")
    demand(signature in {None, _UNCHECKED} or signed_by("gemini", signature), "Thought signature is not valid.")
    data = {"text", "functionCall", "functionResponse", "inlineData"} & part.keys()
    demand(len(data) == 1, f"contents[{number}]: required oneof field 'data' must have one initialized field")
    demand(part.get("text") != "" or signature, f"contents[{number}]: text is empty")
    if "functionCall" in part:
        demand(isinstance(part["functionCall"].get("args", {}), dict), "functionCall.args must be a struct")
    if "functionResponse" in part:
        demand(isinstance(part["functionResponse"].get("response"), dict), "functionResponse.response must be a struct")


def _messages(contents: list[Json]) -> Iterator[Message]:
    """Contents of one role that follow each other are one. Calls without id are named after their place."""
    unnamed: list[tuple[str, str]] = []
    for role, group in itertools.groupby(contents, lambda it: it.get("role", "user")):
        parts = [part for content in group for part in content["parts"]]
        if role == "model":
            said = Assistant(tuple(it for number, part in enumerate(parts) for it in _part(part, number)))
            unnamed = [(call.tool, call.id) for call in said.calls]
            yield said
            continue
        yield from (_result(part["functionResponse"], unnamed) for part in parts if "functionResponse" in part)
        text = "\n".join(part["text"] for part in parts if part.get("text"))
        pictures = tuple(_pictures(parts))
        if text or pictures:
            yield User(text, pictures)


def _part(part: Json, number: int) -> Iterator[Said | Thought | Called]:
    signature = (part.get("thoughtSignature") or "").replace(_UNCHECKED, "")
    if "functionCall" in part:
        call = part["functionCall"]
        arguments = msgspec.json.encode(call.get("args", {})).decode()
        yield Called(call.get("id") or f"#{number}", call["name"], arguments, signature)
    elif part.get("thought") or (signature and not part.get("text")):
        yield Thought(part.get("text", ""), signature)
    elif part.get("text"):
        yield Said(part["text"])


def _result(response: Json, unnamed: list[tuple[str, str]]) -> Result:
    id_ = response.get("id") or next((id_ for tool, id_ in unnamed if tool == response["name"]), "?")
    if (response["name"], id_) in unnamed:
        unnamed.remove((response["name"], id_))
    given = response["response"]
    text = next((it for it in given.values() if isinstance(it, str)), None)
    text = text if len(given) == 1 and text is not None else msgspec.json.encode(given).decode()
    pictures = tuple(_pictures(response.get("parts") or []))
    return Result(id_, text, "error" in given, response["name"], pictures)


def _pictures(parts: list[Json]) -> Iterator[Picture]:
    for part in parts:
        if inline := part.get("inlineData"):
            data = inline["data"]
            yield Picture(inline["mimeType"], base64.b64decode(data.replace("-", "+").replace("_", "/")))


def _tool(tool: Json) -> Tool:
    schema = tool.get("parametersJsonSchema") or tool.get("parameters") or {"type": "object"}
    return Tool(tool["name"], tool.get("description", ""), {**schema, "type": str(schema.get("type", "")).lower()})

"""A conversation as Chat Completions messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dragoman.hub.events import Json

from .conversation import AssistantMessage, Call, Image, Message, Reasoning, Text, ToolMessage, ToolSpec, UserMessage
from .openai_stream import arguments, call_id, data_url, result_text


def chat_messages(system: str, messages: Sequence[Message], provider: str) -> list[dict[str, Json]]:
    """All of them. ``provider`` is who gets them: what it thought itself since the last question goes back to it."""
    spelled: list[dict[str, Json]] = [{"role": "system", "content": system}] if system else []
    asked = max((at for at, message in enumerate(messages) if isinstance(message, UserMessage)), default=-1)
    pictures: list[dict[str, Json]] = []
    for at, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            spelled.append({"role": "tool", "tool_call_id": call_id(message.call), "content": result_text(message)})
            pictures += _pictures_of(message)
            continue
        spelled += _shown(pictures)
        pictures = []
        if isinstance(message, UserMessage):
            spelled.append({"role": "user", "content": _content(message)})
        else:
            spelled += _said(message, with_reasoning=message.provider == provider and at > asked)
    return spelled + _shown(pictures)


def chat_tool(tool: ToolSpec) -> dict[str, Json]:
    """A tool as the API has it; not ``strict``, which allows only some schemas."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
    }


def _content(message: UserMessage) -> Json:
    if not message.images:
        return message.text
    text = [{"type": "text", "text": message.text}] if message.text else []
    return text + [_picture(image) for image in message.images]


def _picture(image: Image) -> dict[str, Json]:
    return {"type": "image_url", "image_url": {"url": data_url(image)}}


def _pictures_of(message: ToolMessage) -> list[dict[str, Json]]:
    if not message.images:
        return []
    return [{"type": "text", "text": f"From {message.tool}:"}, *map(_picture, message.images)]


def _shown(pictures: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """A result can hold no picture, and nothing may stand between results: they come after the last of them."""
    return [{"role": "user", "content": pictures}] if pictures else []


def _said(message: AssistantMessage, *, with_reasoning: bool) -> Iterator[dict[str, Json]]:
    text = "\n\n".join(part.text for part in message.parts if isinstance(part, Text) and part.text)
    if not text and not message.calls:
        return
    spelled: dict[str, Json] = {"role": "assistant", "content": text or None}
    if with_reasoning:
        spelled |= _reasoning([part for part in message.parts if isinstance(part, Reasoning)])
    if message.calls:
        spelled["tool_calls"] = [_call(call) for call in message.calls]
    yield spelled


def _reasoning(thoughts: list[Reasoning]) -> dict[str, Json]:
    """In the fields it came in: DeepSeek refuses a call's result without, others make use of it."""
    fields: dict[str, str] = {}
    details: list[Json] = []
    for thought in thoughts:
        metadata = thought.metadata if isinstance(thought.metadata, dict) else {}
        details += metadata.get("details") or []
        if field := metadata.get("field"):
            fields[field] = fields.get(field, "") + thought.text
    return {**fields, **({"reasoning_details": details} if details else {})}


def _call(call: Call) -> dict[str, Json]:
    return {
        "id": call_id(call.call),
        "type": "function",
        "function": {"name": call.tool, "arguments": arguments(call)},
    }

"""A conversation as Responses input items.

Nothing is stored at the provider, so its ids mean nothing to it later; a thought goes back in its encrypted form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from dragoman.hub.events import Json

from .conversation import AssistantMessage, Call, Message, Reasoning, Text, ToolMessage, ToolSpec, UserMessage
from .openai_stream import arguments, call_id, data_url, result_text

_Part = Text | Reasoning | Call


def response_items(messages: Sequence[Message], provider: str) -> list[dict[str, Json]]:
    """All of them. ``provider`` is who gets them: what it thought itself goes back to it."""
    items: list[dict[str, Json]] = []
    for message in messages:
        if isinstance(message, UserMessage):
            items.append({"role": "user", "content": _asked(message)})
        elif isinstance(message, ToolMessage):
            items.append({"type": "function_call_output", "call_id": call_id(message.call), "output": _result(message)})
        else:
            items += _said(message, own=message.provider == provider)
    return items


def response_tool(tool: ToolSpec) -> dict[str, Json]:
    """A tool as the API has it. ``strict`` must be denied: left out, the API makes every field a required one."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        "strict": False,
    }


def _pictures(message: UserMessage | ToolMessage) -> list[dict[str, Json]]:
    return [{"type": "input_image", "image_url": data_url(image)} for image in message.images]


def _asked(message: UserMessage) -> Json:
    if not message.images:
        return message.text
    text = [{"type": "input_text", "text": message.text}] if message.text else []
    return text + _pictures(message)


def _result(message: ToolMessage) -> Json:
    text = result_text(message)
    return [{"type": "input_text", "text": text}, *_pictures(message)] if message.images else text


def _said(message: AssistantMessage, *, own: bool) -> Iterator[dict[str, Json]]:
    """A thought must be followed by what it led to: one at the end, of an answer that was cut short, is left out."""
    parts: list[_Part] = list(message.parts)
    while parts and isinstance(parts[-1], Reasoning):
        parts.pop()
    for item, group in groupby(parts, _thought_of):
        if item is None:
            yield from (_spelled(part, own=own) for part in group if not _is_empty(part))
        elif own and (thought := _thought(item, [part for part in group if isinstance(part, Reasoning)])):
            yield thought


def _thought_of(part: _Part) -> str | None:
    """The item that a thought is a piece of."""
    if not isinstance(part, Reasoning):
        return None
    return str(part.metadata.get("item") or "") if isinstance(part.metadata, dict) else ""


def _thought(item: str, pieces: list[Reasoning]) -> dict[str, Json] | None:
    """The item again, or None where the provider could make nothing of it."""
    metadata = [piece.metadata for piece in pieces if isinstance(piece.metadata, dict)]
    encrypted = next((found for known in metadata if (found := known.get("encrypted_content"))), None)
    plain = any(known.get("plain") for known in metadata)
    texts = [piece.text for piece in pieces if piece.text]
    if not item or not (encrypted or plain):
        return None
    thought: dict[str, Json] = {"type": "reasoning", "id": item, "summary": []}
    if plain:
        thought["content"] = [{"type": "reasoning_text", "text": text} for text in texts]
    else:
        thought["summary"] = [{"type": "summary_text", "text": text} for text in texts]
    if encrypted:
        thought["encrypted_content"] = encrypted
    return thought


def _is_empty(part: _Part) -> bool:
    return isinstance(part, Text) and not part.text


def _spelled(part: _Part, *, own: bool) -> dict[str, Json]:
    if isinstance(part, Call):
        return {
            "type": "function_call",
            "call_id": call_id(part.call),
            "name": part.tool,
            "arguments": arguments(part),
        }
    phase = part.metadata.get("phase") if own and isinstance(part.metadata, dict) else None
    return {"role": "assistant", "content": part.text, **({"phase": phase} if phase else {})}

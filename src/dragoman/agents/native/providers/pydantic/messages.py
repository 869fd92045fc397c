"""Our conversation in the library's words, and what a provider wants back with a part.

What it wants back is kept as JSON in ``metadata``: ``id``, ``signature``, ``details``, spelled by the library, which
gives them only to the model that is named as their giver.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import msgspec
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_core import to_jsonable_python

from dragoman.agents.native.providers.conversation import (
    AssistantMessage,
    Call,
    Image,
    Message,
    Text,
    ToolMessage,
    UserMessage,
)
from dragoman.agents.native.providers.openai_stream import arguments_object
from dragoman.hub.errors import NOT_JSON
from dragoman.hub.events import Json

from .cleaning import whole_characters

_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
"""What no id of a call may hold, if every API is to take it."""
_NOTHING = "(empty)"
"""Stands for text that is blank, which not every API takes."""


class History:
    """Spells conversations for the provider ``name``, whose system the library calls ``system``."""

    def __init__(self, name: str, system: str) -> None:
        self._name = name
        self._system = system

    def messages(self, messages: Sequence[Message]) -> list[ModelMessage]:
        """The conversation. What stands between two answers of the model goes as one message, results first."""
        spelled: list[ModelMessage] = []
        waiting: list[ModelRequestPart] = []
        for message in messages:
            if not isinstance(message, AssistantMessage):
                waiting.append(_request_part(message))
                continue
            parts = list(self._response_parts(message))
            if not parts:
                continue
            if waiting:
                spelled.append(ModelRequest(parts=waiting))
                waiting = []
            spelled.append(ModelResponse(parts=parts, provider_name=self._system if self._gave(message) else None))
        if waiting:
            spelled.append(ModelRequest(parts=waiting))
        return spelled

    def _gave(self, message: AssistantMessage) -> bool:
        return message.provider == self._name

    def _response_parts(self, message: AssistantMessage) -> Iterable[ModelResponsePart]:
        for part in message.parts:
            kept = self._kept(part.metadata) if self._gave(message) else {}
            if isinstance(part, Call):
                yield ToolCallPart(part.tool, _arguments(part.input), _id(part.call), **_without(kept, "signature"))
            elif isinstance(part, Text):
                if part.text.strip() or kept:
                    yield TextPart(part.text, **_without(kept, "signature"))
            elif kept:  # thoughts without what proves them are taken by nobody
                yield ThinkingPart(part.text, **kept)

    def _kept(self, metadata: Json) -> dict[str, Any]:
        if not isinstance(metadata, dict):
            return {}
        names = {"id": "id", "signature": "signature", "details": "provider_details"}
        kept = {ours: metadata[key] for key, ours in names.items() if metadata.get(key) is not None}
        return {**kept, "provider_name": self._system} if kept else {}


def metadata_of(part: TextPart | ThinkingPart | ToolCallPart) -> Json:
    """What the provider wants back with a part, or None."""
    kept = {"id": part.id, "signature": getattr(part, "signature", None), "details": part.provider_details}
    kept = {key: value for key, value in kept.items() if value}
    return to_jsonable_python(kept, fallback=str) if kept else None


def _request_part(message: UserMessage | ToolMessage) -> ModelRequestPart:
    if isinstance(message, ToolMessage):
        content = _content(message.text, message.images)
        return ToolReturnPart(
            message.tool, content, _id(message.call), outcome="failed" if message.failed else "success"
        )
    return UserPromptPart(_content(message.text, message.images))


def _id(call: str) -> str:
    """A call's id, spelled for every API: the call may have been made by way of one that takes more."""
    if not _NOT_IN_IDS.search(call):
        return call
    return f"{_NOT_IN_IDS.sub('_', call)}_{hashlib.sha256(call.encode()).hexdigest()[:8]}"


def _content(text: str, images: tuple[Image, ...]) -> Any:
    """Text alone, or a list of it and pictures."""
    if not images:
        return text if text.strip() else _NOTHING
    pictures = [BinaryContent(data=image.data, media_type=image.media_type) for image in images]
    return [text, *pictures] if text.strip() else pictures


def _arguments(given: Json) -> dict[str, Any]:
    """An object, whatever the model gave: the library would read text itself, and takes numbers that are no JSON."""
    return arguments_object(Call("", "", given))


def strict(part: ModelResponsePart) -> ModelResponsePart:
    """The library's own part as it may go back: arguments that it holds as text are read as JSON, and as no more."""
    if not isinstance(part, ToolCallPart | NativeToolCallPart) or not isinstance(part.args, str):
        return part
    try:
        given: Json = msgspec.json.decode(part.args or "{}")
    except NOT_JSON:
        given = whole_characters(part.args)
    changed: ModelResponsePart = replace(cast("Any", part), args=_arguments(given))  # some have arguments of a type
    return changed


def _without(kept: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in kept.items() if key != name}

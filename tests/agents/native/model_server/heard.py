"""What a scripted model was told: one request in no provider's words, and the rules that hold for all of them."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from typing import Any

import msgspec

Json = dict[str, Any]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Picture(msgspec.Struct, frozen=True, tag="picture"):
    """An image, as it came."""

    media_type: str
    data: bytes


class Said(msgspec.Struct, frozen=True, tag="said"):
    text: str


class Thought(msgspec.Struct, frozen=True, tag="thought"):
    text: str
    signature: str


class Called(msgspec.Struct, frozen=True, tag="called"):
    """``arguments`` is JSON text. ``signature`` is what some APIs hang on a call."""

    id: str
    tool: str
    arguments: str
    signature: str = ""


class User(msgspec.Struct, frozen=True, tag="user"):
    text: str
    pictures: tuple[Picture, ...] = ()


class Assistant(msgspec.Struct, frozen=True, tag="assistant"):
    parts: tuple[Said | Thought | Called, ...]

    @property
    def calls(self) -> list[Called]:
        return [part for part in self.parts if isinstance(part, Called)]


class Result(msgspec.Struct, frozen=True, tag="result"):
    """``failed`` is None where the API has no word for it, ``tool`` empty where it is not told."""

    id: str
    text: str
    failed: bool | None = None
    tool: str = ""
    pictures: tuple[Picture, ...] = ()


Message = User | Assistant | Result


class Tool(msgspec.Struct, frozen=True):
    name: str
    description: str
    schema: Json


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """One request, understood."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    web_search: bool = False
    reasoning: bool = False
    max_output_tokens: int | None = None

    @property
    def newest_text(self) -> str:
        """What the user said last."""
        return next((it.text for it in reversed(self.messages) if isinstance(it, User) and it.text), "")

    @property
    def steps(self) -> int:
        """Answers that were given since then."""
        count = 0
        for message in reversed(self.messages):
            if isinstance(message, User) and message.text:
                break
            count += isinstance(message, Assistant)
        return count


class Violation(Exception):
    """The API would not have taken the request. ``str()`` says why."""


def demand(condition: object, message: str) -> None:
    """Raise ``Violation`` unless the condition holds."""
    if not condition:
        raise Violation(message)


def check(heard: Heard) -> None:
    """The rules of every API. Raises ``Violation``."""
    demand(heard.model, "model is required")
    demand(heard.messages, "at least one message is required")
    names = [tool.name for tool in heard.tools]
    demand(len(set(names)) == len(names), f"tool names must be unique: {names}")
    for tool in heard.tools:
        demand(_NAME.fullmatch(tool.name), f"tool name {tool.name!r} is not allowed")
        demand(tool.schema.get("type") == "object", f"schema of {tool.name} must be an object")
    _check_pairs(iter(heard.messages))


def _check_pairs(messages: Iterator[Message]) -> None:
    """Every call has exactly one result before anything else, and no result is without a call."""
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, Result):
            demand(message.id in open_calls, f"result {message.id!r} answers no open call")
            open_calls.remove(message.id)
            continue
        demand(not open_calls, f"calls without result: {open_calls}")
        if isinstance(message, Assistant):
            open_calls = [call.id for call in message.calls]
            demand(len(set(open_calls)) == len(open_calls), f"call ids must be unique: {open_calls}")
    demand(not open_calls, f"calls without result: {open_calls}")


def sign(api: str, text: str) -> str:
    """The signature that an API gives a text, and knows again; base64."""
    return base64.b64encode(f"{api}:{hashlib.sha256(text.encode()).hexdigest()[:24]}".encode()).decode()


def signed_by(api: str, signature: str) -> bool:
    """Whether the signature is one of this API's, for whatever text."""
    try:
        return base64.b64decode(signature, validate=True).startswith(f"{api}:".encode())
    except ValueError:
        return False


def picture(url: str) -> Picture:
    """The image of a ``data:`` URL."""
    head, _, data = url.partition(";base64,")
    demand(head.startswith("data:") and data, "image URL is no data URL")
    return Picture(head.removeprefix("data:"), base64.b64decode(data))

"""What a model is given: a conversation in our own words, which each adapter spells for its provider.

A conversation is valid when every call has exactly one result, after the message that made it and before the next
message of user or assistant. Whoever builds one (``history``) promises that; adapters need not mend it.
"""

from __future__ import annotations

import msgspec

from dragoman.hub.events import Json


class Image(msgspec.Struct, frozen=True):
    """A picture, as the provider gets it. ``media_type`` is ``image/png`` or the like; ``name`` is for people.

    ``encoded`` is ``data`` in base64, where that was made ahead: each step of a turn needs it.
    """

    media_type: str
    data: bytes
    name: str = ""
    encoded: str = ""


class Picture(msgspec.Struct, frozen=True):
    """Where a picture lies: its artifact. ``size`` is in bytes. No adapter is given one: ``pictures`` puts the
    ``Image`` in its place, or words."""

    artifact: str
    media_type: str
    name: str
    size: int


class Text(msgspec.Struct, frozen=True, tag="text"):
    """Something the model said."""

    text: str
    metadata: Json = None


class Reasoning(msgspec.Struct, frozen=True, tag="reasoning"):
    """Something the model thought. ``metadata`` is what its provider wants back with it: a signature, an encrypted
    form. Only the provider that gave it may be given it again."""

    text: str
    metadata: Json = None


class Call(msgspec.Struct, frozen=True, tag="call"):
    """A tool call the model made. ``input`` is what it gave, also where that was no valid input; text that was no JSON
    stands here as that text."""

    call: str
    tool: str
    input: Json = None
    metadata: Json = None


class UserMessage(msgspec.Struct, frozen=True, tag="user"):
    """What a person said, or what is told to the model in their place."""

    text: str
    images: tuple[Image, ...] = ()
    pictures: tuple[Picture, ...] = ()


class AssistantMessage(msgspec.Struct, frozen=True, tag="assistant"):
    """One answer of the model, its parts in the order they came. ``provider`` names who gave it."""

    parts: tuple[Text | Reasoning | Call, ...]
    provider: str | None = None

    @property
    def calls(self) -> list[Call]:
        """The tool calls among the parts."""
        return [part for part in self.parts if isinstance(part, Call)]


class ToolMessage(msgspec.Struct, frozen=True, tag="tool"):
    """The one result of a call, as text for the model, and pictures as in ``UserMessage``."""

    call: str
    tool: str
    text: str
    failed: bool = False
    images: tuple[Image, ...] = ()
    pictures: tuple[Picture, ...] = ()


Message = UserMessage | AssistantMessage | ToolMessage


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the model is told of it. ``schema`` is a JSON Schema (2020-12) of an object, without ``$ref``."""

    name: str
    description: str
    schema: dict[str, Json]


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One model call.

    ``web_search`` offers the provider's own search tool, where it has one. ``reasoning`` asks for a summary of its
    thoughts, where the model gives one.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    reasoning: bool = True
    web_search: bool = False


ENDINGS = {
    "cancelled": "[The person cancelled the turn here.]",
    "failed": "[The turn failed here.]",
    "interrupted": "[The turn was interrupted here: the server stopped.]",
}
"""What the model is told, in a person's place, of a turn that ended so."""

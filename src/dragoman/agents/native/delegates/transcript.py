"""A conversation as plain text: what a program is told of what was said before it came, or beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dragoman.agents.native.history import as_text
from dragoman.agents.native.pictures import with_named_pictures
from dragoman.agents.native.providers.conversation import Call, Message, Text, ToolMessage, UserMessage

_HEAD = "[This conversation has an earlier part, in which others answered. It went like this:]"
_END = "[Here the earlier part ends. What follows is what is said to you now.]"
_CUT = "[What was said before that is left out.]"
_SHOWN = 1000
"""Characters of one call's input, or of one result, that are told."""


def with_transcript(text: str, before: Sequence[Message], chars: int) -> str:
    """``text``, and in front of it the newest ``chars`` characters of ``before``; as it is, if there was nothing."""
    told = list(_newest(before, chars))
    if not told:
        return text
    return "\n\n".join([_HEAD, *reversed(told), _END, text])


def _newest(messages: Sequence[Message], chars: int) -> Iterable[str]:
    """The messages as text, the last first, as long as there is room."""
    for message in reversed(messages):
        told = _told(message)
        if not told:
            continue
        if len(told) > chars:
            yield _CUT
            return
        chars -= len(told)
        yield told


def _told(message: Message) -> str:
    if isinstance(message, UserMessage):
        return f"User: {with_named_pictures(message)}"
    if isinstance(message, ToolMessage):
        failed = " failed" if message.failed else ""
        return f"Result of {message.tool}{failed}: {with_named_pictures(message, _cut(message.text))}"
    parts = [_part(part) for part in message.parts if isinstance(part, Text | Call)]
    return "\n".join(parts)


def _part(part: Text | Call) -> str:
    if isinstance(part, Text):
        return f"Assistant: {part.text}"
    return f"Assistant used {part.tool}: {_cut(as_text(part.input))}"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} […]"

"""How many tokens texts are, without asking anybody. Blocks at its first call; for a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dragoman.hub.events import Json

from .history import as_text
from .providers.conversation import AssistantMessage, Call, Message, ModelRequest, ToolMessage, ToolSpec

ENCODING = "o200k_base"
"""The encoding that is counted in. Other models' differ by up to a quarter: a count is an estimate all the same."""

_PER_MESSAGE = 4
"""Tokens that a message costs beside its text."""

_PER_IMAGE = 1000
"""Tokens of a picture: what a screen costs, about."""

_Count = Callable[[Iterable[str]], int]


def count(texts: Iterable[str]) -> int:
    """Tokens of these texts: counted where the ``tokens`` extra is installed, else told from their letters.

    Without it: four ASCII characters make a token, and each other character is one.
    """
    texts = list(texts)
    try:
        import toktok  # noqa: PLC0415  an extra
    except ImportError:
        return sum(map(_told_from_letters, texts))
    return sum(toktok.batch_count(texts, ENCODING))


def count_messages(messages: Iterable[Message]) -> int:
    """Tokens of these messages."""
    return _in_messages(messages, count)


def count_request(request: ModelRequest) -> int:
    """Tokens of all that a model call gives the model."""
    return count([request.system, *_in_tools(request.tools)]) + count_messages(request.messages)


def most_in_messages(messages: Iterable[Message]) -> int:
    """What ``count_messages`` cannot exceed. Does not block."""
    return _in_messages(messages, _most)


def most_in_tools(tools: Iterable[ToolSpec]) -> int:
    """What the tools of a request cannot exceed. Does not block."""
    return _most(_in_tools(tools))


def most_in_text(text: str) -> int:
    """What a text cannot exceed. Does not block."""
    return _most_in(text)


def _in_messages(messages: Iterable[Message], counted: _Count) -> int:
    messages = list(messages)
    texts = [text for message in messages for text in _texts(message)]
    images = sum(map(_images, messages))
    return counted(texts) + len(messages) * _PER_MESSAGE + images * _PER_IMAGE


def _images(message: Message) -> int:
    return 0 if isinstance(message, AssistantMessage) else len(message.images) + len(message.pictures)


def _in_tools(tools: Iterable[ToolSpec]) -> list[str]:
    return [text for tool in tools for text in (tool.name, tool.description, as_text(tool.schema))]


def _most(texts: Iterable[str]) -> int:
    """A token is a byte at least. An ASCII text says so of itself; other characters have at most four."""
    return sum(map(_most_in, texts))


def _most_in(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)


def _texts(message: Message) -> Iterable[str]:
    if isinstance(message, AssistantMessage):
        for part in message.parts:
            yield f"{part.tool}{_input(part.input)}" if isinstance(part, Call) else part.text
        return
    yield message.text
    if isinstance(message, ToolMessage):
        yield message.tool


def _input(given: Json) -> str:
    return "" if given is None else as_text(given)


def _told_from_letters(text: str) -> int:
    letters = len(text.encode("ascii", "ignore"))
    return -(-letters // 4) + len(text) - letters

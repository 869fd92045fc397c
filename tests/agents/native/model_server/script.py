"""What a scripted model says: answers in no provider's words, which every API module spells for its own."""

from __future__ import annotations

from typing import Literal

import msgspec

Finish = Literal["stop", "length", "tool_calls", "content_filter", "pause"]
"""``pause`` (Anthropic only, ``stop`` elsewhere): the answer is to be sent back, and goes on."""
Fault = Literal["unauthorized", "forbidden", "rate_limited", "overloaded", "server", "too_long", "invalid"]


class Gate(msgspec.Struct, frozen=True, tag="gate"):
    """A place where the stream waits until the test opens the gate of this name."""

    name: str


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """A place where the stream is silent for so many seconds."""

    seconds: float


Piece = str | Gate | Pause
"""What comes in one event, or what happens between two."""


class Say(msgspec.Struct, frozen=True, tag="say"):
    """Text of the answer."""

    pieces: tuple[Piece, ...]


class Think(msgspec.Struct, frozen=True, tag="think"):
    """Thoughts. Each API signs them, and checks its signature when they come back."""

    pieces: tuple[Piece, ...]


class Use(msgspec.Struct, frozen=True, tag="use"):
    """A tool call. ``arguments`` joined is its JSON text, which need not be valid."""

    tool: str
    arguments: tuple[Piece, ...] = ("{}",)
    id: str = ""
    """Empty: one is made."""


class Search(msgspec.Struct, frozen=True, tag="search"):
    """A web search that the provider runs itself, with what it found, and the text that cites the first of it."""

    query: str
    urls: tuple[str, ...]
    text: str = "Found."


Part = Say | Think | Use | Search | Gate
"""A gate among the parts is a place between two of them, or before the end."""


class Usage(msgspec.Struct, frozen=True):
    """Tokens: ``input`` includes ``cached`` and (Anthropic's alone) ``written``, ``output`` includes ``reasoning``."""

    input: int = 100
    output: int = 25
    reasoning: int = 0
    cached: int = 0
    written: int = 0


class Broken(msgspec.Struct, frozen=True):
    """The provider's own word, within a stream that began well, that it failed."""

    message: str = "The model broke down."


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """One answer. ``finish`` None is what fits the parts."""

    parts: tuple[Part, ...] = ()
    usage: Usage | None = Usage()
    finish: Finish | None = None
    cut_after: int | None = None
    """The connection is lost after so many pieces of text, thought or arguments."""
    broken: Broken | None = None
    """The stream ends with this in place of a good end."""
    before: Gate | None = None
    """Not a byte is sent until this is open."""

    @property
    def finished(self) -> Finish:
        """How it ends."""
        if self.finish is not None:
            return self.finish
        return "tool_calls" if any(isinstance(part, Use) for part in self.parts) else "stop"


class Failure(msgspec.Struct, frozen=True, tag="failure"):
    """The request is refused, with the status and the error body that this API has for it."""

    fault: Fault
    message: str = "Scripted failure."
    retry_after: float | None = None


Turn = Answer | Failure


def pieces_of(text: str, size: int = 7) -> tuple[Piece, ...]:
    """Text cut into pieces of so many characters."""
    return tuple(text[at : at + size] for at in range(0, len(text), size))


def say(*pieces: Piece) -> Answer:
    """An answer of nothing but text."""
    return Answer((Say(pieces),))


def use(tool: str, arguments: object = None, *, id: str = "") -> Use:  # noqa: A002
    """A tool call with good arguments, in pieces."""
    text = msgspec.json.encode({} if arguments is None else arguments).decode()
    return Use(tool, pieces_of(text), id)


def joined(pieces: tuple[Piece, ...]) -> str:
    """The text among the pieces."""
    return "".join(piece for piece in pieces if isinstance(piece, str))

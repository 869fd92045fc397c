"""Messages and chat items of a conversation as they grow, each encoded once (spec §7).

Both are lists that are only added to: what has a place keeps it, so ``msg-<index>`` means the same message for ever. A
text stands in a message and in a chat item but is kept once: what is kept are *pieces* of JSON, joined when somebody
asks. The result of a tool is a part of its trace entry, and takes no memory of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw

from dragoman.hub.events import Json

Piece: TypeAlias = bytes | Raw
"""A piece of JSON. ``Raw`` is a view into the message that it was read from."""

Role: TypeAlias = Literal["user", "assistant"]

_NULL = Raw(b"null")
_EMPTY = b'""'
_encoder = msgspec.json.Encoder()

_AGENT = {"user": b"user", "assistant": b"agent"}


class Entry(msgspec.Struct):
    """What chat items and messages need of an encoded stream event."""

    type: str
    id: Raw = _NULL
    content: Raw = _NULL
    kind: Raw = _NULL
    files: Raw = _NULL
    tool_id: Raw = _NULL
    name: Raw = _NULL
    args: Raw = _NULL
    status: Raw = _NULL
    result: Raw = _NULL
    timing_ms: Raw = _NULL


class _Said:
    """What a user or the model said. An answer may have calls, and no text: then that is empty."""

    __slots__ = ("blank", "calls", "index", "role", "text")

    def __init__(self, role: Role, index: int, text: Piece, blank: bool) -> None:
        self.role = role
        self.index = index
        self.text = text
        self.blank = blank
        self.calls: list[bytes] = []

    def message(self) -> Iterator[Piece]:
        yield b'{"role":"%b"' % self.role.encode()
        if not self.calls or not self.blank:
            yield b',"content":'
            yield self.text
        if self.calls:
            yield b',"tool_calls":['
            yield b",".join(self.calls)
            yield b"]"
        yield b"}"

    def item(self) -> Iterator[Piece]:
        yield b'{"id":"msg-%d","type":"%b","content":' % (self.index, _AGENT[self.role])
        yield self.text
        yield b"}"


class _Result:
    """What came of a call; nothing yet while its ``content`` is None."""

    __slots__ = ("call", "content")

    def __init__(self, call: bytes) -> None:
        self.call = call
        self.content: Piece | None = None

    def message(self) -> Iterator[Piece]:
        yield b'{"role":"tool","content":'
        yield _EMPTY if self.content is None else self.content
        yield b',"tool_call_id":'
        yield self.call
        yield b"}"


class _Item:
    """A chat item that is no message."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        self.pieces = pieces

    def item(self) -> Iterator[Piece]:
        return iter(self.pieces)


class Transcript:
    """See the module."""

    def __init__(self) -> None:
        self._messages: list[_Said | _Result] = []
        self._items: list[_Said | _Item] = []
        self._results: dict[str, _Result] = {}
        self._tools: dict[bytes, _Item] = {}
        self._answer: _Said | None = None
        """The answer that may still grow."""

    def asked(self, text: str, encoded: Piece | None = None) -> Piece:
        """A user said ``text``; ``encoded`` is the same as JSON, where there is that already.

        Returned is that JSON.
        """
        self.close()
        return self._add("user", text, encoded).text

    def answered(self, text: str, *, joins: bool) -> None:
        """The model said ``text``: a message of its own, or (``joins``) more of the one before, if no calls follow it.

        A text behind calls is told as a message behind their results, since that is when it was said.
        """
        if not text.strip():
            return
        answer = self._answer
        if not joins or answer is None or answer.calls:
            self._answer = self._add("assistant", text)
        else:
            answer.text = bytes(answer.text)[:-1] + _encoder.encode(text)[1:]

    def called(self, call: str, tool: str, given: Json) -> None:
        """The model called a tool. The call belongs to the answer that still grows."""
        if call in self._results:
            return
        if self._answer is None:
            self._answer = _Said("assistant", len(self._messages), _EMPTY, blank=True)
            self._messages.append(self._answer)
        encoded = _encoder.encode(call)
        function = {"name": tool, "arguments": _arguments(given)}
        self._answer.calls.append(b'{"id":%b,"type":"function","function":%b}' % (encoded, _encoder.encode(function)))
        self._results[call] = result = _Result(encoded)
        self._messages.append(result)

    def ended(self, call: str, content: Piece) -> None:
        """A call has its result, as JSON text. Nothing for a call that the model did not make."""
        if (result := self._results.get(call)) is not None:
            result.content = content

    def close(self) -> None:
        """The answer grows no more."""
        self._answer = None

    def show(self, entry: Entry, place: int) -> None:
        """What a trace entry adds to the chat, or changes there. ``place`` is its place in the whole trace."""
        if entry.type in ("tool_call", "tool_result"):
            self._show_tool(entry)
        elif entry.type == "thinking":
            said = (b',"type":"thinking","status":"done","content":', entry.content, b',"kind":', entry.kind, b"}")
            self._items.append(_Item((b'{"id":', entry.id, *said)))
        elif entry.type == "files_received":
            self._items.append(_Item((b'{"id":"files-%d","type":"files_received","files":' % place, entry.files, b"}")))

    def _show_tool(self, entry: Entry) -> None:
        key = bytes(entry.tool_id)
        head = (b'{"id":', key, b',"type":"tool_call","name":', entry.name, b',"args":', entry.args, b',"status":')
        if entry.type == "tool_call":
            pieces: tuple[Piece, ...] = (*head, b'"running"}')
        else:
            status = b'"done"' if bytes(entry.status) == b'"success"' else b'"error"'
            ended = (b',"result":', entry.result, b',"timing_ms":', entry.timing_ms, b"}")
            pieces = (*head, status, *ended)
        if key in self._tools:
            self._tools[key].pieces = pieces
        else:
            self._tools[key] = item = _Item(pieces)
            self._items.append(item)

    def texts(self) -> Iterator[tuple[str, bytes]]:
        """Who said what, in order, without blank texts: ``user`` or ``assistant``, and the text as JSON."""
        for message in self._messages:
            if isinstance(message, _Said) and not message.blank:
                yield message.role, bytes(message.text)

    def messages(self) -> Iterator[Piece]:
        """The messages as pieces of a JSON list.

        A call without a result yet has none at the end of the list, and an empty one within: places stay.
        """
        shown = len(self._messages)
        while shown and isinstance(last := self._messages[shown - 1], _Result) and last.content is None:
            shown -= 1
        yield b"["
        for index in range(shown):
            if index:
                yield b","
            yield from self._messages[index].message()
        yield b"]"

    def items(self) -> Iterator[Piece]:
        """The chat items as pieces of a JSON list."""
        yield b"["
        for index, item in enumerate(self._items):
            if index:
                yield b","
            yield from item.item()
        yield b"]"

    def _add(self, role: Role, text: str, encoded: Piece | None = None) -> _Said:
        said = _Said(
            role, len(self._messages), _encoder.encode(text) if encoded is None else encoded, blank=not text.strip()
        )
        self._messages.append(said)
        self._items.append(said)
        return said


def _arguments(given: Json) -> str:
    """A call's input as the JSON text that this protocol has; what is no JSON already (an invalid call) as it is."""
    if isinstance(given, str):
        return given
    return "{}" if given is None else _encoder.encode(given).decode()

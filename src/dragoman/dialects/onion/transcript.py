"""Messages and chat items of a conversation as they grow, each encoded once (spec §7).

Both are lists that are only added to: what has a place keeps it, so ``msg-<index>`` means the same message for ever. A
text stands in a message and in a chat item but is kept once: what is kept are *pieces* of JSON, joined when somebody
asks. The result of a tool is a part of its trace entry, and takes no memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

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
    """What a user or the model said. An answer may have calls, and no text: then that is empty.

    It is ``settled`` once it changes no more, like a result and an item.
    """

    __slots__ = ("blank", "calls", "index", "role", "settled", "text")

    def __init__(self, role: Role, index: int, text: Piece, blank: bool) -> None:
        self.role = role
        self.index = index
        self.text = text
        self.blank = blank
        self.calls: list[bytes] = []
        self.settled = role == "user"

    def message(self) -> tuple[Piece, ...]:
        head = b'{"role":"%b"' % self.role.encode()
        text = () if self.blank and self.calls else (b',"content":', self.text)
        calls = (b',"tool_calls":[', b",".join(self.calls), b"]") if self.calls else ()
        return (head, *text, *calls, b"}")

    def item(self) -> tuple[Piece, ...]:
        return (b'{"id":"msg-%d","type":"%b","content":' % (self.index, _AGENT[self.role]), self.text, b"}")


class _Result:
    """What came of a call; nothing yet while its ``content`` is None."""

    __slots__ = ("call", "content")

    def __init__(self, call: bytes) -> None:
        self.call = call
        self.content: Piece | None = None

    @property
    def settled(self) -> bool:
        return self.content is not None

    def message(self) -> tuple[Piece, ...]:
        content = _EMPTY if self.content is None else self.content
        return (b'{"role":"tool","content":', content, b',"tool_call_id":', self.call, b"}")


class _Item:
    """A chat item that is no message."""

    __slots__ = ("pieces", "settled")

    def __init__(self, pieces: tuple[Piece, ...], settled: bool = True) -> None:
        self.pieces = pieces
        self.settled = settled

    def item(self) -> tuple[Piece, ...]:
        return self.pieces


class _Settling(Protocol):
    @property
    def settled(self) -> bool: ...


Row = TypeVar("Row", bound=_Settling)


class _Grown(Generic[Row]):
    """A JSON list of rows. Those that have settled are taken apart once, however often the list is asked for."""

    def __init__(self, apart: Callable[[Row], tuple[Piece, ...]]) -> None:
        self.rows: list[Row] = []
        self._apart = apart
        self._pieces: list[Piece] = []
        self._settled = 0

    def pieces(self, shown: int) -> list[Piece]:
        """The list with its first ``shown`` rows, to be joined."""
        if shown < self._settled:
            return self._closed([piece for row in self.rows[:shown] for piece in (b",", *self._apart(row))])
        while self._settled < shown and self.rows[self._settled].settled:
            self._pieces += (b",", *self._apart(self.rows[self._settled]))
            self._settled += 1
        pieces = self._pieces.copy()
        for row in self.rows[self._settled : shown]:
            pieces += (b",", *self._apart(row))
        return self._closed(pieces)

    @staticmethod
    def _closed(pieces: list[Piece]) -> list[Piece]:
        """Brackets around rows that have a comma before each."""
        pieces[:1] = [b"["]
        pieces.append(b"]")
        return pieces


class Size(NamedTuple):
    """How many messages and chat items there are."""

    messages: int
    items: int


class Transcript:
    """See the module."""

    def __init__(self) -> None:
        self._messages: _Grown[_Said | _Result] = _Grown(lambda row: row.message())
        self._items: _Grown[_Said | _Item] = _Grown(lambda row: row.item())
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
            self.close()
            self._answer = self._add("assistant", text)
        else:
            answer.text = bytes(answer.text)[:-1] + _encoder.encode(text)[1:]

    def called(self, call: str, tool: str, given: Json) -> None:
        """The model called a tool. The call belongs to the answer that still grows."""
        if call in self._results:
            return
        if self._answer is None:
            self._answer = _Said("assistant", len(self._messages.rows), _EMPTY, blank=True)
            self._messages.rows.append(self._answer)
        encoded = _encoder.encode(call)
        function = {"name": tool, "arguments": _arguments(given)}
        self._answer.calls.append(b'{"id":%b,"type":"function","function":%b}' % (encoded, _encoder.encode(function)))
        self._results[call] = result = _Result(encoded)
        self._messages.rows.append(result)

    def ended(self, call: str, content: Piece) -> None:
        """A call has its result, as JSON text: the first one. Nothing for a call that the model did not make."""
        result = self._results.get(call)
        if result is not None and result.content is None:
            result.content = content

    def close(self) -> None:
        """The answer grows no more."""
        if self._answer is not None:
            self._answer.settled = True
            self._answer = None

    def show(self, entry: Entry, place: int) -> None:
        """What a trace entry adds to the chat, or changes there. ``place`` is its place in the whole trace."""
        if entry.type in ("tool_call", "tool_result"):
            self._show_tool(entry)
        elif entry.type == "thinking":
            said = (b',"type":"thinking","status":"done","content":', entry.content, b',"kind":', entry.kind, b"}")
            self._items.rows.append(_Item((b'{"id":', entry.id, *said)))
        elif entry.type == "files_received":
            self._items.rows.append(
                _Item((b'{"id":"files-%d","type":"files_received","files":' % place, entry.files, b"}"))
            )

    def _show_tool(self, entry: Entry) -> None:
        key = bytes(entry.tool_id)
        item = self._tools.get(key)
        if item is None:
            self._tools[key] = item = _Item((), settled=False)
            self._items.rows.append(item)
        if not item.settled:
            item.pieces, item.settled = _tool_item(entry), entry.type == "tool_result"

    @property
    def size(self) -> Size:
        """How long both lists are now."""
        return Size(len(self._messages.rows), len(self._items.rows))

    def texts(self, upto: Size) -> Iterator[tuple[str, bytes]]:
        """Who said what, in order, without blank texts: ``user`` or ``assistant``, and the text as JSON."""
        for message in islice(self._messages.rows, upto.messages):
            if isinstance(message, _Said) and not message.blank:
                yield message.role, bytes(message.text)

    def messages(self, upto: Size) -> list[Piece]:
        """The messages as a JSON list, in pieces to be joined.

        A call without a result yet has none at the end of the list, and an empty one within: places stay.
        """
        shown = upto.messages
        while shown and isinstance(last := self._messages.rows[shown - 1], _Result) and last.content is None:
            shown -= 1
        return self._messages.pieces(shown)

    def items(self, upto: Size) -> list[Piece]:
        """The chat items as a JSON list, in pieces to be joined."""
        return self._items.pieces(upto.items)

    def _add(self, role: Role, text: str, encoded: Piece | None = None) -> _Said:
        said = _Said(
            role,
            len(self._messages.rows),
            _encoder.encode(text) if encoded is None else encoded,
            blank=not text.strip(),
        )
        self._messages.rows.append(said)
        self._items.rows.append(said)
        return said


def _arguments(given: Json) -> str:
    """A call's input as the JSON text that this protocol has; what is no JSON already (an invalid call) as it is."""
    if isinstance(given, str):
        return given
    return "{}" if given is None else _encoder.encode(given).decode()


def _tool_item(entry: Entry) -> tuple[Piece, ...]:
    """A call as a chat item: ``running``, or with what came of it."""
    said = (b'{"id":', entry.tool_id, b',"type":"tool_call","name":', entry.name, b',"args":', entry.args)
    if entry.type == "tool_call":
        return (*said, b',"status":"running"}')
    status = b"done" if bytes(entry.status) == b'"success"' else b"error"
    ended = (b',"status":"%b","result":' % status, entry.result, b',"timing_ms":', entry.timing_ms, b"}")
    return (*said, *ended)

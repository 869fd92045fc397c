"""The items of a Responses answer, each with its parts: messages, thoughts, calls of our tools and the provider's."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.hub.events import Json
from dragoman.hub.events.stream import PartKind

from .openai_stream import list_in, text_in
from .port import CallMade, PartClosed, PartGrew, PartOpened, ProviderCallEnded, StreamEvent

SEARCH_TOOL = "webSearch"
"""What the search tool is called that the provider runs."""


class Parts:
    """The ids of an answer's parts: the provider's own, made unique."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def __len__(self) -> int:
        return len(self._taken)

    def named(self, wanted: str, otherwise: str) -> str:
        """This id, or one like it that no part has yet."""
        part = wanted = wanted or otherwise
        again = 1
        while part in self._taken:
            again += 1
            part = f"{wanted}.{again}"
        self._taken.add(part)
        return part


class TextItem:
    """A message: a part for each of its contents, refusals among them. The first is there even if it stays empty."""

    kind: PartKind = "text"

    def __init__(self, parts: Parts, item: dict[str, Any]) -> None:
        self._parts = parts
        self._id = text_in(item, "id")
        self._open: dict[int, str] = {}
        self._grown: set[int] = set()

    def begin(self) -> list[StreamEvent]:
        """Open the first part."""
        return self._opened(0)

    def grow(self, content: int, text: str) -> list[StreamEvent]:
        """More text of the content at this place."""
        events = [] if content in self._open else self._opened(content)
        self._grown.add(content)
        events.append(PartGrew(self._open[content], text))
        return events

    def _opened(self, content: int) -> list[StreamEvent]:
        name = f"{self._id}:{content}" if content and self._id else self._id
        part = self._open[content] = self._parts.named(name, "txt")
        return [PartOpened(part, self.kind, metadata=_item(self._id))]

    def whole(self, content: int, text: str) -> list[StreamEvent]:
        """All text of that content, for servers that send no deltas."""
        return [] if content in self._grown or not text else self.grow(content, text)

    def end(self, item: dict[str, Any]) -> list[StreamEvent]:
        """It is complete."""
        events: list[StreamEvent] = []
        for place, content in enumerate(list_in(item, "content")):
            events += self.whole(place, text_in(content, "text") or text_in(content, "refusal"))
        phase = text_in(item, "phase")
        metadata = {"phase": phase} if phase else None
        events += [PartClosed(part, metadata) for part in self._open.values()]
        return events


class ReasoningItem:
    """A thought: a part for each piece of its summary, ``rs_…:0`` the first, which is there even if it stays empty.

    The last part closes with the item: only then its encrypted form is known.
    """

    def __init__(self, parts: Parts, item: dict[str, Any]) -> None:
        self._parts = parts
        self._id = text_in(item, "id")
        self._part = ""
        self._piece: tuple[str, int] | None = None
        self._grown: set[tuple[str, int]] = set()
        self._count = 0
        self._plain = False
        """Whether it is the thought itself, as open models give it, and no summary."""

    def begin(self) -> list[StreamEvent]:
        """Open the next part."""
        self._part = self._parts.named(f"{self._id or 'reasoning'}:{self._count}", "")
        self._count += 1
        return [PartOpened(self._part, "reasoning", metadata=_item(self._id))]

    def grow(self, piece: tuple[str, int], text: str) -> list[StreamEvent]:
        """More of this piece: ``summary`` or ``content``, and its place."""
        events = self._turned(piece)
        if not text:
            return events
        self._grown.add(piece)
        return [*events, PartGrew(self._part, text)]

    def whole(self, piece: tuple[str, int], text: str) -> list[StreamEvent]:
        """All of this piece, for servers that send no deltas."""
        return self.grow(piece, text) if text and piece not in self._grown else []

    def end(self, item: dict[str, Any]) -> list[StreamEvent]:
        """It is complete."""
        events: list[StreamEvent] = []
        if not self._grown:
            for kind in ("summary", "content"):
                for place, entry in enumerate(list_in(item, kind)):
                    events += self.whole((kind, place), text_in(entry, "text"))
        return [*events, PartClosed(self._part, self._metadata(text_in(item, "encrypted_content")))]

    def _turned(self, piece: tuple[str, int]) -> list[StreamEvent]:
        """Make this the piece that grows."""
        if piece == self._piece:
            return []
        first = self._piece is None
        closed: list[StreamEvent] = [] if first else [PartClosed(self._part, self._metadata(""))]
        self._piece = piece
        self._plain = self._plain or piece[0] == "content"
        return [] if first else [*closed, *self.begin()]

    def _metadata(self, encrypted: str) -> Json:
        metadata: dict[str, Json] = {"item": self._id}
        if encrypted:
            metadata["encrypted_content"] = encrypted
        if self._plain:
            metadata["plain"] = True
        return metadata


class CallItem:
    """A call of one of our tools."""

    def __init__(self, parts: Parts, item: dict[str, Any]) -> None:
        self._id = text_in(item, "id")
        self._part = parts.named(text_in(item, "call_id") or self._id, "call")
        self._tool = text_in(item, "name")
        self._arguments: list[str] = []

    def begin(self) -> list[StreamEvent]:
        """Open its part."""
        return [PartOpened(self._part, "tool_input", tool=self._tool, metadata=_item(self._id))]

    def grow(self, text: str) -> list[StreamEvent]:
        """More of its arguments."""
        self._arguments.append(text)
        return [PartGrew(self._part, text)]

    def whole(self, given: Json) -> list[StreamEvent]:
        """All of its arguments, for servers that send no deltas."""
        if self._arguments or not given:
            return []
        return self.grow(given if isinstance(given, str) else msgspec.json.encode(given).decode())

    def end(self, item: dict[str, Any]) -> list[StreamEvent]:
        """It is complete."""
        events = self.whole(item.get("arguments"))
        text = "".join(self._arguments)
        return [*events, PartClosed(self._part), CallMade(self._part, self._tool, text if text.strip() else "{}")]


class SearchItem:
    """A search of the web that the provider runs; its input is known when it ends."""

    def __init__(self, parts: Parts, item: dict[str, Any]) -> None:
        self._part = parts.named(text_in(item, "id"), "search")

    def begin(self) -> list[StreamEvent]:
        """Open its part."""
        return [PartOpened(self._part, "tool_input", tool=SEARCH_TOOL, by_provider=True)]

    def end(self, item: dict[str, Any]) -> list[StreamEvent]:
        """It has ended, well or not."""
        action = item.get("action")
        asked = {k: v for k, v in action.items() if k != "sources"} if isinstance(action, dict) else {}
        status = text_in(item, "status") or "incomplete"
        found = action.get("sources") if isinstance(action, dict) else None
        output = {"status": status, **({"sources": found} if found else {})}
        events: list[StreamEvent] = []
        if asked:
            events.append(PartGrew(self._part, msgspec.json.encode(asked).decode()))
        events.append(PartClosed(self._part))
        events.append(ProviderCallEnded(self._part, SEARCH_TOOL, asked, output, failed=status != "completed"))
        return events


def _item(given: str) -> Json:
    """What a part says of its item."""
    return {"item": given} if given else None


Item = TextItem | ReasoningItem | CallItem | SearchItem

_KINDS: dict[str, type[Item]] = {
    "message": TextItem,
    "reasoning": ReasoningItem,
    "function_call": CallItem,
    "web_search_call": SearchItem,
}


def item_of(parts: Parts, item: dict[str, Any]) -> Item | None:
    """A new item, or None for one of a kind that was never asked for."""
    kind = _KINDS.get(text_in(item, "type"))
    return kind(parts, item) if kind is not None else None


def is_a(found: Item, item: dict[str, Any]) -> bool:
    """Whether this object is an item of the same kind."""
    return _KINDS.get(text_in(item, "type")) is type(found)

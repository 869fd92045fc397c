"""Events of a Responses stream, made into ours.

Items are known by their place in the output, not by their id: some servers change that on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from dragoman.hub.events import Json

from .openai_stream import ErrorEvent, count_in, cut_off, dict_in, list_in, place_in, text_in
from .port import CallMade, Cited, Finished, FinishReason, Spent, StreamEvent
from .responses_items import CallItem, Item, Parts, ReasoningItem, TextItem, is_a, item_of

_INCOMPLETE: dict[str, FinishReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
_DESCRIBED = ("id", "model", "created_at", "service_tier")
_LAST = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})

_Event = dict[str, Any]
_I = TypeVar("_I", TextItem, ReasoningItem, CallItem)


class ResponsesReader:
    """One answer."""

    def __init__(self) -> None:
        self.ended = False
        self._parts = Parts()
        self._items: dict[Json, Item] = {}
        self._called = False
        self._cited: set[str] = set()
        self._response: dict[str, Any] = {}

    def read(self, event: _Event) -> list[StreamEvent]:
        """See ``Reader``."""
        kind = event.get("type")
        read = self._READ.get(kind) if isinstance(kind, str) else None
        if read is not None:
            return read(self, event)
        if kind in _LAST:
            self._response = dict_in(event, "response")
            self.ended = True
        elif kind == "error":
            raise ErrorEvent({name: value for name, value in event.items() if name not in {"type", "sequence_number"}})
        elif event.get("object") == "response":  # a server that does not stream
            self._response = event
            self.ended = True
        elif event.get("error"):
            raise ErrorEvent(event)
        return []

    def end(self) -> list[StreamEvent]:
        """See ``Reader``."""
        if not self.ended:
            raise cut_off()
        status = text_in(self._response, "status")
        if self._response.get("error") or status in {"failed", "cancelled"}:
            raise ErrorEvent(self._response.get("error") or {"message": f"the provider says the response {status}"})
        events = self._unstreamed() + self._left()
        reason, raw = self._reason(status)
        described = {name: self._response[name] for name in _DESCRIBED if self._response.get(name) is not None}
        return [
            *events,
            _spent(dict_in(self._response, "usage")),
            Finished(reason, raw, described or None, self._metadata()),
        ]

    def _metadata(self) -> Json:
        told = {"response_id": self._response.get("id"), "service_tier": self._response.get("service_tier")}
        return {name: value for name, value in told.items() if value is not None} or None

    def _reason(self, status: str) -> tuple[FinishReason, str | None]:
        details = dict_in(self._response, "incomplete_details")
        if status == "incomplete" or details:
            why = text_in(details, "reason")
            return _INCOMPLETE.get(why, "other"), why or status
        return "tool_calls" if self._called else "stop", status or None

    def _unstreamed(self) -> list[StreamEvent]:
        """Output that came only with the last event."""
        output = self._response.get("output")
        if len(self._parts) or not isinstance(output, list):
            return []
        events: list[StreamEvent] = []
        for place, item in enumerate(output):
            events += self._done({"output_index": place, "item": item})
        return events

    def _left(self) -> list[StreamEvent]:
        """Close what the provider did not say was done. What it had not streamed may have come with the last event."""
        events: list[StreamEvent] = []
        for place, item in list(self._items.items()):
            events += self._closed(place, self._final(place, item))
        return events

    def _final(self, place: Json, item: Item) -> _Event:
        output = list_in(self._response, "output")
        given = output[place] if isinstance(place, int) and 0 <= place < len(output) else None
        return given if isinstance(given, dict) and is_a(item, given) else {}

    def _place(self, event: _Event) -> Json:
        place = event.get("output_index")
        return place if isinstance(place, int) else text_in(event, "item_id") or text_in(dict_in(event, "item"), "id")

    def _added(self, event: _Event) -> list[StreamEvent]:
        return self._begun(self._place(event), dict_in(event, "item"))

    def _begun(self, place: Json, given: _Event) -> list[StreamEvent]:
        """Begin an item at this place, and end another that still is there."""
        item = item_of(self._parts, given)
        if item is None:
            return []
        events = self._closed(place, {})
        self._items[place] = item
        return [*events, *item.begin()]

    def _done(self, event: _Event) -> list[StreamEvent]:
        place, given = self._place(event), dict_in(event, "item")
        found = self._items.get(place)
        if found is not None and (not given.get("type") or is_a(found, given)):
            return self._closed(place, given)
        begun = self._begun(place, given)
        return begun + self._closed(place, given) if self._items.get(place) is not found else begun

    def _closed(self, place: Json, given: _Event) -> list[StreamEvent]:
        """End the item at this place, if there is one."""
        item = self._items.pop(place, None)
        if item is None:
            return []
        events = item.end(given)
        self._called = self._called or any(isinstance(made, CallMade) for made in events)
        for content in list_in(given, "content"):
            for annotation in list_in(content, "annotations"):
                events += self._cite(annotation)
        return events

    def _at(self, event: _Event, kind: type[_I], name: str) -> tuple[_I | None, list[StreamEvent]]:
        """The item that this event belongs to. One that nothing announced begins with it, and ends another there."""
        place = self._place(event)
        found = self._items.get(place)
        if isinstance(found, kind):
            return found, []
        if kind is CallItem:  # without its name it is none
            return None, []
        events = self._begun(place, {"type": name, "id": event.get("item_id")})
        begun = self._items.get(place)
        return (begun if isinstance(begun, kind) else None), events

    def _text(self, event: _Event) -> list[StreamEvent]:
        text = event.get("delta")
        if not text or not isinstance(text, str):
            return []
        item, events = self._at(event, TextItem, "message")
        return events + item.grow(place_in(event, "content_index"), text) if item else []

    def _text_done(self, event: _Event) -> list[StreamEvent]:
        text = text_in(event, "text") or text_in(event, "refusal")
        item, events = self._at(event, TextItem, "message")
        return events + item.whole(place_in(event, "content_index"), text) if item else []

    def _summary(self, event: _Event) -> list[StreamEvent]:
        return self._thought(event, ("summary", place_in(event, "summary_index")))

    def _content(self, event: _Event) -> list[StreamEvent]:
        return self._thought(event, ("content", place_in(event, "content_index")))

    def _thought(self, event: _Event, piece: tuple[str, int]) -> list[StreamEvent]:
        item, events = self._at(event, ReasoningItem, "reasoning")
        if item is None:
            return []
        if "text" in event:
            return events + item.whole(piece, text_in(event, "text"))
        return events + item.grow(piece, text_in(event, "delta"))

    def _arguments(self, event: _Event) -> list[StreamEvent]:
        item, events = self._at(event, CallItem, "function_call")
        text = text_in(event, "delta")
        return events + item.grow(text) if item and text else events

    def _arguments_done(self, event: _Event) -> list[StreamEvent]:
        item, events = self._at(event, CallItem, "function_call")
        return events + item.whole(event.get("arguments")) if item else events

    def _annotation(self, event: _Event) -> list[StreamEvent]:
        return self._cite(event.get("annotation"))

    def _cite(self, annotation: Json) -> list[StreamEvent]:
        """A source, once however often it is named. Files have no URL."""
        url = text_in(annotation, "url")
        if not url or url in self._cited:
            return []
        self._cited.add(url)
        title = text_in(annotation, "title")
        return [Cited({"url": url, "title": title} if title else {"url": url})]

    _READ: ClassVar[dict[str, Callable[[ResponsesReader, _Event], list[StreamEvent]]]] = {
        "response.output_text.delta": _text,
        "response.output_text.done": _text_done,
        "response.refusal.delta": _text,
        "response.refusal.done": _text_done,
        "response.reasoning_summary_part.added": _summary,
        "response.reasoning_summary_text.delta": _summary,
        "response.reasoning_summary_text.done": _summary,
        "response.reasoning_text.delta": _content,
        "response.reasoning_text.done": _content,
        "response.function_call_arguments.delta": _arguments,
        "response.function_call_arguments.done": _arguments_done,
        "response.output_item.added": _added,
        "response.output_item.done": _done,
        "response.output_text.annotation.added": _annotation,
    }


def _spent(usage: dict[str, Any]) -> Spent:
    return Spent(
        count_in(usage, "input_tokens"),
        count_in(usage, "output_tokens"),
        count_in(dict_in(usage, "output_tokens_details"), "reasoning_tokens"),
        count_in(dict_in(usage, "input_tokens_details"), "cached_tokens"),
    )

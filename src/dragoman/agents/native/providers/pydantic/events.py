"""The library's stream events as ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from pydantic_ai.messages import (
    Citation,
    ModelResponsePart,
    ModelResponseStreamEvent,
    NativeToolCallPart,
    NativeToolReturnPart,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import StreamedResponse
from pydantic_core import to_jsonable_python

from dragoman.agents.native.providers.port import (
    CallMade,
    Cited,
    PartClosed,
    PartGrew,
    PartOpened,
    ProviderCallEnded,
    StreamEvent,
)
from dragoman.hub.events import Json
from dragoman.hub.events.stream import PartKind

from .messages import metadata_of

_Call = ToolCallPart | NativeToolCallPart

_NAMES = {"web_search": "webSearch"}
"""Tools that providers run, as our other adapters call them."""


class _Open(msgspec.Struct):
    """A part that was opened. ``part`` is our id of it."""

    part: str
    call: bool
    closed: bool = False


class Translation:
    """One stream, translated as it comes: ``of`` every event, then the ``rest``. ``segment`` counts the streams of
    one answer, whose parts are to have names of their own.

    Thoughts stay open until something else begins, since their signature may come after their text. With
    ``calls_overlap`` calls stay open until the end, since their arguments may come in turns.
    """

    def __init__(self, response: StreamedResponse, *, segment: int, calls_overlap: bool) -> None:
        self._response = response
        self._prefix = f"{segment}." if segment else ""
        self._calls_overlap = calls_overlap
        self._open: dict[int, _Open] = {}

    def of(self, event: ModelResponseStreamEvent) -> Iterator[StreamEvent]:
        """What an event becomes."""
        if isinstance(event, PartStartEvent):
            yield from self._started(event.index, event.part)
        elif isinstance(event, PartDeltaEvent):
            yield from self._grown(event.index, event.delta)
        elif isinstance(event, PartEndEvent):
            yield from self._ended(event.index, event.part)

    def rest(self) -> Iterator[StreamEvent]:
        """What was still open, closed."""
        for index in list(self._open):
            yield from self._close(index)

    def _started(self, index: int, part: ModelResponsePart) -> Iterator[StreamEvent]:
        if index in self._open:  # the library gives a part that it completed a second time
            return
        if not isinstance(part, ThinkingPart):
            yield from self._close_thoughts()
        if isinstance(part, NativeToolReturnPart):
            yield from self._provider_ended(part)
        elif isinstance(part, TextPart):
            yield self._opened(index, PartOpened(f"{self._prefix}text-{index}", "text"))
            yield from self._grew(index, part.content)
            yield from _cited(part.citations)
        elif isinstance(part, ThinkingPart):
            yield self._opened(index, PartOpened(f"{self._prefix}reasoning-{index}", "reasoning"))
            yield from self._grew(index, part.content)
        elif isinstance(part, _Call):
            own = isinstance(part, ToolCallPart)
            yield self._opened(
                index, PartOpened(part.tool_call_id, "tool_input", tool=_named(part), by_provider=not own)
            )
            yield from self._grew(index, _json_text(part.args))

    def _grown(self, index: int, delta: Any) -> Iterator[StreamEvent]:
        if isinstance(delta, TextPartDelta):
            yield from self._grew(index, delta.content_delta)
            yield from _cited(delta.citations_delta)
        elif isinstance(delta, ThinkingPartDelta):
            yield from self._grew(index, delta.content_delta or "")
        elif isinstance(delta, ToolCallPartDelta):
            yield from self._grew(index, _json_text(delta.args_delta))

    def _ended(self, index: int, part: ModelResponsePart) -> Iterator[StreamEvent]:
        stays = isinstance(part, ThinkingPart) or (self._calls_overlap and isinstance(part, ToolCallPart))
        if not stays:
            yield from self._close(index)

    def _opened(self, index: int, event: PartOpened) -> PartOpened:
        self._open[index] = _Open(event.part, event.kind == "tool_input")
        return event

    def _grew(self, index: int, text: str) -> Iterator[StreamEvent]:
        if not text:
            return
        known = self._open[index]
        if known.closed:  # more of a part whose end was told
            kind: PartKind = "reasoning" if "reasoning-" in known.part else "text"
            yield self._opened(index, PartOpened(f"{known.part}+", kind))
        yield PartGrew(self._open[index].part, text)

    def _close_thoughts(self) -> Iterator[StreamEvent]:
        for index, known in list(self._open.items()):
            if not known.closed and not known.call:
                yield from self._close(index)

    def _close(self, index: int) -> Iterator[StreamEvent]:
        known = self._open.get(index)
        if known is None or known.closed:
            return
        known.closed = True
        part = self._response.get().parts[index]
        if not isinstance(part, TextPart | ThinkingPart | ToolCallPart):
            yield PartClosed(known.part)
            return
        metadata = metadata_of(part)
        yield PartClosed(known.part, metadata)
        if isinstance(part, ToolCallPart):
            yield CallMade(known.part, part.tool_name, _json_text(part.args).strip() or "{}", metadata)

    def _provider_ended(self, part: NativeToolReturnPart) -> Iterator[StreamEvent]:
        given: Json = None
        for index, known in list(self._open.items()):
            if known.part == part.tool_call_id:
                yield from self._close(index)
                given = self._input(index)
        output = to_jsonable_python(part.content, fallback=str)
        failed = part.outcome != "success"
        yield ProviderCallEnded(part.tool_call_id, _named(part), given, output, failed)

    def _input(self, index: int) -> Json:
        part = self._response.get().parts[index]
        return to_jsonable_python(part.args_as_dict(), fallback=str) if isinstance(part, _Call) else None


def _named(part: _Call | NativeToolReturnPart) -> str:
    own = isinstance(part, ToolCallPart)
    return part.tool_name if own else _NAMES.get(part.tool_name, part.tool_name)


def _json_text(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else msgspec.json.encode(to_jsonable_python(arguments)).decode()


def _cited(citations: list[Citation] | None) -> Iterator[Cited]:
    for citation in citations or ():
        for source in citation.sources:
            if source.kind == "web":
                yield Cited({"url": source.url, **({"title": source.title} if source.title else {})})

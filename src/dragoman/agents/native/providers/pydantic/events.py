"""The library's stream events as ours."""

from __future__ import annotations

import json
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
    """A part that was opened. ``part`` is our id of it, ``given`` the provider's of a call: it may give one twice."""

    part: str
    call: bool
    given: str
    closed: bool = False


class Translation:
    """One stream, translated as it comes: ``of`` every event, then the ``rest``. ``segment`` counts the streams of
    one answer, whose parts are to have names of their own.

    Thoughts stay open until something else begins, since their signature may come after their text. With
    ``calls_overlap`` calls stay open until the end, since their arguments may come in turns. ``taken`` are the names
    of the answer's parts so far, to which this one's are added.
    """

    def __init__(self, response: StreamedResponse, *, segment: int, calls_overlap: bool, taken: set[str]) -> None:
        self._response = response
        self._prefix = f"{segment}." if segment else ""
        self._calls_overlap = calls_overlap
        self._taken = taken
        self._open: dict[int, _Open] = {}
        self._returned: set[str] = set()

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
            opened = PartOpened(self._unique(part.tool_call_id), "tool_input", tool=_named(part), by_provider=not own)
            yield self._opened(index, opened, part.tool_call_id)
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

    def _opened(self, index: int, event: PartOpened, given: str = "") -> PartOpened:
        self._open[index] = _Open(event.part, event.kind == "tool_input", given)
        self._taken.add(event.part)
        return event

    def _unique(self, given: str) -> str:
        """The provider's id of a call where it gave one, and only this once; else one made from it."""
        given = unique = given or f"{self._prefix}call"
        count = 1
        while unique in self._taken:
            count += 1
            unique = f"{given}-{count}"
        return unique

    def _grew(self, index: int, text: str) -> Iterator[StreamEvent]:
        if not text:
            return
        known = self._open[index]
        if known.closed and known.call:
            return  # it was made with the arguments that it had
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
        call = None
        for index, known in list(self._open.items()):
            if call is None and known.call and known.given == part.tool_call_id and known.part not in self._returned:
                yield from self._close(index)
                call, given = known.part, self._input(index)
        if call is None:
            call = self._unique(part.tool_call_id)
            self._taken.add(call)
        self._returned.add(call)
        output = to_jsonable_python(part.content, fallback=str)
        failed = part.outcome != "success"
        yield ProviderCallEnded(call, _named(part), given, output, failed)

    def _input(self, index: int) -> Json:
        part = self._response.get().parts[index]
        return to_jsonable_python(part.args_as_dict(), fallback=str) if isinstance(part, _Call) else None


def _named(part: _Call | NativeToolReturnPart) -> str:
    own = isinstance(part, ToolCallPart)
    return part.tool_name if own else _NAMES.get(part.tool_name, part.tool_name)


def _json_text(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    if arguments is None:
        return ""
    given = to_jsonable_python(arguments)
    try:
        return msgspec.json.encode(given).decode()
    except (UnicodeEncodeError, OverflowError):  # halves of characters, numbers of any length
        return json.dumps(given)


def _cited(citations: list[Citation] | None) -> Iterator[Cited]:
    for citation in citations or ():
        for source in citation.sources:
            if source.kind == "web":
                yield Cited({"url": source.url, **({"title": source.title} if source.title else {})})

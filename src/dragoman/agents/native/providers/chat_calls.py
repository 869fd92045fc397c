"""Tool calls of a Chat Completions stream, put together from deltas that each server fills in its own way.

A delta belongs to the call of its ``index``. Some servers give none; some give every call the same one; some a new id
with each delta, or no id at all; some the same call twice. A name that is given again begins a new call where the id
differs too, or where the call so far is already complete.
"""

from __future__ import annotations

import uuid

import msgspec

from dragoman.hub.events import Json

from .openai_stream import text_in
from .port import CallMade, PartClosed, PartGrew, PartOpened, ProviderFailed, StreamEvent

MOST_CALLS = 1000
"""Calls of one answer."""

SMALL = 64 * 1024
"""Characters of arguments that are looked at with every delta; of more, whenever they have doubled."""


class _Call:
    __slots__ = ("arguments", "given", "looked", "part", "size", "tool", "waiting")

    def __init__(self, given: str) -> None:
        self.given = given
        """The provider's id, or nothing."""
        self.part = ""
        """Ours, once the call is opened."""
        self.tool = ""
        self.arguments: list[str] = []
        self.waiting: list[str] = []
        """Arguments that came before the name."""
        self.size = 0
        """Characters of all of them."""
        self.looked = 0
        """How many there were when they were last looked at."""

    def is_complete(self) -> bool:
        """Whether its arguments are an object, as far as that can be told without reading all of them each time."""
        if self.size > SMALL and self.size < 2 * self.looked:
            return False
        self.looked = self.size
        return _is_object(self.text())

    def text(self) -> str:
        return "".join([*self.arguments, *self.waiting])


class ChatCalls:
    """The calls of one answer."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_given: dict[str, _Call] = {}
        self._parts: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._calls)

    def read(self, delta: Json) -> list[StreamEvent]:
        """One entry of ``tool_calls``."""
        if not isinstance(delta, dict):
            return []
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        name, given, more = text_in(function, "name"), text_in(delta, "id"), _arguments(function.get("arguments"))
        call = self._known(delta.get("index"), given, name)
        if call is not None and name and call.tool:
            call = self._again(call, given, name, more)
            if call is None:
                return []
        return self._grown(call or self._begun(delta.get("index"), given), name, more)

    def end(self) -> list[StreamEvent]:
        """Close them all, in the order they began."""
        events: list[StreamEvent] = []
        for call in self._calls:
            if not call.part:
                events += self._opened(call)
            arguments = call.text()
            events.append(PartClosed(call.part))
            events.append(CallMade(call.part, call.tool, arguments if arguments.strip() else "{}"))
        self._calls, self._by_index, self._by_given = [], {}, {}
        return events

    def _known(self, index: Json, given: str, name: str) -> _Call | None:
        if isinstance(index, int):
            return self._by_index.get(index)
        if given:
            return self._by_given.get(given)
        return self._calls[-1] if self._calls and not name else None

    def _again(self, call: _Call, given: str, name: str, more: str) -> _Call | None:
        """The call that a repeated name continues, a new one, or None for a mere repetition."""
        if given and call.given and given != call.given:
            return self._begun(self._index_of(call), given)
        if not more.strip() or not call.is_complete():
            return call
        if given and given == call.given and name == call.tool and more == call.text():
            return None
        return self._begun(self._index_of(call), given)

    def _index_of(self, call: _Call) -> int | None:
        return next((index for index, known in self._by_index.items() if known is call), None)

    def _begun(self, index: Json, given: str) -> _Call:
        if len(self._calls) == MOST_CALLS:
            raise ProviderFailed(f"the provider sent more than {MOST_CALLS} calls in one answer")
        call = _Call(given)
        self._calls.append(call)
        if given:
            self._by_given.setdefault(given, call)
        if isinstance(index, int):
            self._by_index[index] = call
        return call

    def _grown(self, call: _Call, name: str, more: str) -> list[StreamEvent]:
        call.size += len(more)
        if not call.part:
            if more:
                call.waiting.append(more)
            call.tool = name
            return self._opened(call) if name else []
        if not more:
            return []
        call.arguments.append(more)
        return [PartGrew(call.part, more)]

    def _opened(self, call: _Call) -> list[StreamEvent]:
        call.part = call.given if call.given and call.given not in self._parts else f"call_{uuid.uuid4().hex[:24]}"
        self._parts.add(call.part)
        events: list[StreamEvent] = [PartOpened(call.part, "tool_input", tool=call.tool)]
        events += [PartGrew(call.part, more) for more in call.waiting]
        call.arguments += call.waiting
        call.waiting = []
        return events


def _arguments(given: Json) -> str:
    if isinstance(given, str):
        return given
    return "" if given is None else msgspec.json.encode(given).decode()


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False

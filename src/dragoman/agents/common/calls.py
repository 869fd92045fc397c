"""Tool calls, each with one begin and one end, whoever tells of them and whether or not it knows their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from dragoman.hub.events import AnyFact, Json, Origin, ToolCalled, ToolEnded

MAX_CALLS = 2048
"""Calls that are remembered. An agent has few open at once; the rest is for sources that tell of them late."""

UNKNOWN = "unknown"
"""The tool of a call whose begin nobody has told of."""

OWN = "local-"
"""How ids begin that we gave to calls without one, where a log is read again later: they are still known for ours."""


class _Call:
    def __init__(self, call: str, tool: str, input_: Json, *, named_here: bool) -> None:
        self.call = call
        self.tool = tool
        self.input = input_
        self.named_here = named_here
        """Its first source gave it no id, so another source's id may mean it."""
        self.begun_by: set[str] = set()
        self.ended_by: set[str] = set()
        self.begin_due = False
        """Its end came first, so its begin may still be on its way."""
        self.ended_at: int | None = None


class Calls:
    """The calls of one run. ``ids`` names those that came without a name."""

    def __init__(self, ids: Callable[[], str]) -> None:
        self._ids = ids
        self._calls: dict[str, _Call] = {}
        self._nameless: dict[_Call, None] = {}
        """Those that ``named_here`` is true of: an id that nobody knows may mean one of them."""

    def called(self, fact: ToolCalled) -> Iterator[AnyFact]:
        """The begin, if it is news."""
        source = source_of(fact)
        known = self._calls.get(fact.call) if fact.call else None
        if known is None:
            known = self._meant(fact, [call for call in self._candidates(fact) if self._may_be(call, fact, source)])
        if known is not None:
            known.begun_by.add(source)
            known.begin_due = False
            return
        yield self._begin(fact, source)

    def ended(self, fact: ToolEnded) -> Iterator[AnyFact]:
        """The end, if it is news, with its begin before it if that is not known."""
        source = source_of(fact)
        known = self._calls.get(fact.call) if fact.call else None
        if known is None:
            known = self._meant(fact, [call for call in self._candidates(fact) if self._may_end(call, fact, source)])
        if known is None:
            begin = ToolCalled(
                call=fact.call,
                tool=fact.tool or UNKNOWN,
                input=fact.input,
                turn=fact.turn,
                executor="agent",
                origin=_unnamed(fact.origin),
            )
            begun = self._begin(begin, source)
            yield begun
            known = self._calls[begun.call]
            known.begin_due = True
        over = bool(known.ended_by)
        known.ended_by.add(source)
        known.ended_at = known.ended_at or _moment(fact)
        if not known.named_here:
            known.input = None  # its id says which it is
        if not over:
            yield msgspec.structs.replace(fact, call=known.call, tool=known.tool)

    def _begin(self, fact: ToolCalled, source: str) -> ToolCalled:
        if not fact.call:
            fact = msgspec.structs.replace(fact, call=self._ids())
            named_here = True
        else:
            named_here = fact.call.startswith(OWN)
        call = _Call(fact.call, fact.tool, fact.input, named_here=named_here)
        call.begun_by.add(source)
        if named_here:
            self._nameless[call] = None
        self._remember(fact.call, call)
        return fact

    def _may_be(self, call: _Call, fact: ToolCalled, source: str) -> bool:
        if call.tool != fact.tool:
            return False
        if call.begin_due and not fact.call:
            # told late, or that of another call whose end is yet to come: clocks say which, else it is the first, since
            # another call that is taken for it is told with its end, and one that is none would never end
            at = _moment(fact)
            late = at is None or call.ended_at is None or at <= call.ended_at
            return call.input == fact.input and late
        if source in call.begun_by:
            return False
        # a begin without a name comes before its end, so it never means a call that is over
        return call.named_here if fact.call else not call.ended_by and call.input == fact.input

    def _may_end(self, call: _Call, fact: ToolEnded, source: str) -> bool:
        if call.tool != fact.tool or source in call.ended_by:
            return False
        return call.named_here if fact.call else source in call.begun_by

    def _meant(self, fact: ToolCalled | ToolEnded, fits: list[_Call]) -> _Call | None:
        """The call that is meant although no id says so: one with the same input, else the oldest that it can be."""
        best = next((call for call in fits if call.input == fact.input), fits[0] if fits else None)
        if best is not None and fact.call:
            best.named_here = False
            self._nameless.pop(best, None)
            self._remember(fact.call, best)
        return best

    def _candidates(self, fact: ToolCalled | ToolEnded) -> Iterable[_Call]:
        """Those that it may mean although no id says so, the oldest first."""
        return self._nameless if fact.call else dict.fromkeys(self._calls.values())

    def _remember(self, name: str, call: _Call) -> None:
        self._calls[name] = call
        if len(self._calls) > MAX_CALLS:
            self._nameless.pop(self._calls.pop(next(iter(self._calls))), None)


def _moment(fact: AnyFact) -> int | None:
    """When it happened by its source's own clock."""
    return fact.origin.at if fact.origin is not None else None


def _unnamed(origin: Origin | None) -> Origin | None:
    """As the source of something else that is known by it: the poster's id is that of the one that was told."""
    return None if origin is None else msgspec.structs.replace(origin, id=None)


def source_of(fact: AnyFact) -> str:
    """Who told of it."""
    return fact.origin.source if fact.origin is not None else ""

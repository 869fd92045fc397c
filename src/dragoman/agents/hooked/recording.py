"""What of all that is told is news, and putting that into the session's log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from dragoman.agents.common.ledger import Ledger
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import (
    AnyFact,
    Event,
    HistoryReset,
    Json,
    Notified,
    Origin,
    SubagentEnded,
    SubagentStarted,
    ToolCalled,
)
from dragoman.hub.session import Session
from dragoman.hub.standing import OpenCall

from .occurrences import Occurrences

SEEN_IDS = 1000
"""Ids of posted events that are remembered: the same id twice is one event."""

DEPTH = 100
"""Levels of what a post brings that are kept of one that nests too deep for any disk."""


class Recording:
    """Of one session, from where its log ends now."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ledger = Ledger(session.ids)
        self._ledger.admit(_call_of(call) for call in session.state.calls.values())
        self._occurrences = Occurrences()
        self._ids: dict[str, None] = {}

    async def read_back(self) -> None:
        """Know the ids of what was recorded before."""
        for event in await self._session.read_back(None, SEEN_IDS):
            if event.fact.origin is not None and event.fact.origin.id is not None:
                self.first(event.fact.origin.id)

    def first(self, event: str) -> bool:
        """Whether an event of this id, its poster's own, has not come before."""
        if event in self._ids:
            return False
        self._ids[event] = None
        if len(self._ids) > SEEN_IDS:
            del self._ids[next(iter(self._ids))]
        return True

    def happened(self, kind: str, source: str, words: str | None = None) -> bool:
        """Whether this is the first that is told of it."""
        return self._occurrences.news(kind, source, self._session.clock.monotonic(), words)

    def news(self, facts: Iterable[AnyFact]) -> list[AnyFact]:
        """Those that nobody has told of yet, in order."""
        return [news for fact in facts for news in self._news(fact)]

    def _news(self, fact: AnyFact) -> Iterator[AnyFact]:
        source = fact.origin.source if fact.origin is not None else ""
        match fact:
            case Notified():
                if self.happened(f"notified:{fact.message}", source):
                    yield fact
            case SubagentStarted():
                if self.happened(f"subagent started:{fact.subagent}", source):
                    yield fact
            case SubagentEnded():
                if self.happened(f"subagent ended:{fact.subagent}", source):
                    named = fact.subagent or self._session.ids()
                    yield msgspec.structs.replace(fact, subagent=named)
            case HistoryReset():
                return  # what begins anew is another session
            case _:
                yield from self._ledger.admit((fact,))

    def record_all(self, facts: Iterable[AnyFact]) -> None:
        for fact in facts:
            self.record(fact)

    def record(self, fact: AnyFact, *, settling: bool = False) -> Event:
        """Into the log, without what no disk can hold of it. Raises ``StorageUnavailable``."""
        try:
            return self._session.record(fact, settling=settling)
        except InvalidRequest:
            return self._session.record(_storable(fact), settling=settling)


def _storable(fact: AnyFact) -> AnyFact:
    cleaned = {name: _clean(getattr(fact, name)) for name in fact.__struct_fields__}
    return msgspec.structs.replace(fact, **cleaned)


def _clean(value: Json, depth: int = 0) -> Json:
    """Half characters become question marks, what nests too deep is left out."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return None if depth > DEPTH else {_clean(key): _clean(it, depth + 1) for key, it in value.items()}
        case list():
            return None if depth > DEPTH else [_clean(it, depth + 1) for it in value]
        case Origin():
            return msgspec.structs.replace(
                value, **{name: _clean(getattr(value, name)) for name in value.__struct_fields__}
            )
        case _:
            return value


def _call_of(call: OpenCall) -> ToolCalled:
    """An open call as the ledger is told of it: from here on it knows it."""
    return ToolCalled(
        call=call.call,
        tool=call.tool,
        input=call.input,
        executor="agent",
        origin=Origin(source="", subagent=call.subagent),
    )

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
    HookAnswered,
    Json,
    MessageAdded,
    Notified,
    Origin,
    SubagentEnded,
    SubagentStarted,
    ToolCalled,
)
from dragoman.hub.session import Session
from dragoman.hub.standing import OpenCall

from .occurrences import Occurrences

READ_BACK = 500
"""Events that are read again after a restart."""

SEEN_IDS = 4000
"""Ids of posted events that are remembered, of all sessions: the same id twice is one event."""

DEPTH = 100
"""Levels of what a post brings that are kept of one that nests too deep for any disk."""


class PostedIds:
    """The ids that posters gave to what they posted, of all sessions."""

    def __init__(self) -> None:
        self._seen: dict[str, None] = {}

    def first(self, event: str) -> bool:
        """Whether an event of this id has not come before."""
        if event in self._seen:
            return False
        self._seen[event] = None
        if len(self._seen) > SEEN_IDS:
            del self._seen[next(iter(self._seen))]
        return True


class Recording:
    """Of one session, from where its log ends now."""

    def __init__(self, session: Session, posted: PostedIds) -> None:
        self._session = session
        self._posted = posted
        self._ledger = Ledger(session.ids)
        self._occurrences = Occurrences()
        self._at: float | None = None
        """When on the steady clock that happened which is read back."""
        self._knows = session.head <= 1
        """Whether what was recorded before is known; of a new session that is nothing."""

    async def read_back(self) -> None:
        """Know what was recorded before: some of it may be told again, in the agent's log say."""
        if self._knows:
            return
        self._knows = True
        events = await self._session.read_back(None, READ_BACK)
        first = events[0].seq if events else 0
        older = (call for call in self._session.state.calls.values() if call.seq < first)
        self._ledger.admit(_call_of(call) for call in older)
        now, monotonic = self._session.clock.now(), self._session.clock.monotonic()
        for event in events:
            fact, origin = event.fact, event.fact.origin
            if origin is not None and origin.id is not None:
                self.first(origin.id)
            if isinstance(fact, MessageAdded) and origin is not None and origin.source != "log":
                fact = msgspec.structs.replace(fact, message="")  # its name was ours: hooks give messages none
            self._at = monotonic - (now - event.at) / 1000
            self.news((fact,))
        self._at = None

    def first(self, event: str) -> bool:
        """Whether an event of this id, its poster's own, has not come before."""
        return self._posted.first(event)

    def happened(self, kind: str, source: str, words: str | None = None) -> bool:
        """Whether this is the first that is told of it."""
        at = self._session.clock.monotonic() if self._at is None else self._at
        return self._occurrences.news(kind, source, at, words)

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
            case HookAnswered():
                if self.happened(*key_of(fact)):
                    yield fact
            case _:
                yield from self._ledger.admit((fact,))

    def record_all(self, facts: Iterable[AnyFact], *, settling: bool = False) -> None:
        for fact in facts:
            self.record(fact, settling=settling)

    def record(self, fact: AnyFact, *, settling: bool = False) -> Event:
        """Into the log, without what no disk can hold of it. Raises ``StorageUnavailable``."""
        try:
            return self._session.record(fact, settling=settling)
        except InvalidRequest:
            return self._session.record(_storable(fact), settling=settling)


def key_of(fact: HookAnswered, words: str | None = None) -> tuple[str, str, str | None]:
    """By what a start, a stop or an end is known: its kind, who tells of it, and what tells it from others."""
    source = fact.origin.source if fact.origin is not None else ""
    match fact.hook:
        case "start":
            return "start", source, fact.source if fact.source != "unknown" else None
        case "end":
            return "end", source, fact.reason
        case _ if fact.reason is not None:
            return fact.reason, source, None
        case _:
            return "stop", source, words


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

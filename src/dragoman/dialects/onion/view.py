"""A session as onion's clients see it: one fold of its log, shared by all links that show it.

The events of the newest turns are kept as they are sent, bounded in bytes; what a link wants from before that is made
again from the log, by a projection of its own.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from dragoman.hub.events import Event, PartDelta, TurnStarted
from dragoman.hub.session import Session

from . import messages as wire
from .asking import Ask
from .conversation import Conversation
from .projection import Ended, Projection, Said
from .settings import OnionSettings

NOTHING: tuple[Said, ...] = ()

_UNNAMED = b'""'
"""Stands in a session object for a session's name on the wire, which is each caller's own."""


class Outcome(msgspec.Struct, frozen=True):
    """How a turn ended, with the session as it was then (the object without its name)."""

    ended: Ended
    at: float
    session: bytes
    chat_items: bytes

    def output(self, wire_id: str) -> bytes:
        """OUTPUT, encoded, for those who know the session by this name."""
        return wire.encode(
            wire.Output(
                result=self.ended.result,
                session_id=wire_id,
                duration_ms=self.ended.duration_ms,
                session=msgspec.Raw(named(self.session, wire_id)),
                chat_items=msgspec.Raw(self.chat_items),
            )
        )

    def sync(self, wire_id: str, seq: int) -> bytes:
        """``session_sync``, encoded without its session's name."""
        session = msgspec.Raw(named(self.session, wire_id))
        return wire.encode(wire.SessionSync(id=f"ev-{seq}", ts=self.at, session=session))


def named(session: bytes, wire_id: str) -> bytes:
    """A session object with its name in it."""
    return session.replace(_UNNAMED, msgspec.json.encode(wire_id), 1)


class LastTurn(msgspec.Struct, frozen=True):
    """The newest turn: where it begins and (0: not yet) ends, and how it ended."""

    turn: str
    began: int
    ended: int = 0
    end: Ended | None = None

    @property
    def interrupted(self) -> bool:
        """Whether its server was lost in it."""
        return self.end is not None and self.end.outcome == "interrupted"


class Place(NamedTuple):
    """Where to go on: behind this place in the log, without the first ``skip`` of what the next event says."""

    cursor: int
    skip: int = 0


class Reach(msgspec.Struct, frozen=True):
    """How far a link got: up to where it was shown the log, and up to where its client has proved to have got it."""

    principal: str
    shown: int
    proved: int


DEPARTED = 16
"""Links that are gone of which is known how far they got."""


class SessionView:
    """See the module. ``seq`` is the last event taken in."""

    def __init__(self, session: Session, settings: OnionSettings) -> None:
        self.session = session
        self.seq = 0
        self.conversation = Conversation(trace_entries=settings.trace_entries)
        self.last: LastTurn | None = None
        self.told_of = ""
        """The failed turn that the console has a line of."""
        self.links = 0
        """How many show it now."""
        self.departed: deque[Reach] = deque(maxlen=DEPARTED)
        """How far links got that are gone."""
        self.present: dict[object, Callable[[], Reach]] = {}
        """How far each link is that shows it now."""
        self._outcome: Outcome | None = None
        self._room = settings.view_bytes
        self._projection = Projection()
        self._turn_start: tuple[int, Projection] = (0, Projection())
        self._said: OrderedDict[int, tuple[Said, ...]] = OrderedDict()
        self._bytes = 0
        self._kept_from = 1
        """The first event from which on what was said is known."""
        self._asks: OrderedDict[str, Said] = OrderedDict()
        self._places: dict[str, tuple[int, int]] = {}
        """Where the events of the newest turn stand whose ids do not say so, and as which (from 1) of those there."""
        self._seconds: dict[str, int] = {}
        """Where those of the newest turn stand that are the second with their id."""
        self._known_from = 0
        """Where the newest turn begins, or the one before it if that was cut off by a lost server."""

    # Taking the log in

    async def catch_up(self) -> None:
        """Take in everything that is durable. Raises ``Gone``."""
        while self.seq < self.session.shown.seq:
            for event in await self.session.read(self.seq):
                self.take(event)

    def take(self, event: Event) -> None:
        """Take the next event in; one that is known already is nothing new."""
        if event.seq <= self.seq:
            return
        assert event.seq == self.seq + 1
        if isinstance(event.fact, TurnStarted):
            self._begin(event.seq, event.fact)
        self.seq = event.seq
        said = self._projection.project(event)
        self.conversation.take(event, [each.body for each in said if each.traced])
        for count, each in enumerate(said, 1):
            self._note(event.seq, count, each)
        if said and not isinstance(event.fact, PartDelta):
            self._keep(event.seq, tuple(said))

    def _begin(self, seq: int, fact: TurnStarted) -> None:
        before = self.last
        self.last = LastTurn(fact.turn, seq)
        self._turn_start = (self.seq, self._projection.copy())
        if before is not None and before.interrupted:
            return  # its clients may come back only now: a prompt that waited begins its turn at once
        self._known_from = seq
        self._places.clear()
        self._seconds.clear()

    def _note(self, seq: int, count: int, said: Said) -> None:
        if said.ask is not None:
            self._asks[said.id] = said
            while len(self._asks) > _ASKS:
                self._asks.popitem(last=False)
        if said.id and (count > 1 or not said.id.startswith(_PREFIX)):
            self._places[said.id] = (seq, count)
        if said.second:
            self._seconds[said.id] = seq
        if said.ended is not None:
            self._outcome = self._outcome_now(said.ended) if self.links else None
            if self.last is not None:
                self.last = msgspec.structs.replace(self.last, ended=seq, end=said.ended)

    def _keep(self, seq: int, said: tuple[Said, ...]) -> None:
        self._said[seq] = said
        self._bytes += sum(len(each.body) for each in said)
        while self._bytes > self._room and len(self._said) > 1:
            oldest, gone = self._said.popitem(last=False)
            self._bytes -= sum(len(each.body) for each in gone)
            self._kept_from = oldest + 1

    # What links ask

    @property
    def running(self) -> bool:
        """Whether a turn is open, as far as the log is taken in."""
        return self.last is not None and not self.last.ended

    @property
    def asked(self) -> list[Ask]:
        """What is asked now."""
        return self._projection.asking.now

    def ask(self, request_id: str) -> Ask | None:
        """What the event with this id asked."""
        said = self._asks.get(request_id)
        return said.ask if said is not None else None

    def asking(self) -> list[tuple[int, Said]]:
        """The events that ask what is asked now, each with its place."""
        now = self.asked
        return [(_place_in(said.id) or 0, said) for said in self._asks.values() if said.ask in now]

    def outcome(self, ended: Ended) -> Outcome:
        """How this turn ended, with the session as it was then; as it is now for a turn that is long over."""
        if self._outcome is None or self._outcome.ended.turn != ended.turn:
            made = self._outcome_now(ended)
            if self.last is None or self.last.turn != ended.turn:
                return made
            self._outcome = made
        return self._outcome

    def _outcome_now(self, ended: Ended) -> Outcome:
        now = self.session.clock.now() / 1000
        return Outcome(ended, now, self.conversation.session(_UNNAMED), self.conversation.chat_items())

    def said(self, event: Event) -> Sequence[Said] | None:
        """What an event says, which is taken in if it is new; None when that is not known here any more."""
        self.take(event)
        if isinstance(event.fact, PartDelta):
            return self._projection.project(event)  # it depends on nothing before it
        if event.seq < self._kept_from:
            return None
        return self._said.get(event.seq, NOTHING)

    def resumes_at(self, event_id: str | None, principal: str) -> Place | None:
        """Where a client goes on that was shown the event with this id last; None when that is none of the newest turn,
        nor of one before it that a lost server cut off.

        Of two events with one id it may have got only the first. It has got the second one if every link of it since
        has proved that; one that is here still may be that whose end was not noticed yet.
        """
        last = self.last
        if event_id is None or last is None:
            return None
        seq, behind = self._places.get(event_id, (_place_in(event_id), 0))
        if seq is None or not self._known_from <= seq <= (last.ended or self.seq):
            return None
        second = self._seconds.get(event_id, seq)
        every = [*self.departed, *(reach() for reach in self.present.values())]
        its = [link for link in every if link.principal == principal and link.shown >= seq]
        if second > seq and its and all(link.proved >= second for link in its):
            return Place(second)
        return Place(seq - 1, behind) if behind else Place(seq)

    async def before(self, cursor: int) -> Projection:
        """A projection of its own that has taken in the log up to ``cursor``. Raises ``Gone``."""
        start, known = self._turn_start
        reached, projection = (start, known.copy()) if start <= cursor else (0, Projection())
        while reached < cursor:
            for event in await self.session.read(reached, min(self.session.limits.read_batch, cursor - reached)):
                projection.project(event)
                reached = event.seq
        return projection

    def knows(self, cursor: int) -> bool:
        """Whether what is said after this cursor is known here."""
        return cursor + 1 >= self._kept_from

    def session_object(self, wire_id: str, *, before_turn: bool = False) -> bytes:
        """The session object as it is now, or was when the open turn began."""
        return self.conversation.session(msgspec.json.encode(wire_id), before_turn=before_turn)


_PREFIX = "ev-"

_ASKS = 256
"""Questions whose ids are known, so that a late answer to one is told from an answer to nothing."""


def _place_in(event_id: str) -> int | None:
    """The place that the id of a stream event names."""
    number = event_id.removeprefix(_PREFIX)
    if number == event_id or not number.isascii() or not number.isdigit() or len(number) > 18:
        return None
    return int(number)

"""A log made by hand: facts with their places and times, as the hub would have stamped them."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.dialects.onion.projection import Projection, Said
from dragoman.hub.events import AnyFact, Event

BEGAN = 1_795_800_000_000
"""The time of the event before the first one, in milliseconds; each comes 10 ms after the one before."""


def events(facts: Iterable[AnyFact], *, after: int = 0) -> list[Event]:
    """The facts as events, from the place after ``after`` on."""
    return [Event(seq, BEGAN + 10 * seq, "epoch", fact) for seq, fact in enumerate(facts, after + 1)]


def said_by(facts: Iterable[AnyFact]) -> list[Said]:
    """All that a log says, in order."""
    projection = Projection()
    return [said for event in events(facts) for said in projection.project(event)]

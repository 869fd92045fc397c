"""Which of many sources to believe: evidence in, one state out. Pure; the caller gives the time.

Sources come in three ranks. A program status report is the program's own word, in stream order, and holds until the
next one. Hooks, window titles, the session log and a headless stream report moments, so the newest of them counts. The
screen and the process are always there and know least; they are asked when nobody else has spoken.

No source keeps its rank for ever. A hook may be lost, a report may never come, and Esc fires no hook at all: when the
screen has shown something else for ``CONTRADICTION`` seconds, and nobody has spoken since, those who disagree have
lost their word until they speak again. So no state sticks.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dragoman.agents.common.observation import Activity, Sighting, Source

CONTRADICTION = 1.5
"""Seconds for which the screen must have shown something else, and a better source been silent, to overrule it."""

QUIET_BEFORE_IDLE = 0.5
"""Seconds without output after which an input box on the screen means idle."""

_RANKS: tuple[tuple[Source, ...], ...] = (("status",), ("hook", "log", "title", "stream"), ("screen", "process"))


class Belief(msgspec.Struct, frozen=True):
    """What is held to be true, and why. ``error`` comes with ``error``."""

    state: Activity
    cause: str
    error: str | None = None


class _Word(msgspec.Struct, frozen=True):
    """The last that one source said, when it was heard, and when it happened by the source's own clock."""

    belief: Belief
    heard: float
    at: int | None


class Fusion:
    """The evidence about one run of an agent's program. Dialogs are not its business: it tells what lies under them.

    ``see`` takes sightings of ``working``, ``idle``, ``error`` and ``exited``. Times are monotonic seconds.
    """

    def __init__(self) -> None:
        self._words: dict[Source, _Word] = {}
        self._differs_since: float | None = None
        self._over: Belief | None = None

    def see(self, sighting: Sighting, now: float, at: int | None = None) -> None:
        """Take evidence. ``at`` is when it happened by the source's own clock (milliseconds since 1970), if it says."""
        if sighting.state == "prompt":
            return
        belief = Belief(sighting.state, sighting.cause, sighting.error)
        if belief.state == "exited":
            self._over = belief
            return
        if at is not None and self._is_old_news(sighting.source, belief, at):
            return
        known = self._words.get(sighting.source)
        if sighting.source == "screen" and known is not None and known.belief.state == belief.state:
            return  # the screen is looked at again and again: only a change is news
        self._words[sighting.source] = _Word(belief, now, at)
        if sighting.source != "screen":
            self._differs_since = None

    def unsay(self, source: Source) -> None:
        """The source no longer shows anything."""
        self._words.pop(source, None)

    def interrupt(self, cause: str, now: float) -> None:
        """The person broke off what the agent did: what hooks said of work is over, for they do not tell of that.

        Status reports do, by themselves and in their own time.
        """
        self._words = {
            source: word
            for source, word in self._words.items()
            if word.belief.state != "working" or source in ("status", "screen")
        }
        self._words["log"] = _Word(Belief("idle", cause), now, None)

    def belief(self, now: float) -> Belief | None:
        """What is true now; None while nobody has said anything."""
        if self._over is not None:
            return self._over
        best = self._best()
        seen = self._words.get("screen")
        if best is None or seen is None or best is seen or _compatible(best.belief, seen.belief):
            self._differs_since = None
        elif self._differs_since is None:
            self._differs_since = max(seen.heard, best.heard)
        if self._differs_since is not None and now >= self._differs_since + CONTRADICTION:
            assert seen is not None
            self._forget_all_but(seen.belief)
            best = seen
        return None if best is None else best.belief

    def next_look(self, now: float) -> float | None:
        """Seconds until ``belief`` may change without new evidence; None when it cannot."""
        if self._differs_since is None:
            return None
        return max(0.0, self._differs_since + CONTRADICTION - now)

    def _best(self) -> _Word | None:
        for rank in _RANKS:
            newest = max(self._spoken(rank), key=lambda word: word.heard, default=None)
            if newest is not None:
                return newest
        return None

    def _spoken(self, rank: Iterable[Source]) -> list[_Word]:
        return [word for source in rank if (word := self._words.get(source)) is not None]

    def _is_old_news(self, source: Source, belief: Belief, at: int) -> bool:
        """A line of a log that comes late: something newer has been heard of the same rank."""
        peers = next((rank for rank in _RANKS if source in rank), ())
        return any(
            word.at is not None and word.at > at and word.belief.state != belief.state for word in self._spoken(peers)
        )

    def _forget_all_but(self, belief: Belief) -> None:
        self._words = {source: word for source, word in self._words.items() if _compatible(word.belief, belief)}
        self._differs_since = None


def _compatible(one: Belief, screen: Belief) -> bool:
    """An agent that failed waits at its input box: the screen's idle does not contradict an error."""
    return one.state == screen.state or (one.state == "error" and screen.state == "idle")

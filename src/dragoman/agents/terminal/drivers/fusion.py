"""Which of many sources to believe: evidence in, one state out. Pure; the caller gives the time.

Sources come in three ranks. A program status report is the program's own word, in stream order, and holds until the
next one. Hooks, window titles, the session log and a headless stream report moments, so the newest of them counts. The
screen and the process are always there and know least; they are asked when nobody else has spoken.

No source keeps its rank for ever. A hook may be lost, a report may never come, and Esc fires no hook at all: when the
screen has shown something else for ``CONTRADICTION`` seconds, and nobody has spoken since, those who disagree have
lost their word until they speak again. So no state sticks.

A window title that stops to spin says "not at work", and some agents give it up for a dialog too: its ``idle`` is held
back, where anybody has told of work, until the screen shows an input box at rest. Until then its older word stands.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dragoman.agents.common.observation import Activity, Sighting, Source

CONTRADICTION = 1.5
"""Seconds for which the screen must have shown something else, and a better source been silent, to overrule it."""

QUIET_BEFORE_IDLE = 0.5
"""Seconds without output after which an input box on the screen means idle."""

FAILED_TURN = 2.0
"""Seconds after an error in which its turn's end may be told: that is no way out of it."""

LAST_SPIN = 0.3
"""Seconds for which a title that spins on is no news against a source that has just told otherwise."""

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
    ``screened``: there is a screen to ask.
    """

    def __init__(self, *, screened: bool = False) -> None:
        self._screened = screened
        self._words: dict[Source, _Word] = {}
        self._titled_idle: _Word | None = None
        self._why: str | None = None
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
        if sighting.source == "title" and self._is_last_spin(belief, now):
            return
        if self._ends_failure(sighting, now):
            return
        word = _Word(belief, now, at)
        if sighting.source == "title":
            held = self._screened and belief.state == "idle" and self._anybody_works()
            self._titled_idle = word if held else None
        if sighting.source != "title" or self._titled_idle is None:
            self._words[sighting.source] = word
        if belief.state == "working" and sighting.source != "screen":
            self._why = None
        elif belief.state == "error" and (self._why is None or sighting.source != "screen"):
            self._why = belief.error or self._why
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

    def guesses_work(self, now: float) -> bool:
        """Whether it is held to be at work only because nothing has confirmed yet that it no longer is."""
        belief = self.belief(now)
        return self._titled_idle is not None and belief is not None and belief.state == "working"

    def belief(self, now: float) -> Belief | None:
        """What is true now; None while nobody has said anything."""
        if self._over is not None:
            return self._over
        self._confirm_title()
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
        if best is None:
            return None
        if best.belief.state == "error" and best.belief.error is None:
            return msgspec.structs.replace(best.belief, error=self._why)  # others know what it was
        return best.belief

    def next_look(self, now: float) -> float | None:
        """Seconds until ``belief`` may change without new evidence; None when it cannot."""
        if self._differs_since is None:
            return None
        return max(0.0, self._differs_since + CONTRADICTION - now)

    def _anybody_works(self) -> bool:
        return any(word.belief.state == "working" for word in self._words.values())

    def _confirm_title(self) -> None:
        """The screen is at rest: the title's ``idle`` counts, from when it was told. Or a failure that it shows."""
        seen, titled = self._words.get("screen"), self._titled_idle
        if titled is None or seen is None or seen.belief.state == "working":
            return
        self._titled_idle = None
        self._words["title"] = titled if seen.belief.state == "idle" else _Word(seen.belief, titled.heard, titled.at)

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

    def _is_last_spin(self, belief: Belief, now: float) -> bool:
        """A frame of a spinner that was on its way when a hook or the log told that the work is over."""
        known = self._words.get("title")
        if known is None or known.belief.state != belief.state or self._titled_idle is not None:
            return False
        newest = max(self._spoken(_RANKS[1]), key=lambda word: word.heard)
        return newest.belief.state != belief.state and now < newest.heard + LAST_SPIN

    def _ends_failure(self, sighting: Sighting, now: float) -> bool:
        """The turn that failed is over, which was known."""
        if sighting.state != "idle" or sighting.source not in _RANKS[1]:
            return False
        newest = max(self._spoken(_RANKS[1]), key=lambda word: word.heard, default=None)
        return newest is not None and newest.belief.state == "error" and now < newest.heard + FAILED_TURN

    def _forget_all_but(self, belief: Belief) -> None:
        self._words = {source: word for source, word in self._words.items() if _compatible(word.belief, belief)}
        self._differs_since = None


def _compatible(one: Belief, screen: Belief) -> bool:
    """An agent that failed waits at its input box: the screen's idle does not contradict an error."""
    return one.state == screen.state or (one.state == "error" and screen.state == "idle")

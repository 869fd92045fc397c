"""The truth checker: what a client was told, held against the agent's own record.

A state told at a moment is right if it was true at any time within ``GRACE`` of it. See README.md for what is true.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Json = dict[str, Any]
Timeline = Sequence[tuple[int, str]]

GRACE = 500
"""Milliseconds around a true change within which both its sides are right."""

BRIEF = 150
"""Milliseconds of work that need not be told."""

DISTINCT = re.compile(r'"(?:command|file_path|plan|question)"\s*:\s*"((?:[^"\\]|\\.)*)')


@dataclass(frozen=True)
class Dialog:
    """A dialog that was really drawn, and when it was over."""

    serial: int
    kind: str
    drawn: int
    over: int
    about: str
    subtype: str | None = None

    @property
    def kinds(self) -> set[str]:
        """What it may be called. The contract files trust under two names."""
        return {"permission", "setup"} if self.subtype == "trust" else {self.kind}


@dataclass(frozen=True)
class Announced:
    """A dialog as a client was told of it: when first, and what was said last."""

    at: int
    kind: str
    about: str | None


@dataclass(frozen=True)
class Stretch:
    """A time in which a client was told something wrong."""

    since: int
    until: int
    told: str
    true: str


@dataclass
class Verdict:
    """How true it was. All times in milliseconds."""

    total: int
    wrong: int = 0
    recovery: int = 0
    stretches: list[Stretch] = field(default_factory=list)
    twice: list[int] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)
    invented: list[Announced] = field(default_factory=list)
    misnamed: list[tuple[int, str]] = field(default_factory=list)
    delays: dict[int, int] = field(default_factory=dict)
    never: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    untold: list[int] = field(default_factory=list)

    @property
    def fraction(self) -> float:
        """The part of the time in which it was wrong."""
        return self.wrong / self.total if self.total else 0.0


class Truth:
    """The record as a function of time, until ``end``."""

    def __init__(self, record: Iterable[Json], end: int) -> None:
        entries = list(record)
        self._states = [(int(entry["at"]), str(entry["state"])) for entry in entries if "state" in entry]
        self._times = [at for at, _ in self._states]
        self.end = end
        self.dialogs = self._dialogs(entries)

    def _dialogs(self, entries: list[Json]) -> list[Dialog]:
        states = [entry for entry in entries if "state" in entry]
        found = []
        for entry, after in zip(states, [*states[1:], {"at": self.end}], strict=True):
            if entry["state"] == "prompt":
                about = about_of(entry["input"]) or ""
                found.append(
                    Dialog(entry["dialog"], entry["kind"], entry["at"], after["at"], about, entry.get("subtype"))
                )
        return found

    def spans(self, end: int) -> list[tuple[str, int, int]]:
        """Each state with its begin and its end."""
        return [(state, at, after) for (at, state), after in zip(self._states, [*self._times[1:], end], strict=True)]

    @property
    def changes(self) -> list[int]:
        """The moments at which something became true."""
        return self._times

    def at(self, moment: float) -> str:
        """What was true then."""
        place = bisect_right(self._times, moment)
        return self._states[place - 1][1] if place else "starting"

    def around(self, moment: float) -> set[str]:
        """All that was true within the grace."""
        first, last = bisect_right(self._times, moment - GRACE), bisect_right(self._times, moment + GRACE)
        return {self.at(moment - GRACE), *(state for _, state in self._states[first:last])}

    def since(self, moment: float) -> int:
        """When that began to be true."""
        place = bisect_right(self._times, moment)
        return self._times[place - 1] if place else 0


class Told:
    """A timeline as a function of time."""

    def __init__(self, timeline: Timeline) -> None:
        self._states = sorted(timeline, key=lambda told: told[0])
        self.times = [at for at, _ in self._states]

    def at(self, moment: float) -> str:
        """What a client took for true then."""
        return self._states[max(bisect_right(self.times, moment) - 1, 0)][1]

    def between(self, since: float, until: float) -> set[str]:
        """All that a client took for true in that time."""
        states = {state for at, state in self._states if since <= at <= until}
        return states | {self.at(since)}


def judge(record: Iterable[Json], timeline: Timeline, end: int, announced: Sequence[Announced] = ()) -> Verdict:
    """Hold a timeline, from its first entry until ``end``, against the record."""
    truth, told = Truth(record, end), Told(timeline)
    verdict = Verdict(total=max(end - told.times[0], 0))
    _states(truth, told, end, verdict)
    verdict.false = _false(truth, timeline, end)
    verdict.untold = _untold(truth, told)
    _decisions(truth, announced, verdict)
    return verdict


def _states(truth: Truth, told: Told, end: int, verdict: Verdict) -> None:
    begin = told.times[0]
    moments = {begin, end, *told.times}
    for change in truth.changes:
        moments |= {change - GRACE, change, change + GRACE}
    inside = sorted(moment for moment in moments if begin <= moment <= end)
    off: tuple[int, bool] | None = None
    for since, until in pairwise(inside):
        middle = (since + until) / 2
        said, true = told.at(middle), truth.at(middle)
        if said == true or _after_error(truth, told, middle, said):
            off = None
            continue
        wrong = said not in truth.around(middle)
        start, before = off or (since, False)
        off = (start, before or wrong)
        if off[1]:
            verdict.recovery = max(verdict.recovery, until - start)
        if wrong:
            verdict.wrong += until - since
            verdict.stretches.append(Stretch(since, until, said, true))
    for at, state in zip(truth.changes, (truth.at(at) for at in truth.changes), strict=True):
        if (
            state in ("error", "exited")
            and begin <= at <= end - 2 * GRACE
            and state not in told.between(at - GRACE, end)
        ):
            verdict.never.append(state)


def _false(truth: Truth, timeline: Timeline, end: int) -> list[str]:
    """Transitions that have none of the record's, in its order, within the tolerance: a blip, however short."""
    found = []
    since = truth.spans(end)  # the first that a client is told is no transition
    last, strayed = -1, False
    for (_, before), (at, state) in pairwise([(0, ""), *sorted(timeline, key=lambda told: told[0])]):
        if state == before and state == "prompt":
            continue  # more is known of it, or the next question
        first = last if strayed else last + 1
        fitting = (
            number
            for number in range(max(first, 0), len(since))
            if since[number][0] == state and since[number][1] - GRACE <= at <= since[number][2] + GRACE
        )
        place = next(fitting, None)
        if place is not None:
            last, strayed = place, False
        elif before and not (state == "idle" and last >= 0 and since[last][0] == "error" and before == "error"):
            found.append(f"{at}: {before} to {state}")
            strayed = True
    return found


def _untold(truth: Truth, told: Told) -> list[int]:
    """When work began of which nothing was told."""
    return [
        begin
        for state, begin, over in truth.spans(truth.end)
        if state == "working"
        and over - begin > BRIEF
        and told.times[0] <= begin <= truth.end - 2 * GRACE
        and "working" not in told.between(begin, over + GRACE)
    ]


def _after_error(truth: Truth, told: Told, moment: float, said: str) -> bool:
    """An agent that failed takes prompts again: once the error was told, ``idle`` is right too."""
    if said != "idle" or truth.at(moment) != "error":
        return False
    return "error" in told.between(truth.since(moment) - GRACE, moment)


def _decisions(truth: Truth, announced: Sequence[Announced], verdict: Verdict) -> None:
    counts: dict[int, list[Announced]] = {dialog.serial: [] for dialog in truth.dialogs}
    for one in announced:
        dialog = _meant(truth.dialogs, one)
        if dialog is None:
            verdict.invented.append(one)
        else:
            counts[dialog.serial].append(one)
    for dialog in truth.dialogs:
        said = counts[dialog.serial]
        if not said:
            verdict.missed.append(dialog.serial)
            continue
        verdict.delays[dialog.serial] = max(said[0].at - dialog.drawn, 0)
        if len(said) > 1:
            verdict.twice.append(dialog.serial)
        if said[-1].kind not in dialog.kinds:
            verdict.misnamed.append((dialog.serial, said[-1].kind))


def _meant(dialogs: Sequence[Dialog], one: Announced) -> Dialog | None:
    """The dialog that an announcement speaks of: one that was there, the one it names, else the newest."""
    there = [dialog for dialog in dialogs if dialog.drawn - GRACE <= one.at <= dialog.over + GRACE]
    named = [dialog for dialog in there if one.about and dialog.about and _same(one.about, dialog.about)]
    drawn = [dialog for dialog in there if dialog.drawn <= one.at]
    for found in (named, drawn, there):
        if found:
            return found[-1]
    return None


def _same(one: str, other: str) -> bool:
    size = min(len(one), len(other))
    return size > 0 and one[:size] == other[:size]


def about_of(given: object) -> str | None:
    """What tells one dialog from another in a tool's input (an object, or its JSON, which may be cut), if anything."""
    if not given:
        return None
    text = given if isinstance(given, str) else json.dumps(given)
    found = DISTINCT.search(text)
    return found.group(1) if found else None


def announcements(frames: Iterable[tuple[int, Json]]) -> list[Announced]:
    """The dialogs that Coop transitions announce.

    Entering ``prompt`` is one. A transition within ``prompt`` tells more of the same dialog, unless it plainly speaks
    of another one.
    """
    found: list[Announced] = []
    inside = False
    for at, frame in frames:
        if frame["event"] == "exit":
            inside = False
        if frame["event"] != "transition":
            continue
        prompt = frame.get("prompt") or {}
        if frame["next"] != "prompt":
            inside = False
            continue
        about = about_of(prompt.get("input")) or about_of(prompt.get("questions"))
        known = found[-1] if inside else None
        if known is None or (about and known.about and not _same(about, known.about)):
            found.append(Announced(at, str(prompt.get("type")), about))
        else:
            found[-1] = Announced(known.at, str(prompt.get("type") or known.kind), about or known.about)
        inside = True
    return found


def timeline(frames: Iterable[tuple[int, Json]]) -> list[tuple[int, str]]:
    """The states that Coop frames tell. An error that keeps its number is the same one, of which more is known."""
    told: list[tuple[int, str]] = []
    failed: object = None
    for at, frame in frames:
        if frame["event"] == "transition":
            number = frame.get("seq") if frame["next"] == "error" else None
            if number is not None and number == failed:
                continue
            failed = number
            told.append((at, str(frame["next"])))
        elif frame["event"] == "exit":
            told.append((at, "exited"))
    return told

"""Two conversations in canonical form, compared: every field, and every order that is fixed.

Chunks of the model's stream have one order. So has all else that is said, but for the two that race at the start.
Between the two sequences no order is fixed at equal time (spec 4.1, last but one): what must still hold is in
``ordering``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from .ordering import out_of_order
from .recording import CHUNK, OPENING, RACING, Entry, Frame, Note, Received, Sent, frames, kind

_ELIDED = re.compile(r"<[a-z ]*elided>")
"""Where the recording left something out: what stands before it still has to be right."""

ANYTHING = "<anything>"
"""What is expected where something has to stand, whatever it is."""

_ANSWERS = ("ask_response", "approval_response", "cancel")
"""Client messages that a blocked turn waits for: nothing of what follows them may come before them."""


def problems(expected: Sequence[Entry], got: Sequence[Entry]) -> list[str]:
    """Every difference in one line; empty where there is none."""
    wanted, given = Spoken(frames(expected)), Spoken(frames(got))
    return [
        *_opening(wanted, given),
        *_sequence("chunk", wanted.chunks, given.chunks),
        *_sequence("message", wanted.others, given.others),
        *out_of_order(frames(got)),
        *_too_early(expected, got),
        *_notes(expected, got),
    ]


class Spoken:
    """What the server said, as the sequences that have an order of their own."""

    def __init__(self, said: Sequence[Frame]) -> None:
        self.opening = list(said[: len(OPENING)])
        self.racing: dict[str, Frame] = {}
        self.chunks: list[Frame] = []
        self.others: list[Frame] = []
        for frame in said[len(OPENING) :]:
            if frame["type"] in RACING and frame["type"] not in self.racing:
                self.racing[frame["type"]] = frame
            elif frame["type"] == CHUNK:
                self.chunks.append(frame)
            else:
                self.others.append(frame)


def _opening(wanted: Spoken, given: Spoken) -> list[str]:
    found = _sequence("opening message", wanted.opening, given.opening)
    for name in RACING:
        if (name in wanted.racing) != (name in given.racing):
            found.append(f"opening: {name} {'missing' if name in wanted.racing else 'not expected'}")
        elif name in wanted.racing:
            found += unlike(wanted.racing[name], given.racing[name], f"opening {name}")
    return found


def _sequence(what: str, wanted: Sequence[Frame], given: Sequence[Frame]) -> list[str]:
    """Pair by pair where the kinds agree; else what is missing, what is too much, and the pairs that remain."""
    left, right = [kind(frame) for frame in wanted], [kind(frame) for frame in given]
    found: list[str] = []
    everything = [("equal", 0, len(left), 0, len(right))]
    matched = SequenceMatcher(None, left, right, autojunk=False).get_opcodes() if left != right else everything
    for tag, i, j, k, n in matched:
        if tag == "equal":
            for offset in range(j - i):
                found += unlike(wanted[i + offset], given[k + offset], f"{what} {i + offset} ({left[i + offset]})")
        else:
            found += [f"{what} {at} missing: {left[at]}" for at in range(i, j)]
            found += [f"{what} {at} not expected: {right[at]}" for at in range(k, n)]
    return found


def unlike(wanted: Any, given: Any, where: str) -> list[str]:
    """Every leaf that is not the same, by its path. 1 and 1.0 are the same; 1 and true are not."""
    if wanted == ANYTHING:
        return []
    if isinstance(wanted, dict) and isinstance(given, dict):
        found = [f"{where}.{key} missing: {wanted[key]!r}" for key in wanted if key not in given]
        found += [f"{where}.{key} not expected: {given[key]!r}" for key in given if key not in wanted]
        for key in wanted:
            if key in given:
                found += unlike(wanted[key], given[key], f"{where}.{key}")
        return found
    if isinstance(wanted, list) and isinstance(given, list):
        found = [f"{where}: {len(given)} items, not {len(wanted)}"] if len(wanted) != len(given) else []
        for at, (one, other) in enumerate(zip(wanted, given, strict=False)):
            found += unlike(one, other, f"{where}[{at}]")
        return found
    if _same(wanted, given):
        return []
    return [f"{where} is {given!r}, not {wanted!r}"]


def _same(wanted: Any, given: Any) -> bool:
    if isinstance(wanted, bool) or isinstance(given, bool):
        return wanted is given
    if isinstance(wanted, str) and isinstance(given, str) and (gap := _ELIDED.search(wanted)):
        return given.startswith(wanted[: gap.start()])
    return bool(wanted == given)


def _too_early(expected: Sequence[Entry], got: Sequence[Entry]) -> list[str]:
    """Whatever a blocked turn says only after its answer must not have come before it."""
    wanted, given = _heard_before(expected), _heard_before(got)
    return [
        f"before {name} was sent, {what[1]} had come instead of {what[0]}"
        for (name, *one), (_, *other) in zip(wanted, given, strict=False)
        for what in zip(one, other, strict=True)
        if what[1] > what[0]
    ]


def _heard_before(entries: Sequence[Entry]) -> list[tuple[str, str, str]]:
    """For each answer of the client: how many chunks and how many other messages stand before it."""
    found = []
    for at, entry in enumerate(entries):
        if isinstance(entry, Sent) and entry.kind in _ANSWERS:
            heard = Spoken(frames(entries[:at]))
            found.append((entry.kind, f"{len(heard.chunks):4} chunks", f"{len(heard.others):4} messages"))
    return found


def _notes(expected: Sequence[Entry], got: Sequence[Entry]) -> list[str]:
    """What was seen of the folder at each step."""
    wanted, given = ([entry.text for entry in side if isinstance(entry, Note)] for side in (expected, got))
    return unlike(wanted, given, "note") if wanted != given else []


def as_if_received(entries: Sequence[Entry], said: Sequence[Frame]) -> list[Entry]:
    """The conversation with other words of the server, one for one, in place."""
    left = iter(said)
    return [Received(next(left)) if isinstance(entry, Received) else entry for entry in entries]

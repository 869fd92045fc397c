"""Two conversations in canonical form, compared: every field, and the order of what is said on each socket.

What answers a message that came while a turn ran (an acknowledgement, a refusal) may stand anywhere between what the
turn says (spec 3: order on a socket): both have an order of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from tests.dialects.leaves import unlike

from .recording import Answered, Entry, Frame, Quiet, Received, Refused, Sent, sockets

FAILURES = frozenset({"llm exploded"})
"""Errors that are a turn's, and no answer."""


def problems(expected: Sequence[Entry], got: Sequence[Entry]) -> list[str]:
    """Every difference in one line; empty where there is none."""
    found: list[str] = []
    for conn in sockets(expected):
        wanted, given = _said(expected, conn), _said(got, conn)
        found += _sequence(conn, [f for f in wanted if not answers(f)], [f for f in given if not answers(f)])
        found += _sequence(f"{conn} answer", [f for f in wanted if answers(f)], [f for f in given if answers(f)])
    if extra := set(sockets(got)) - set(sockets(expected)):
        found.append(f"sockets not expected: {sorted(extra)}")
    return found + _requests(expected, got) + _too_early(expected, got)


def answers(frame: Frame) -> bool:
    """Whether it answers one message, in whatever the server says besides."""
    if frame["type"] == "RUNTIME_INPUT_ACK":
        return True
    return frame["type"] == "ERROR" and frame.get("message") not in FAILURES


def _said(entries: Sequence[Entry], conn: str) -> list[Frame]:
    return [entry.frame for entry in entries if isinstance(entry, Received) and entry.conn == conn]


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


def kind(frame: Frame) -> str:
    """A message in a word or two."""
    return f"{frame['type']} {frame.get('name', '')}".strip()


def _requests(expected: Sequence[Entry], got: Sequence[Entry]) -> list[str]:
    """What came of HTTP requests, and of upgrades that were refused."""
    wanted, given = (
        [_outcome(entry) for entry in side if isinstance(entry, Answered | Refused)] for side in (expected, got)
    )
    return unlike(wanted, given, "request")


def _outcome(entry: Answered | Refused) -> Frame:
    if isinstance(entry, Refused):
        return {"path": entry.path, "status": entry.status}
    return {"status": entry.status, "headers": entry.headers, "body": entry.body}


def _too_early(expected: Sequence[Entry], got: Sequence[Entry]) -> list[str]:
    """What is said only after a message of the client, or after a silence, must not have come before it."""
    return [
        f"before {what} ({at}), {other} things had been said and not {one}"
        for at, ((what, one), (_, other)) in enumerate(zip(_heard(expected), _heard(got), strict=False))
        if other > one
    ]


def _heard(entries: Sequence[Entry]) -> list[tuple[str, int]]:
    """For each message of the client, and each silence: how much had been said on all sockets."""
    count = 0
    found: list[tuple[str, int]] = []
    for entry in entries:
        if isinstance(entry, Received):
            count += 1
        elif isinstance(entry, Sent):
            found.append((entry.kind or "what is no message", count))
        elif isinstance(entry, Quiet):
            found.append(("a silence", count))
    return found

"""One form for what differs from run to run: ids, times, durations.

Ids are named one for one, in the order in which they are first said, socket by socket: so it does not count which of
two sockets was told something first, but every id that was the same has to be the same again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .recording import Answered, Asked, Entry, Frame, Received, Sent, sockets

TIME, DURATION = "<time>", "<duration>"

ANY_SESSION = "<any session>"
"""Where a client names an event: not every message says of which session."""

NO_EVENTS = frozenset(
    {"CONNECTED", "OUTPUT", "PING", "ERROR", "SESSION_STATUS", "ONBOARD_REQUIRED", "ONBOARD_SUCCESS", "ADMIN_RESULT"}
)
"""Messages without an id of their own."""

_SECONDS = re.compile(r"(?<![0-9a-z-])17\d{8}(?:-\d+)?_")
"""How the name of a file that was uploaded begins. Ours are numbered where a second has several of one name."""

_TIMES = ("ts", "updated", "created", "expires")
_DURATIONS = ("duration_ms", "timing_ms")

LATEST = 1_800_000_000.0
EARLIEST = 1_790_000_000.0
"""Seconds since 1970 between which everything was recorded."""


def canonical(entries: Sequence[Entry]) -> list[Entry]:
    """The conversation with every id, time and duration in one form.

    What is no id, no time or no duration where one has to be stays as it is, so that it is seen as a difference.
    """
    names = Names(entries)
    return [names.entry(entry) for entry in entries]


class Names:
    """What is called how, in one conversation as far as it went. An id of an event is one in its session."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._sessions: dict[str, str] = {}
        self._ids: dict[tuple[str, str], str] = {}
        self._times: dict[tuple[str, ...], Any] = {}
        self._own = given(entries)
        for frame in _in_order(entries):
            self._learn(frame, str(frame.get("session_id")))
        self._pattern = re.compile("|".join(map(re.escape, self._sessions)))
        self._anywhere = {(ANY_SESSION, one): name for (_, one), name in self._ids.items()}
        events = {name: one for (_, one), name in self._ids.items()}
        self.given = {**events, **{name: one for one, name in self._sessions.items()}}
        """Each name's id."""

    def _learn(self, frame: Frame, session: str) -> None:
        named = frame.get("session_id")
        if isinstance(named, str) and named not in self._own:
            self._sessions.setdefault(named, f"<session {len(self._sessions) + 1}>")
        identity = frame.get("id")
        if isinstance(identity, str) and frame.get("type") not in NO_EVENTS:
            self._ids.setdefault((session, identity), f"<id {len(self._ids) + 1}>")
        told = frame.get("session")
        for entry in told.get("trace", ()) if isinstance(told, dict) else ():
            self._learn(entry, session)

    def entry(self, entry: Entry) -> Entry:
        """An entry with the names."""
        match entry:
            case Received(_, frame):
                return replace(entry, frame=self._value(frame, "", measured=True))
            case Sent(_, dict(message)):
                return replace(entry, message=self._value(message, ANY_SESSION, measured=False))
            case Asked():
                body = self._value(entry.body, "", measured=False)
                return replace(entry, path=self._text(entry.path), body=body)
            case Answered():
                return replace(entry, body=self._value(entry.body, "", measured=True))
        return entry

    def _value(self, value: Any, session: str, *, measured: bool) -> Any:
        """A copy with the names; times and durations only where the server said them (``measured``)."""
        if isinstance(value, str):
            known = self._anywhere if session == ANY_SESSION else self._ids
            return known.get((session, value)) or self._text(value)
        if isinstance(value, list):
            return [self._value(item, session, measured=measured) for item in value]
        if not isinstance(value, dict):
            return value
        if session != ANY_SESSION:
            session = str(value.get("session_id", session))
        made = {key: self._value(item, session, measured=measured) for key, item in value.items()}
        if isinstance(made.get("arguments"), str):
            made["arguments"] = _spelled(made["arguments"])
        if measured:
            self._measure(made, session)
        return made

    def _measure(self, made: Frame, session: str) -> None:
        for key in _TIMES:
            if _is_time(made.get(key)):
                made[key] = self._time(made, key, session)
        for key in _DURATIONS:
            if _is_duration(made.get(key)):
                made[key] = DURATION

    def _time(self, made: Frame, key: str, session: str) -> str:
        """An event has one time, however often it is told."""
        if key != "ts" or "id" not in made:
            return TIME
        event = tuple(str(made.get(field)) for field in ("id", "type", "status"))
        return TIME if self._times.setdefault((session, *event), made[key]) == made[key] else "<another time>"

    def _text(self, text: str) -> str:
        if self._sessions:
            text = self._pattern.sub(lambda found: self._sessions[found[0]], text)
        return _SECONDS.sub("<seconds>_", text)


def _spelled(text: str) -> str:
    """JSON in a text, with or without spaces."""
    try:
        return f"JSON {json.dumps(json.loads(text.removeprefix('JSON ')))}"
    except ValueError:
        return text


def given(entries: Sequence[Entry]) -> frozenset[str]:
    """Ids of sessions that a client made up: nobody had told it of them before."""
    told: set[str] = set()
    made_up: set[str] = set()
    for entry in entries:
        if isinstance(entry, Received):
            told.add(str(entry.frame.get("session_id")))
        elif isinstance(entry, Answered) and isinstance(entry.body, dict):
            told.add(str(entry.body.get("session_id")))
        asked = entry.message if isinstance(entry, Sent) else entry.body if isinstance(entry, Asked) else None
        if isinstance(asked, dict):
            named = [asked.get("session_id")]
            if isinstance(asked.get("session"), dict):
                named.append(asked["session"].get("session_id"))
            made_up |= {one for one in named if isinstance(one, str) and one not in told}
    return frozenset(made_up)


def _in_order(entries: Sequence[Entry]) -> list[Frame]:
    """All that the server said, socket by socket, and then over HTTP."""
    said = [entry.frame for conn in sockets(entries) for entry in entries if _on(entry, conn)]  # type: ignore[union-attr]
    return said + [entry.body for entry in entries if isinstance(entry, Answered) and isinstance(entry.body, dict)]


def _on(entry: Entry, conn: str) -> bool:
    return isinstance(entry, Received) and entry.conn == conn


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and EARLIEST < value < LATEST


def _is_duration(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 3_600_000

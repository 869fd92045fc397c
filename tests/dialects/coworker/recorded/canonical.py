"""One form for what differs from run to run: ids, times, sizes, places."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .recording import Entry, Frame, Note, Received, Sent

SESSION = "<session>"
"""Stands for the id of the link's session, also within texts."""

NOW = 1_750_000_000_000
"""A time in milliseconds that no recorded client asked for: what is later came from the server's clock."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_COUNTED = ("createdAt", "updatedAt")
"""Times that a later frame repeats: the same one has to come out the same."""


def canonical(entries: Sequence[Entry], places: Sequence[tuple[str, str]] = ()) -> list[Entry]:
    """The conversation with every id, time and size in one form; ``places`` are texts and what stands for them.

    What is no id, no time or no size where one has to be stays as it is, so that it is seen as a difference.
    """
    names = _Names(entries, places)
    return [names.entry(entry) for entry in entries]


class _Names:
    """What was called how, over one conversation."""

    def __init__(self, entries: Sequence[Entry], places: Sequence[tuple[str, str]]) -> None:
        self._texts = sorted(places, key=lambda place: -len(place[0]))
        self._turns: dict[str, str] = {}
        self._times: dict[tuple[str, str], str] = {}
        requests: dict[str, str] = {}
        for entry in entries:
            if not isinstance(entry, Received):
                continue
            if entry.frame.get("type") == "server_hello" and _UUID.fullmatch(entry.frame["sessionId"]):
                self._texts.insert(0, (entry.frame["sessionId"], SESSION))
            identity = entry.frame.get("requestId")
            if isinstance(identity, str) and _UUID.fullmatch(identity):
                requests.setdefault(identity, f"<request {len(requests) + 1}>")
        self._texts[:0] = requests.items()

    def entry(self, entry: Entry) -> Entry:
        match entry:
            case Received(frame):
                return Received(self._frame(frame))
            case Sent(message, binary):
                return Sent(self._value(message), binary)
            case Note(text):
                return Note(self._value(text))

    def _frame(self, frame: Frame) -> Frame:
        made = self._value(_measured(frame))
        assert isinstance(made, dict)
        turn = made.get("turnId")
        if isinstance(turn, str) and _UUID.fullmatch(turn):
            made["turnId"] = self._turns.setdefault(turn, f"<turn {len(self._turns) + 1}>")
        self._date(made, made["type"])
        return made

    def _date(self, value: Any, where: str) -> None:
        """Times are named in place: repeated ones by number, others all alike."""
        if isinstance(value, list):
            for item in value:
                self._date(item, where)
        elif isinstance(value, dict):
            for key, item in value.items():
                if key in (*_COUNTED, "checkedAt") and isinstance(item, str) and _TIME.fullmatch(item):
                    value[key] = self._time(f"{where} {key}", item) if key in _COUNTED else "<time>"
                else:
                    self._date(item, f"{where} {key}")

    def _time(self, where: str, text: str) -> str:
        known = sum(place == where for place, _ in self._times)
        return self._times.setdefault((where, text), f"<time {known + 1}>")

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            for text, name in self._texts:
                value = value.replace(text, name)
            return value
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            return {key: self._value(item) for key, item in value.items()}
        return value


def _measured(value: Any) -> Any:
    """A copy in which sizes are only something or nothing, and windows of the server's clock only their length."""
    if isinstance(value, list):
        return [_measured(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: _measured(item) for key, item in value.items()}
    size = made.get("patchBytes")
    if isinstance(size, int) and size > 0:
        made["patchBytes"] = "<some>"
    since, until = made.get("fromMs"), made.get("toMs")
    if isinstance(since, int) and isinstance(until, int) and until > NOW:
        made["fromMs"], made["toMs"] = f"<now - {until - since}>", "<now>"
    return made

"""The original's conversations as they were recorded: who said what on which socket, and when."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[3] / "data" / "onion" / "recorded"

SCENARIOS = tuple(sorted(path.stem for path in FOLDER.glob("*.jsonl")))

Frame = dict[str, Any]

MERGING = ("OUTPUT", "CONNECTED")
"""Messages that bring the whole session, which a client may give back in its next CONNECT."""

_STAMP = re.compile(r"INPUT with one file of (\d+) bytes, data url length")
_REFUSED = re.compile(r"(/\S*) InvalidStatus\(Response\(status_code=(\d+)")


@dataclass(frozen=True)
class Opened:
    """A client opened a socket. ``conn`` names it, ``at`` is in seconds since the recording began."""

    conn: str
    path: str
    at: float = 0.0


@dataclass(frozen=True)
class Refused:
    """A client could not: the server refused the upgrade."""

    path: str
    status: int
    at: float = 0.0


@dataclass(frozen=True)
class Sent:
    """The client sent a message: an object, or else text or bytes as they are."""

    conn: str
    message: Frame | str | bytes
    at: float = 0.0

    @property
    def kind(self) -> str:
        """The type that it names."""
        return str(self.message.get("type")) if isinstance(self.message, dict) else ""


@dataclass(frozen=True)
class Received:
    """The server said something."""

    conn: str
    frame: Frame
    at: float = 0.0


@dataclass(frozen=True)
class Broken:
    """The server let the socket go, without a close frame."""

    conn: str
    at: float = 0.0


@dataclass(frozen=True)
class Left:
    """The client closed its socket."""

    conn: str
    at: float = 0.0


@dataclass(frozen=True)
class Quiet:
    """For a while nobody said anything."""

    at: float = 0.0


@dataclass(frozen=True)
class Asked:
    """An HTTP request. A body that is text goes out as it is."""

    method: str
    path: str
    body: Frame | str | None
    at: float = 0.0


@dataclass(frozen=True)
class Answered:
    """Its answer: the body is what was JSON, or how a text began."""

    status: int
    headers: dict[str, str]
    body: Any
    at: float = 0.0


Entry = Opened | Refused | Sent | Received | Broken | Left | Quiet | Asked | Answered


@dataclass(frozen=True)
class Recording:
    """One scenario. ``began`` is the time at which it did, in seconds since 1970."""

    name: str
    began: float
    entries: tuple[Entry, ...]


@functools.cache
def load(name: str) -> Recording:
    """One scenario, in the order in which things were said. Where a client sent a big file, only its size is kept."""
    lines = [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text("utf-8").split("\n") if line]
    entries = _given_back(_Reader().entries(lines))
    began = _began(entries)
    return Recording(name, began, tuple(_as_said(entries, began)))


def received(entries: Sequence[Entry], conn: str | None = None) -> list[Frame]:
    """What the server said, on one socket or on all."""
    return [entry.frame for entry in entries if isinstance(entry, Received) and conn in (None, entry.conn)]


def sockets(entries: Sequence[Entry]) -> list[str]:
    """Every socket, in the order in which they were opened."""
    return [entry.conn for entry in entries if isinstance(entry, Opened)]


class _Reader:
    """Turns lines into entries, and gives sockets names of their own."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._count = 0
        self._last = ""

    def entries(self, lines: Sequence[dict[str, Any]]) -> list[Entry]:
        made = [self._entry(line, line["t"]) for line in lines]
        return [entry for entry in made if entry is not None]

    def _entry(self, line: dict[str, Any], at: float) -> Entry | None:
        tag = str(line.get("conn") or "")
        frame: Any = line.get("frame")
        match line["dir"]:
            case "http":
                return None
            case "open":
                self._count += 1
                self._last = self._names[tag] = f"socket {self._count}"
                return Opened(self._last, frame, at)
            case "c2s":
                return Sent(self._names[tag], _message(frame), at)
            case "s2c":
                return Received(self._names[tag], frame, at)
            case "closed":
                return Broken(self._last, at)
            case "close":
                return Left(self._names[tag], at)
            case "http>":
                body = frame["body"]
                return Asked(frame["method"], frame["path"], body["_raw"] if body and "_raw" in body else body, at)
            case "http<":
                return Answered(frame["status"], frame["headers"], frame["body"], at)
        return self._noted(str(frame), at)

    def _noted(self, note: str, at: float) -> Entry | None:
        if note.startswith("no frame within"):
            return Quiet(at)
        if found := _REFUSED.match(note):
            return Refused(found[1], int(found[2]), at)
        if found := _STAMP.match(note):
            files = [{"name": "big.txt", "data": {"<bytes>": int(found[1])}}]
            return Sent(self._last, {"type": "INPUT", "prompt": "hello big", "files": files}, at)
        return None


def _message(frame: Frame) -> Frame | str | bytes:
    if "_raw" not in frame:
        return frame
    raw = str(frame["_raw"])
    if raw.startswith("b'"):
        data = ast.literal_eval(raw)
        assert isinstance(data, bytes)
        return data
    return raw


def _began(entries: Sequence[Entry]) -> float:
    """The time at which a recording began: no event can have been heard before it happened."""
    stamps = [entry.frame["ts"] - entry.at for entry in entries if isinstance(entry, Received) and "ts" in entry.frame]
    if stamps:
        return float(max(stamps))
    for entry in entries:
        asked = entry.message if isinstance(entry, Sent) else entry.body if isinstance(entry, Asked) else None
        payload = asked.get("payload") if isinstance(asked, dict) else None
        if isinstance(payload, dict) and isinstance(payload.get("timestamp"), int):
            return _whole(payload["timestamp"], entries) - entry.at + 0.5
    return 1795817532.0


def _whole(stamp: int, entries: Sequence[Entry]) -> int:
    """The second in which this recording was made: most of what a client signs names it."""
    named = [
        entry.message["payload"]["timestamp"]
        for entry in entries
        if isinstance(entry, Sent)
        and isinstance(entry.message, dict)
        and isinstance(entry.message.get("payload"), dict)
    ]
    near = [one for one in named if type(one) is float]
    return int(near[0]) if near else stamp


def _given_back(entries: list[Entry]) -> list[Entry]:
    """Where a client gave back the session that it was told, which one that was: the socket, and the how-manieth.

    One that it had from the middle of a turn (by ``session_sync``) stands for the last one from before that turn.
    """
    told: dict[str, list[str | int]] = {}
    last: dict[str, list[str | int]] = {}
    counts: dict[str, int] = {}
    made: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Received) and entry.frame["type"] in MERGING and "session" in entry.frame:
            place: list[str | int] = [entry.conn, counts.get(entry.conn, 0)]
            told[json.dumps(entry.frame["session"])] = last[entry.frame["session_id"]] = place
            counts[entry.conn] = counts.get(entry.conn, 0) + 1
        elif isinstance(entry, Sent) and isinstance(entry.message, dict):
            session = entry.message.get("session")
            known = told.get(json.dumps(session))
            if known is None and isinstance(session, dict) and session.get("trace"):
                known = last[session["session_id"]]
            if known is not None:
                entry = replace(entry, message={**entry.message, "session": {"<given back>": known}})  # noqa: PLW2901
        made.append(entry)
    return made


def _as_said(entries: list[Entry], began: float) -> list[Entry]:
    """A client that did not read for a while was told things before it sent something, although it heard them after."""
    made: list[Entry] = []
    for entry in entries:
        at = _place(made, entry, began) if isinstance(entry, Received) and "ts" in entry.frame else len(made)
        made.insert(at, entry)
    return made


def _place(made: list[Entry], told: Received, began: float) -> int:
    """Before what was sent only after this was said, on the same socket; what answers that stays behind it."""
    place = at = len(made)
    while at and (_answers(made[at - 1], told.conn) or _later(made[at - 1], told, began)):
        at -= 1
        if isinstance(made[at], Sent):
            place = at
    return place


def _answers(before: Entry, conn: str) -> bool:
    return (
        isinstance(before, Received) and before.conn == conn and before.frame["type"] in ("ERROR", "RUNTIME_INPUT_ACK")
    )


def _later(before: Entry, told: Received, began: float) -> bool:
    """Whether something was sent only after this was said, on the same socket."""
    return isinstance(before, Sent) and before.conn == told.conn and before.at > told.frame["ts"] - began + 0.01

"""The recorded windie conversations, connection by connection, in a form that can be played to another server.

They were recorded between clients in use and a server that was made to say fixed things, some of them wrong on purpose
(``fail``, ``bareerror``, ``noident``). So each query has two outcomes: what the client made of what it was told
(``Query.recorded``, by ``ts_client``), and what a server that keeps the contract must give (``Query.wanted``).

To play one: send each step's ``Ids.ours(step.said)``; for each frame that comes back where the recording has one that
makes an id of the server's own (a tool request, a bundle), ``Ids.learn(recorded, actual)``; so results name ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .sequence import Frame, Line, heard, said
from .ts_client import Outcome, TsClient

FOLDER = Path(__file__).parents[5] / "shared" / "frames" / "windie"
"""Where the recordings are, if they are there: beside the repository."""

NAMES = ("ts_direct", "ts_managed", "py")

SERVERS_OWN = ("request_id", "bundle_id")
"""Keys of payloads whose values a server makes up."""

CLIENTS_OWN = ("id", "turn_ref", "revision_id")
"""Keys whose values a client makes up, anew each time."""

Ending = Literal["completed", "failed", "any"]


@dataclass(frozen=True)
class Step:
    """A message of the client's, and what was heard until its next one; the first has ``said`` of the handshake."""

    place: int
    said: Frame
    heard: tuple[Frame, ...]


@dataclass(frozen=True)
class Query:
    """A turn that was asked for: ``tools`` are the types (``tool-call``, ``tool-bundle``) of what the client ran."""

    ident: str
    conversation: str
    text: str
    recorded: Outcome
    wanted: Ending
    final: str | None
    tools: tuple[str, ...]


@dataclass(frozen=True)
class Conversation:
    """One connection: ``closed`` is the close code, where it was recorded; ``authorised``, whether it had a token."""

    name: str
    path: str | None
    authorised: bool
    steps: tuple[Step, ...]
    closed: int | None

    @property
    def refused(self) -> bool:
        """Whether the handshake was answered with a close."""
        return self.closed == 1008

    @property
    def lines(self) -> tuple[Line, ...]:
        """The whole connection, for ``sequence.faults``."""
        return tuple(line for step in self.steps for line in (said(step.said), *map(heard, step.heard)))

    @property
    def queries(self) -> tuple[Query, ...]:
        """Its turns, in the order in which they were asked for."""
        client = replayed(self.lines)
        return tuple(self._query(step, client) for step in self.steps if step.said.get("type") == "query")

    def _query(self, step: Step, client: TsClient) -> Query:
        ident, payload = step.said["id"], step.said["payload"]
        frames = [frame for each in self.steps for frame in each.heard if frame.get("id") == ident]
        kinds = [frame["type"] for frame in frames]
        wanted: Ending = "completed" if "streaming-complete" in kinds else "failed" if "error" in kinds else "any"
        finals = [frame["payload"].get("final_response") for frame in frames if frame["type"] == "streaming-complete"]
        return Query(
            ident=ident,
            conversation=payload["conversation_ref"],
            text=payload["text"],
            recorded=client.turns[ident].outcome,
            wanted=wanted,
            final=finals[0] if finals else None,
            tools=tuple(kind for kind in kinds if kind in ("tool-call", "tool-bundle")),
        )


def replayed(lines: Iterable[Line]) -> TsClient:
    """A client that asked and heard the same; what it would send itself is in ``TsClient.sent``."""
    client = TsClient(tools={"save_note": _save_note})
    for line in lines:
        if not line.ours:
            client.hear(line.frame)
        elif line.frame.get("type") == "query":
            client.asked(line.frame)
        elif line.frame.get("type") == "stop-query":
            client.stopping(line.frame)
    return client


def _save_note(arguments: Frame) -> str:
    """What the recorded tool said."""
    return "saved " + json.dumps(arguments, separators=(",", ":"))


@dataclass
class Ids:
    """Ids of a recording and those in their place in one replay; ``fresh`` tells two replays to one server apart.

    A conversation keeps one name throughout, so that turns which belonged together still do."""

    fresh: str
    _known: dict[str, str] = field(default_factory=dict)

    def ours(self, frame: Frame) -> Frame:
        """The client's frame, as it is to be sent now. Raises ``KeyError`` for a tool request that was not learnt."""
        made = {key: self._renamed(key, value) for key, value in frame.items() if key not in ("timestamp", "payload")}
        if "payload" in frame:
            made["payload"] = {key: self._renamed(key, value) for key, value in frame["payload"].items()}
        return made

    def learn(self, recorded: Frame, actual: Frame) -> None:
        """What the server calls the tool request or bundle of ``recorded``; other frames teach nothing."""
        for key in SERVERS_OWN:
            if key in recorded.get("payload", {}) and key in actual.get("payload", {}):
                self._known[f"{key}:{recorded['payload'][key]}"] = actual["payload"][key]

    def _renamed(self, key: str, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if key in SERVERS_OWN:
            return self._known[f"{key}:{value}"]
        if key in CLIENTS_OWN or key == "conversation_ref":
            return self._known.setdefault(f"id:{value}", f"{value}-{self.fresh}")
        return value


def there() -> bool:
    """Whether the recordings are beside this repository."""
    return all((FOLDER / f"{name}.jsonl").is_file() for name in NAMES)


def conversations(name: str) -> list[Conversation]:
    """The connections of one recording, in the order in which they were opened."""
    rows = [json.loads(row) for row in (FOLDER / f"{name}.jsonl").read_text().splitlines()]
    return read(rows)


def requests(name: str) -> list[tuple[str, str]]:
    """Method and path of the recording's HTTP requests, in order."""
    rows = [json.loads(row) for row in (FOLDER / f"{name}.jsonl").read_text().splitlines()]
    return [(row["method"], row["path"]) for row in rows if row["conn"] == "http"]


def read(rows: Sequence[dict[str, Any]]) -> list[Conversation]:
    """The connections in such rows: ``{conn, dir: open | c2s | s2c | close, frame, path?, headers?, code?}``."""
    names = dict.fromkeys(row["conn"] for row in rows if row["conn"] != "http")
    return [_connection(name, [row for row in rows if row["conn"] == name]) for name in names]


def _connection(name: str, rows: Sequence[dict[str, Any]]) -> Conversation:
    opened = next((row for row in rows if row["dir"] == "open"), {})
    closed = next((row.get("code") for row in rows if row["dir"] == "close"), None)
    headers = {key.lower() for key in opened.get("headers") or {}}
    steps = tuple(_steps(rows))
    return Conversation(name, opened.get("path"), "authorization" in headers, steps, closed)


def _steps(rows: Sequence[dict[str, Any]]) -> Iterator[Step]:
    first: Frame | None = None
    following: list[Frame] = []
    place = 0
    for index, row in enumerate(rows):
        if row["dir"] == "c2s":
            if first is not None:
                yield Step(place, first, tuple(following))
            first, following, place = row["frame"], [], index
        elif row["dir"] == "s2c":
            assert first is not None, "a server that speaks before the handshake"
            following.append(row["frame"])
    if first is not None:
        yield Step(place, first, tuple(following))

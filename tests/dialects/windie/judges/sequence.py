"""Whether what one windie client heard can be true: rules that hold for any captured connection, whatever happened.

``faults(lines)`` returns a line for each broken rule, with the place of the frame that breaks it. The lines are a
connection from its first frame on, in the client's order: what it said as well where that is known (``said``), which
makes more rules apply: whose turn it is, what a stop hit, whether a result had been given.

The rules are the contract's on stream events, and those that clients in use depend on: identity, numbers without gaps,
one end per turn with nothing after it, the order within a turn, tools, stopping, and payloads (``payloads``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import payloads

Frame = dict[str, Any]

STREAM_KEYS = frozenset(
    {
        *("id", "type", "payload", "user_id", "session_id", "conversation_ref", "turn_ref"),
        *("event_id", "sequence", "timestamp"),
    }
)
REPLY_KEYS = frozenset({"id", "type", "payload", "user_id", "session_id", "conversation_ref", "timestamp"})

COMPACTION = frozenset({"context-compaction-started", "context-compaction-completed", "context-compaction-failed"})
COMPACTION_ENDS = COMPACTION - {"context-compaction-started"}
ENDS = frozenset({"streaming-complete", "error"})

OPENING = ("query-accepted", "system-prompt", "user-message-full", "tool-schemas")
"""What may open a turn, in this order, each at most once and before any of ``OUTPUT``."""

CLOSING = frozenset({"assistant-message-full", "token-count"})
"""What may come once, when the model has said all."""

OUTPUT = frozenset(
    {"llm-thought", "streaming-response", "tool-call", "tool-bundle", "tool-output", "web-search-progress"}
)

WAKING = ("wakeword-activated", "wakeword-greeting", "audio-chunk")

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True)
class Line:
    """A frame of a connection; ``ours`` is whether the client sent it."""

    frame: Frame
    ours: bool = False


def said(frame: Frame) -> Line:
    """What the client sent."""
    return Line(frame, ours=True)


def heard(frame: Frame) -> Line:
    """What the client received."""
    return Line(frame)


@dataclass
class _Call:
    """A tool that was called: ``key`` is its request or, in a bundle, the bundle's id."""

    name: str
    key: str
    local: bool
    bundled: bool
    shown: bool = False


@dataclass
class _Turn:
    ref: str
    conversation: str | None
    asked: bool = False
    heard: int = 0
    """How many numbers it took."""
    kinds: list[str] = field(default_factory=list)
    text: str = ""
    full: str | None = None
    calls: list[_Call] = field(default_factory=list)
    end: str | None = None
    """The type that ended it."""
    refused: bool = False
    """Its query was answered with an error before it became a turn."""
    stopped: bool = False

    @property
    def over(self) -> bool:
        return self.end is not None or self.stopped or self.refused

    @property
    def compaction(self) -> bool:
        return bool(self.kinds) and self.kinds[0] in COMPACTION


@dataclass
class _Stop:
    """A stop-query, and the turns that it could hit when it was sent."""

    conversation: str | None
    turn: str | None
    hit: list[_Turn]
    answered: bool = False


def faults(lines: Iterable[Line], *, quiet: bool = True, opened: bool = True) -> list[str]:
    """Every rule that these lines break, as ``<place>: <what>``, in the order of their places; empty if there is none.

    ``quiet`` is whether the client waited until all was over, so that each turn must have ended by now. ``opened`` is
    whether the lines start with the connection, so that the startup events must be there.
    """
    judge = SequenceJudge(opened=opened)
    for line in lines:
        judge.take(line)
    return judge.end(quiet=quiet)


class SequenceJudge:
    """The same, line by line: ``take`` each, then ``end``. ``found`` is what is known by then."""

    def __init__(self, *, opened: bool = True) -> None:
        self.found: list[str] = []
        self._opened = opened
        self._place = -1
        self._turns: dict[str, _Turn] = {}
        self._running: dict[str, _Turn] = {}
        self._started: list[str] = []
        self._events: set[str] = set()
        self._keys: set[str] = set()
        self._users: set[str] = set()
        self._asked: dict[str, str] = {}
        self._stops: dict[str, _Stop] = {}
        self._results: set[str] = set()
        self._wakes: dict[str, str] = {}
        self._talks = False

    def take(self, line: Line) -> None:
        """One more line."""
        self._place += 1
        if line.ours:
            self._said(line.frame)
        else:
            self._heard(line.frame)

    def end(self, *, quiet: bool = True) -> list[str]:
        """All that is wrong, with what is missing at the end; ``quiet`` as in ``faults``."""
        self._place += 1
        if self._opened and "remote-tool-catalog" not in self._started:
            self._fault("no remote-tool-catalog was sent")
        if quiet:
            for turn in self._turns.values():
                if not turn.over:
                    self._fault(f"turn {turn.ref} never ended")
            for ident, stop in self._stops.items():
                if not stop.answered:
                    self._fault(f"stop-query {ident} has no stop-query-ack")
        return self.found

    def _fault(self, what: str) -> None:
        self.found.append(f"{self._place}: {what}")

    # What the client said

    def _said(self, frame: Frame) -> None:
        self._talks = True
        kind, ident = frame.get("type"), frame.get("id")
        payload = frame.get("payload") or {}
        if not isinstance(kind, str) or not isinstance(ident, str):
            return
        self._asked[ident] = kind
        if kind == "query":
            self._turns.setdefault(ident, _Turn(ident, payload.get("conversation_ref"), asked=True))
        elif kind == "stop-query":
            conversation, ref = payload.get("conversation_ref"), payload.get("turn_ref")
            self._stops[ident] = _Stop(conversation, ref, self._in_reach(conversation, ref))
        elif kind == "tool-result":
            self._results.add(str(payload.get("request_id")))
        elif kind == "tool-bundle-result":
            self._results.add(str(payload.get("bundle_id")))

    def _in_reach(self, conversation: str | None, ref: str | None) -> list[_Turn]:
        return [
            turn
            for turn in self._turns.values()
            if not turn.over
            and not turn.compaction
            and conversation in (None, turn.conversation)
            and ref in (None, turn.ref)
        ]

    # What it heard

    def _heard(self, frame: Frame) -> None:
        kind = frame.get("type")
        if kind not in payloads.ALL:
            self._fault(f"unknown type {kind!r}")
            return
        for wrong in payloads.faults(kind, frame.get("payload")):
            self._fault(f"{kind}: {wrong}")
        if not isinstance(frame.get("payload"), dict):
            return
        if kind in payloads.STARTUP:
            self._startup(kind, frame)
            return
        if self._opened and "remote-tool-catalog" not in self._started:
            self._fault(f"{kind} before the startup events")
        if kind in payloads.REPLY:
            self._reply(kind, frame)
        elif kind == "error" and self._is_reply(frame):
            self._refusal(frame)
        else:
            self._event(kind, frame)

    def _startup(self, kind: str, frame: Frame) -> None:
        if set(frame) != {"type", "payload"}:
            self._fault(f"{kind} carries more than type and payload: {sorted(set(frame) - {'type', 'payload'})}")
        if kind in self._started:
            self._fault(f"a second {kind}")
        if kind == "client-tool-manifest" and "remote-tool-catalog" in self._started:
            self._fault("client-tool-manifest after remote-tool-catalog")
        self._started.append(kind)

    def _is_reply(self, frame: Frame) -> bool:
        """Whether an error answers a message, rather than ends a turn: it says nothing of a turn, and none is open."""
        if {"turn_ref", "event_id", "sequence"} & set(frame):
            return False
        turn = self._turns.get(str(frame.get("id")))
        return turn is None or turn.heard == 0

    def _envelope(self, frame: Frame, allowed: frozenset[str], needed: Sequence[str]) -> None:
        kind = frame["type"]
        for key in sorted(set(frame) - allowed):
            self._fault(f"{kind}: key {key} is not in the contract")
        for key in needed:
            if key not in frame:
                self._fault(f"{kind}: no {key}")
            elif key not in ("payload", "sequence") and (not isinstance(frame[key], str) or not frame[key].strip()):
                self._fault(f"{kind}: {key} is no text, or a blank one")
        moment = frame.get("timestamp")
        if "timestamp" in frame and (not isinstance(moment, str) or not _MOMENT.fullmatch(moment)):
            self._fault(f"{kind}: timestamp is no moment")
        if isinstance(frame.get("user_id"), str):
            self._users.add(frame["user_id"])
            if len(self._users) > 1:
                self._fault(f"{kind}: user_id changed within the connection")

    def _refusal(self, frame: Frame) -> None:
        self._envelope(frame, REPLY_KEYS, ())
        ident = frame.get("id")
        if self._talks and ident is not None and ident not in self._asked:
            self._fault(f"error: answers {ident!r}, which was not sent")
        turn = self._turns.get(str(ident))
        if turn is not None:
            if turn.refused:
                self._fault("error: a second one for the same query")
            turn.refused = True

    # Replies

    def _reply(self, kind: str, frame: Frame) -> None:
        self._envelope(frame, REPLY_KEYS | ({"turn_ref"} if kind == "audio-chunk" else set()), ("id", "type"))
        ident = frame.get("id")
        if not isinstance(ident, str):
            return
        if kind in WAKING:
            self._waking(kind, ident)
            return
        asker = {
            "settings-loaded": "load-settings",
            "settings-updated": "update-settings",
            "models-listed": "list-models",
            "stop-query-ack": "stop-query",
        }[kind]
        if self._talks and self._asked.get(ident) != asker:
            self._fault(f"{kind}: answers {ident!r}, which is no {asker} of ours")
        if kind == "stop-query-ack":
            self._acknowledged(ident, frame["payload"])

    def _waking(self, kind: str, ident: str) -> None:
        turn = self._turns.get(ident)
        if kind == "audio-chunk" and turn is not None:
            if turn.stopped:
                self._fault(f"audio-chunk of turn {ident} after its stop was acknowledged")
            return
        if self._talks and self._asked.get(ident) != "wakeword-detected":
            self._fault(f"{kind}: answers {ident!r}, which is no wakeword-detected of ours")
        before = self._wakes.get(ident)
        good = {
            "wakeword-activated": before is None,
            "wakeword-greeting": before == "wakeword-activated",
            "audio-chunk": before in ("wakeword-greeting", "audio-chunk"),
        }
        if not good[kind]:
            self._fault(f"{kind} after {before}")
        self._wakes[ident] = kind

    def _acknowledged(self, ident: str, ack: Frame) -> None:
        stop = self._stops.get(ident)
        conversation, ref = ack.get("conversation_ref"), ack.get("turn_ref")
        if stop is None:
            stop = _Stop(conversation, ref, self._in_reach(conversation, ref))
            self._stops[ident] = stop
        if stop.answered:
            self._fault("stop-query-ack: a second one")
        stop.answered = True
        if stop.conversation is not None and conversation != stop.conversation:
            self._fault("stop-query-ack: not the conversation_ref that was to stop")
        if stop.turn is not None and ref != stop.turn:
            self._fault("stop-query-ack: not the turn_ref that was to stop")
        if ack.get("canceled") is not True:
            return
        hit = [turn for turn in stop.hit if turn.end is None]
        if self._talks and not hit:
            self._fault("stop-query-ack: says stopped, and no turn in its reach was open")
        for turn in hit:
            turn.stopped = True
            if self._running.get(str(turn.conversation)) is turn:
                del self._running[str(turn.conversation)]

    # Stream events

    def _event(self, kind: str, frame: Frame) -> None:
        self._envelope(frame, STREAM_KEYS, sorted(STREAM_KEYS))
        ref = frame.get("turn_ref") or frame.get("id")
        if not isinstance(ref, str):
            return
        if frame.get("id") != ref:
            self._fault(f"{kind}: id is not turn_ref")
        turn = self._turn(kind, ref, frame)
        self._numbered(kind, turn, frame)
        if turn.stopped:
            self._fault(f"{kind} of turn {ref} after its stop was acknowledged")
        elif turn.end is not None:
            self._fault(f"{kind} of turn {ref} after its {turn.end}")
        elif turn.refused:
            self._fault(f"{kind} of turn {ref}, whose query was refused")
        else:
            self._interleaved(kind, turn)
        self._ordered(kind, turn)
        turn.kinds.append(kind)
        step = _STEPS.get(kind)
        if step is not None:
            step(self, turn, frame["payload"])
        if kind in ENDS or kind in COMPACTION_ENDS:
            turn.end = turn.end or kind
            if self._running.get(str(turn.conversation)) is turn:
                del self._running[str(turn.conversation)]

    def _turn(self, kind: str, ref: str, frame: Frame) -> _Turn:
        turn = self._turns.get(ref)
        conversation = frame.get("conversation_ref")
        if turn is None:
            turn = self._turns[ref] = _Turn(ref, conversation if isinstance(conversation, str) else None)
            if self._talks and kind not in COMPACTION:
                self._fault(f"{kind} of turn {ref}, which nobody asked for")
        if isinstance(conversation, str) and conversation != turn.conversation:
            self._fault(f"{kind}: conversation_ref {conversation!r} is not that of turn {ref}")
        if kind in COMPACTION and (turn.asked or (turn.kinds and not turn.compaction)):
            self._fault(f"{kind} has the turn_ref of a query")
        if turn.compaction and kind not in COMPACTION:
            self._fault(f"{kind} has the turn_ref of a compaction")
        return turn

    def _numbered(self, kind: str, turn: _Turn, frame: Frame) -> None:
        turn.heard += 1
        number = frame.get("sequence")
        if "sequence" in frame and (isinstance(number, bool) or number != turn.heard):
            self._fault(f"{kind}: sequence {number!r} where {turn.heard} was due")
            if isinstance(number, int) and not isinstance(number, bool):
                turn.heard = number
        event = frame.get("event_id")
        if isinstance(event, str):
            if event in self._events:
                self._fault(f"{kind}: event_id {event!r} was used before")
            elif event == turn.ref:
                self._fault(f"{kind}: event_id is the turn's own id")
            self._events.add(event)

    def _interleaved(self, kind: str, turn: _Turn) -> None:
        if kind in COMPACTION:
            return
        running = self._running.setdefault(str(turn.conversation), turn)
        if running is not turn:
            self._fault(f"{kind} of turn {turn.ref} while turn {running.ref} of the same conversation runs")

    def _ordered(self, kind: str, turn: _Turn) -> None:
        before = turn.kinds
        if kind in OPENING:
            if kind in before:
                self._fault(f"a second {kind}")
            late = [each for each in before if each in OPENING and OPENING.index(each) > OPENING.index(kind)]
            late += [each for each in before if each in OUTPUT or each in CLOSING]
            if late:
                self._fault(f"{kind} after {late[0]}")
            if kind == "query-accepted" and before:
                self._fault("query-accepted is not the turn's first event")
        elif kind in CLOSING and kind in before:
            self._fault(f"a second {kind}")
        elif kind in OUTPUT:
            done = [each for each in before if each in CLOSING]
            if done:
                self._fault(f"{kind} after {done[0]}")
        elif kind == "context-compaction-started" and before:
            self._fault("context-compaction-started is not its turn's first event")
        elif kind in COMPACTION_ENDS and not before:
            self._fault(f"{kind} without context-compaction-started")

    # Of one type

    def _streamed(self, turn: _Turn, payload: Frame) -> None:
        turn.text += str(payload.get("text", ""))

    def _said_in_full(self, turn: _Turn, payload: Frame) -> None:
        turn.full = str(payload.get("content"))
        if turn.text.strip() and turn.full != turn.text:
            self._fault("assistant-message-full: content is not what was streamed")

    def _called(self, turn: _Turn, payload: Frame) -> None:
        metadata = payload.get("metadata")
        local = not (isinstance(metadata, dict) and metadata.get("skip_local_execution") is True)
        key = str(payload.get("request_id"))
        self._new_key("request_id", key)
        turn.calls.append(_Call(str(payload.get("tool_name")), key, local, bundled=False))

    def _bundled(self, turn: _Turn, payload: Frame) -> None:
        key = str(payload.get("bundle_id"))
        self._new_key("bundle_id", key)
        tools = payload.get("tools")
        for tool in tools if isinstance(tools, list) else []:
            name = str(tool.get("name")) if isinstance(tool, dict) else ""
            turn.calls.append(_Call(name, key, local=True, bundled=True))

    def _new_key(self, what: str, key: str) -> None:
        if key in self._keys:
            self._fault(f"{what} {key!r} was used before")
        self._keys.add(key)

    def _put_out(self, turn: _Turn, payload: Frame) -> None:
        name, request = payload.get("tool_name"), payload.get("request_id")
        fitting = [call for call in turn.calls if call.name == name and not call.shown]
        if request is not None:
            fitting = [call for call in fitting if call.key == request]
        else:
            fitting.sort(key=lambda call: call.local)
        if not fitting:
            self._fault(f"tool-output of {name!r} without a tool-call before it")
            return
        call = fitting[0]
        call.shown = True
        if not call.local:
            return
        if call.bundled:
            self._fault(f"tool-output of {name!r}, which the client ran in a bundle: it would show it twice")
        elif request is None:
            self._fault(
                f"tool-output of {name!r}, which the client ran, without its request_id: it would show it twice"
            )
        if self._talks and call.key not in self._results:
            self._fault(f"tool-output of {name!r} before the client gave its result")

    def _completed(self, turn: _Turn, payload: Frame) -> None:
        final = payload.get("final_response")
        if not turn.text.strip():
            if not isinstance(final, str) or not final.strip():
                self._fault("streaming-complete: nothing was streamed, and final_response does not stand in for it")
        elif final is not None and final != turn.text:
            self._fault("streaming-complete: final_response is not what was streamed")
        if turn.full is not None and turn.full.strip() and final is not None and final != turn.full:
            self._fault("streaming-complete: final_response is not assistant-message-full")
        if "user-message-full" not in turn.kinds:
            self._fault("streaming-complete: the turn had no user-message-full")
        for call in turn.calls:
            if not call.local and not call.shown:
                self._fault(f"streaming-complete: {call.name!r}, which the server ran, had no tool-output")


_STEPS: dict[str, Callable[[SequenceJudge, _Turn, Frame], None]] = {
    "streaming-response": SequenceJudge._streamed,
    "assistant-message-full": SequenceJudge._said_in_full,
    "tool-call": SequenceJudge._called,
    "tool-bundle": SequenceJudge._bundled,
    "tool-output": SequenceJudge._put_out,
    "streaming-complete": SequenceJudge._completed,
}

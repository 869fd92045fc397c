"""Judges what a socket was told that came back to a session, by the seed and by nothing of ours.

The measure is a *witness*: a socket that was there all the time. A returning socket is right in one of three ways
(seed: Protocol Flows):

- ``continued``: it named the last event that it had, and the turn still ran. Then what it heard before and after is the
  witness's turn: every event once, in order, and one OUTPUT behind them.
- ``again``: it named none, and the turn still ran. Then it heard the whole turn, with the ids that the witness saw.
- ``ended``: the turn was over. Then it heard of no event and no OUTPUT, and CONNECTED has what OUTPUT had.

Deltas that follow each other may be told in other pieces than the witness's: they count as one text. Of two events that
share an id (spec §6: a model's call and its result, both ends of a compaction) the id does not say which of them the
client had last: having both, it may be told again what follows the first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Frame = dict[str, Any]

REPLIES = frozenset({"PING", "SESSION_STATUS", "RUNTIME_INPUT_ACK"})
"""Types of frames that belong to no turn."""

PAIRS = (("llm_call", "llm_result"), ("compact", "compact"))


class Wrong(AssertionError):
    """The socket was told something that the seed does not allow. Shows both transcripts."""


@dataclass
class Return:
    """A socket that came back.

    ``before`` is what it had heard of the turn, over all its connections, ``last`` the event that its CONNECT named,
    ``after`` everything from CONNECTED on: to OUTPUT, or until it was certain that none comes.
    """

    last: str | None
    after: Sequence[Frame]
    before: Sequence[Frame] = field(default_factory=list)


def judge(returned: Return, witness: Sequence[Frame]) -> str:
    """Which of the three it was. ``witness`` is the whole turn, ``user_input`` to OUTPUT. Raises ``Wrong``."""
    told = [frame for frame in returned.after if frame["type"] not in REPLIES]
    turn = [frame for frame in witness if frame["type"] not in REPLIES]
    _hold(bool(told) and told[0]["type"] == "CONNECTED", "CONNECTED comes first", returned, turn)
    connected, rest = told[0], told[1:]
    _hold(not any(frame["type"] == "CONNECTED" for frame in rest), "CONNECTED comes once", returned, turn)
    _hold(turn[-1]["type"] == "OUTPUT", "the witness heard the turn's end", returned, turn)
    _hold(connected["session_id"] == turn[-1]["session_id"], "it is the same session", returned, turn)
    if connected["status"] == "connected":
        _hold(not rest, "an ended turn is not told again", returned, turn)
        _hold(connected.get("server_newer") is True, "the server knows more", returned, turn)
        for part in ("session", "chat_items"):
            _hold(connected.get(part) == turn[-1][part], f"CONNECTED has OUTPUT's {part}", returned, turn)
        return "ended"
    _hold(connected["status"] == "running", f"status is {connected['status']}", returned, turn)
    _hold([frame["type"] for frame in rest].count("OUTPUT") == 1, "OUTPUT comes once", returned, turn)
    _hold(rest[-1] == turn[-1], "OUTPUT comes last, and is the witness's", returned, turn)
    _check_events(returned, rest[:-1], turn)
    return "again" if returned.last is None else "continued"


def _check_events(returned: Return, events: list[Frame], turn: list[Frame]) -> None:
    for frame in events:
        _hold(isinstance(frame.get("id"), str) and isinstance(frame.get("ts"), float), "id and ts", returned, turn)
        _hold(frame.get("session_id") == turn[-1]["session_id"], "every event names its session", returned, turn)
    if returned.last is not None:
        had = [frame for frame in returned.before if frame["type"] not in REPLIES]
        _hold(bool(had) and had[-1]["id"] == returned.last, "the test named the last event that it had", returned, turn)
        events = events[_told_since_the_first(events, had) :]
        events = had + events
    twice = [what for what, count in Counter(identity(frame) for frame in events).items() if count > 1]
    _hold(not twice, f"told twice: {twice[:5]}", returned, turn)
    _hold(joined(events) == joined(turn[:-1]), "the events are the witness's", returned, turn)


def _told_since_the_first(events: list[Frame], had: list[Frame]) -> int:
    """How many events are told again because the last one is the second of a pair: all or none behind the first."""
    last = had[-1]
    firsts = [place for place, frame in enumerate(had[:-1]) if frame["id"] == last["id"]]
    if not firsts or (had[firsts[-1]]["type"], last["type"]) not in PAIRS:
        return 0
    since = joined(had[firsts[-1] + 1 :])
    ends = [place for place, frame in enumerate(events) if identity(frame) == identity(last)]
    return ends[0] + 1 if ends and joined(events[: ends[0] + 1]) == since else 0


def identity(frame: Frame) -> tuple[str, str, str]:
    """What makes an event the same event."""
    return frame["id"], frame["type"], str(frame.get("status", ""))


def joined(frames: Sequence[Frame]) -> list[Frame]:
    """The same with deltas that follow each other as one, which has the last one's id and time."""
    whole: list[Frame] = []
    for frame in frames:
        if frame["type"] == "assistant_delta" and whole and whole[-1]["type"] == "assistant_delta":
            whole[-1] = {**frame, "content": whole[-1]["content"] + frame["content"]}
        else:
            whole.append(frame)
    return whole


def _hold(is_true: bool, rule: str, returned: Return, turn: Sequence[Frame]) -> None:
    if is_true:
        return
    sides = (("heard before", returned.before), ("heard after", returned.after), ("the witness", turn))
    story = "\n".join(
        f"--- {name}\n" + "\n".join(_line(frame) for frame in list(frames)[-60:]) for name, frames in sides
    )
    raise Wrong(f"{rule}; last_msg_id {returned.last}\n{story}")


def _line(frame: Frame) -> str:
    return json.dumps(frame)[:200]


def conversation(log: Sequence[Frame]) -> list[tuple[str, str]]:
    """Who said what, by the session's log as the hub tells it: ``user`` and ``assistant`` texts, and for each tool its
    call (``call``, its id) and its end (``result``, its id), in order. What one answer of a model says is one text."""
    prompts = {event["fact"]["prompt"]: event["fact"] for event in log if event["fact"]["type"] == "prompt.submitted"}
    said: list[tuple[str, str]] = []
    answer: int | None = None
    for event in log:
        fact = event["fact"]
        kind = fact["type"]
        if kind == "step.started":
            answer = None
        elif kind in ("turn.started", "prompt.taken"):
            said.append(("user", prompts[fact["prompt"]]["text"]))
        elif kind == "message.added" and fact["role"] == "assistant":
            if answer is None:
                answer = len(said)
                said.append(("assistant", ""))
            said[answer] = ("assistant", said[answer][1] + fact["text"])
        elif kind == "tool.called":
            said.append(("call", fact["call"]))
        elif kind == "tool.ended":
            said.append(("result", fact["call"]))
    return said


def spoken(session: Frame) -> list[tuple[str, str]]:
    """The same of a session object's messages. A message with text and calls is both."""
    said: list[tuple[str, str]] = []
    for message in session["messages"]:
        if message["role"] == "tool":
            said.append(("result", message["tool_call_id"]))
            continue
        if message.get("content"):
            said.append((message["role"], message["content"]))
        said += [("call", call["id"]) for call in message.get("tool_calls") or ()]
    return said

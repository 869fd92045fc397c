"""The checker of streams is checked: what can be it lets pass, and of what cannot be it says where it stands."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from .stream_checker import Frame, disagreements, problems

FIRST, SECOND = "11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"
T0 = 1_795_817_000_000


def session(session_id: str = SECOND, **changed: Any) -> Frame:
    return {
        "id": session_id,
        "name": "proj",
        "type": "external",
        "agent": "claude",
        "status": "working",
        "cwd": "/home/user/proj",
        "createdAt": T0,
        "lastActivity": T0,
        **changed,
    }


def event(seq: int, kind: str, session_id: str = SECOND, **more: Any) -> Frame:
    base = {"id": f"{session_id}:{seq}", "timestamp": T0 + seq, "sessionId": session_id, "agent": "claude"}
    return {"type": kind, **base, "cwd": "/home/user/proj", **more}


PRE = event(3, "pre_tool_use", tool="Bash", toolInput={"command": "ls"}, toolUseId="t1")
POST = event(
    4,
    "post_tool_use",
    tool="Bash",
    toolInput={"command": "ls"},
    toolResponse={},
    toolUseId="t1",
    success=True,
    duration=5,
)
STOP = event(6, "stop", stopHookActive=False)
ASKED = {
    "sessionId": SECOND,
    "tool": "Bash",
    "context": "",
    "options": [{"number": "1", "label": "Yes"}],
    "decisionId": "d",
}
OLD = session(FIRST, status="idle", currentTool=None)
del OLD["currentTool"]


def both(name: str, told: Any) -> Frame:
    return {"type": name, "data": told, "payload": told}


def dashboard(name: str, told: Any) -> Frame:
    return {"type": name, "payload": told}


def the_stream() -> list[Frame]:
    """What a link of a dashboard hears of one session that comes, asks, stops and goes."""
    busy = session(currentTool="Bash")
    asking = session(currentTool="Bash", status="waiting", waitingFor="permission")
    resting = session(status="waiting", waitingFor="prompt")
    before = event(1, "stop", FIRST, stopHookActive=False)
    return [
        both("init", {"sessions": [OLD]}),
        dashboard("connected", {"sessionId": FIRST}),
        both("sessions", [OLD]),
        dashboard("text_tiles", []),
        both("history", [before]),
        both("session:created", session()),
        both("sessions", [OLD, session()]),
        both("event", event(1, "session_start", source="startup")),
        both("session:updated", busy),
        both("event", PRE),
        both("session:status", asking),
        both("sessions", [OLD, asking]),
        both("cin:permission_prompt", ASKED),
        dashboard("permission_prompt", ASKED),
        dashboard("permission_resolved", {"sessionId": SECOND, "decisionId": "d"}),
        both("cin:permission_resolved", {"sessionId": SECOND, "decisionId": "d"}),
        both("session:status", busy),
        both("session:updated", session(lastActivity=T0 + 4)),
        both("event", POST),
        both("session:status", resting | {"lastActivity": T0 + 6}),
        both("event", STOP),
        both("history", [before, PRE, POST, STOP]),
        {"type": "pong"},
        both("session:deleted", resting),
        both("sessions", [OLD]),
    ]


def place(frames: list[Frame], name: str, at: int = 0) -> int:
    """Where the frame of that type stands, counted from the first or, below 0, the last one."""
    return [i for i, frame in enumerate(frames) if frame["type"] == name][at]


def swapped(frames: list[Frame], one: int, other: int) -> None:
    frames[one], frames[other] = frames[other], frames[one]


def doubled(name: str, at: int = 0) -> Callable[[list[Frame]], None]:
    def change(frames: list[Frame]) -> None:
        frames.insert(place(frames, name, at), copy.deepcopy(frames[place(frames, name, at)]))

    return change


def dropped(name: str, at: int = 0) -> Callable[[list[Frame]], None]:
    def change(frames: list[Frame]) -> None:
        del frames[place(frames, name, at)]

    return change


def moved(name: str, at: int, before: str, there: int) -> Callable[[list[Frame]], None]:
    def change(frames: list[Frame]) -> None:
        target = place(frames, before, there)
        frame = frames.pop(place(frames, name, at))
        frames.insert(target, frame)

    return change


def altered(name: str, at: int, **fields: Any) -> Callable[[list[Frame]], None]:
    """Some fields of what a frame says become others; None is gone."""

    def change(frames: list[Frame]) -> None:
        frame = frames[place(frames, name, at)]
        for key in ("data", "payload"):
            if key in frame:
                told = {**frame[key], **fields}
                frame[key] = {one: value for one, value in told.items() if value is not None}

    return change


def only(name: str, at: int, key: str) -> Callable[[list[Frame]], None]:
    def change(frames: list[Frame]) -> None:
        frame = frames[place(frames, name, at)]
        del frame["payload" if key == "data" else "data"]

    return change


BROKEN: dict[str, tuple[Callable[[list[Frame]], None], str]] = {
    "no init": (dropped("init"), "comes before init"),
    "init twice": (doubled("init"), "a second time"),
    "init late": (lambda frames: swapped(frames, 0, 1), "comes before init"),
    "a session twice in init": (altered("init", 0, sessions=[OLD, OLD]), "twice"),
    "no created": (dropped("session:created"), "is not known"),
    "created twice": (doubled("session:created"), "was there already"),
    "created after its event": (moved("session:created", 0, "event", 1), "is not known"),
    "an event twice": (doubled("event", 1), "a second time"),
    "events swapped": (moved("event", 2, "event", 1), "after"),
    "no begin": (dropped("event", 1), "never began"),
    "an event of nobody": (altered("event", 0, sessionId=FIRST[:-1] + "9"), "is not known"),
    "an event without its time": (altered("event", 0, timestamp=None), "has no timestamp"),
    "an event without its source": (altered("event", 0, source=None), "has no source"),
    "an event with a number as text": (altered("event", 0, timestamp="1"), "no number"),
    "an event of no such type": (altered("event", 0, type="turn_end"), "none of the page's events"),
    "an event under another's number": (altered("event", 0, id=f"{FIRST}:9"), f"is of {SECOND}"),
    "another tool in the end": (altered("event", 2, tool="Read"), "ends as Read"),
    "less than no time": (altered("event", 2, duration=-1), "took -1 ms"),
    "an update of nothing": (doubled("session:updated", 0), "nothing changed"),
    "a status that is none": (doubled("session:status", 0), "already"),
    "a status in an update": (altered("session:updated", 0, status="idle", currentTool=None), "session:status is for"),
    "another kind": (altered("session:updated", 0, type="internal"), "another type"),
    "an older time": (altered("session:status", 2, lastActivity=T0 - 5), "goes back"),
    "a tool of one that rests": (altered("session:status", 2, status="idle", currentTool="Bash"), "with the tool"),
    "a reason to wait of one that works": (altered("session:status", 1, waitingFor="prompt"), "waits for"),
    "a tmux session elsewhere": (altered("session:created", 0, tmuxSession="x"), "with a tmux session"),
    "no such status": (altered("session:created", 0, status="busy"), "none of these"),
    "deleted before the last": (moved("session:deleted", 0, "event", -1), "was deleted"),
    "deleted twice": (doubled("session:deleted"), "was deleted"),
    "no list for a new session": (dropped("sessions", 1), "is on no list"),
    "an old list": (moved("sessions", 1, "session:created", 0), "lists"),
    "a list that says otherwise": (moved("sessions", 2, "session:status", 0), "was told as"),
    "data alone": (only("event", 1, "data"), "data without payload"),
    "payload alone": (only("event", 1, "payload"), "has no data"),
    "two contents": (lambda frames: frames[place(frames, "history", 1)].update(payload=[]), "not the same"),
    "no twin": (dropped("permission_prompt"), "without a twin"),
    "a twin twice": (doubled("permission_resolved"), "without a twin"),
    "a twin that says otherwise": (altered("permission_prompt", 0, tool="Read"), "not the same as its"),
    "asked twice": (doubled("cin:permission_prompt"), "a second time"),
    "resolved twice": (doubled("cin:permission_resolved"), "a second time"),
    "never asked": (dropped("cin:permission_prompt"), "never asked for"),
    "asked without an id": (altered("cin:permission_prompt", 0, decisionId=None), "has no decisionId"),
    "a history in another order": (
        lambda frames: frames[place(frames, "history", 1)]["data"].reverse(),
        "another order",
    ),
    "no type": (lambda frames: frames.append({"data": 1}), "no type of the dialect's"),
    "a type of nobody": (lambda frames: frames.append({"type": "session_update", "data": {}}), "no type of the"),
    "an envelope with more": (lambda frames: frames[-1].update(at=5), "an envelope has not"),
}


def test_what_can_be_passes() -> None:
    assert problems(the_stream()) == []


def test_without_the_dashboard_only_data_is_spoken() -> None:
    spoken = [
        {key: value for key, value in frame.items() if key != "payload"}
        for frame in the_stream()
        if frame["type"] in ("init", "event", "history", "pong") or ":" in frame["type"]
    ]
    assert problems(spoken, legacy=False) == []
    assert any("payload" in line for line in problems([both("init", {"sessions": []})], legacy=False))
    assert any("no type" in line for line in problems([*spoken, dashboard("connected", {})], legacy=False))


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_is_found(name: str) -> None:
    change, said = BROKEN[name]
    frames = copy.deepcopy(the_stream())
    change(frames)
    found = problems(frames)
    assert any(said in line for line in found), found


def test_a_history_with_an_event_twice_or_another() -> None:
    for change, said in ((lambda told: [*told, STOP], "twice"), (lambda told: [{**STOP, "cwd": "/"}], "was told as")):
        frames = the_stream()
        frames[place(frames, "history", -1)] = both("history", change([PRE, POST, STOP]))
        assert any(said in line for line in problems(frames))


def test_nothing_is_no_stream() -> None:
    assert problems([]) == ["in the end: nothing was heard"]


def test_a_link_that_came_late_may_hear_ends_only() -> None:
    late = [both("init", {"sessions": [session()]}), both("sessions", [session()]), both("event", POST)]
    assert problems(late) == []


def test_one_that_subscribed_to_a_part_may_hear_ends_only() -> None:
    part = [frame for frame in the_stream() if frame["type"] != "event" or frame["data"]["type"] == "post_tool_use"]
    part = [frame for frame in part if frame["type"] != "history"]
    assert problems(part, filtered=True) == []
    assert any("never began" in line for line in problems(part))


def test_two_links_are_told_the_same() -> None:
    whole = the_stream()
    created = place(whole, "session:created")
    late = [both("init", {"sessions": [OLD, session()]}), *whole[created + 1 :]]
    assert disagreements(whole, whole) == disagreements(whole, late) == disagreements(late, whole) == []
    assert disagreements(whole, whole[:-6]) == []
    other = copy.deepcopy(whole)
    swapped(other, place(other, "event", 1), place(other, "event", 2))
    assert disagreements(whole, other)
    assert disagreements(whole, [frame for frame in whole if frame is not whole[place(whole, "event", 1)]])

"""What a chat shows of a conversation (spec §7, "chat_items"; §15 rows 30, 32 and 33)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from dragoman.hub.events import Attachment, HistoryMerged, HistoryMessage, Problem, ToolCalled

from .original import Retelling, recorded, relative, typed
from .rambling import CHOICES, PATIENT, Rambling
from .talking import Talk

Item = dict[str, Any]


def shown(item: Item) -> Item:
    """An item of the original without what we do otherwise: user text as typed, no paths of the server."""
    if item["type"] == "user":
        return {**item, "content": typed(item["content"])}
    if item["type"] == "files_received":
        return {**item, "files": [{**file, "path": relative(file["path"])} for file in item["files"]]}
    return item


@pytest.mark.parametrize(
    "name",
    [
        "approval_once_session",
        "approval_reject_hard",
        "files_images_ok",
        "input_tool_errors",
        "merge_iteration_resets_each_turn",
        "reconnect_idle_merge",
        "runtime_input",
    ],
)
def test_a_recorded_chat_is_shown_as_the_original_showed_it(name: str) -> None:
    """Ids and order too."""
    theirs = recorded(name)
    talk = Retelling(theirs["session"]).talk
    assert talk.items() == [shown(item) for item in theirs["chat_items"]]


def test_a_turn_with_all_that_can_be_shown() -> None:
    talk = Talk()
    file = Attachment(kind="file", name="1_a.txt", artifact="upload:.co/uploads/1_a.txt")
    talk.starts("look", content="look\n\nA reminder.", files=[file])
    talk.steps()
    talk.says("hm", "reasoning")
    thought = len(talk.log)
    talk.calls("c", given={"q": 1})
    talk.ends("c", problem=Problem("broken", "out of order"))
    talk.stepped()
    talk.steps()
    talk.says("there")
    assert talk.items() == [
        {"id": "msg-0", "type": "user", "content": "look"},
        {
            "id": "files-1",
            "type": "files_received",
            "files": [{"name": "1_a.txt", "path": ".co/uploads/1_a.txt"}],
        },
        {"id": f"ev-{thought}", "type": "thinking", "status": "done", "content": "hm", "kind": "reasoning"},
        {
            "id": "c",
            "type": "tool_call",
            "name": "search",
            "args": {"q": 1},
            "status": "error",
            "result": "Error: found",
            "timing_ms": 3.0,
        },
        {"id": "msg-3", "type": "agent", "content": "there"},
    ]


def test_a_tool_that_runs_has_its_place_already() -> None:
    talk = Talk()
    talk.starts("go")
    talk.steps()
    talk.calls("a", given={"q": 1})
    talk.calls("b")
    assert talk.items()[1:] == [
        {"id": "a", "type": "tool_call", "name": "search", "args": {"q": 1}, "status": "running"},
        {"id": "b", "type": "tool_call", "name": "search", "args": {}, "status": "running"},
    ]
    talk.ends("b")
    assert [(item["id"], item["status"]) for item in talk.items()[1:]] == [("a", "running"), ("b", "done")]


def test_an_unknown_tool_is_shown_once_it_has_its_result() -> None:
    """No ``tool_call`` is said of it."""
    talk = Talk()
    problem = Problem("no_such_tool", "there is no such tool")
    talk.starts("go")
    talk.record(ToolCalled(call="x", tool="nosuch", invalid=True, problem=problem))
    assert talk.ids() == ["msg-0"]
    talk.ends("x", tool="nosuch", problem=problem)
    assert [(item["id"], item["status"], item["result"]) for item in talk.items()[1:]] == [
        ("x", "error", "Tool 'nosuch' not found")
    ]


def test_a_call_has_one_place_and_one_result() -> None:
    """The first; also in the messages."""
    talk = Talk()
    talk.starts("go")
    talk.steps()
    talk.calls("a")
    talk.ends("a", "first")
    talk.ends("a", "second")
    talk.calls("a")
    assert [(item["id"], item.get("result")) for item in talk.items()] == [("msg-0", None), ("a", "first")]
    assert [message.get("content") for message in talk.session()["messages"]] == ["go", None, "first"]
    assert len(talk.session()["messages"][1]["tool_calls"]) == 1


def test_several_answers_in_one_turn_and_a_prompt_between_them() -> None:
    talk = Talk()
    talk.starts("first")
    talk.steps()
    talk.says("I look.")
    talk.calls("a")
    waiting = talk.submits("also")
    talk.ends("a")
    talk.stepped()
    talk.takes(waiting)
    talk.steps()
    talk.calls("b")
    talk.ends("b")
    talk.stepped()
    talk.steps()
    talk.says("Both.")
    assert talk.ids() == ["msg-0", "msg-1", "a", "msg-3", "b", "msg-6"]
    assert [item.get("content") for item in talk.items()] == ["first", "I look.", None, "also", None, "Both."]


def test_a_history_that_was_taken_in_is_shown_as_text() -> None:
    talk = Talk()
    messages = (
        HistoryMessage(role="user", content=[{"type": "text", "text": "see"}]),
        HistoryMessage(role="assistant", content="yes"),
        HistoryMessage(role="assistant", content=" \n"),
    )
    talk.record(HistoryMerged(messages=messages, replace=False, by="o", via="onion"))
    assert [(item["id"], item["type"], item["content"]) for item in talk.items()] == [
        ("msg-0", "user", "see"),
        ("msg-1", "agent", "yes"),
    ]


@PATIENT
@given(CHOICES)
def test_items_are_shown_in_the_order_in_which_they_happened(choices: list[int]) -> None:
    talk = Talk()
    rambling = Rambling(talk)
    rambling.go(choices)
    items = [item for item in talk.items() if item["type"] != "thinking"]
    assert [item.get("content", item["id"]) for item in items] == rambling.done
    assert [item["content"] for item in items if item["type"] == "user"] == rambling.typed


@PATIENT
@given(CHOICES)
def test_items_keep_their_ids_and_places(choices: list[int]) -> None:
    """What was shown at any time stays where it was; only a call gets its result, and the newest answer more text."""
    talk = Talk()
    rambling = Rambling(talk)
    before: list[Item] = []
    for choice in choices:
        rambling.go([choice])
        now = talk.items()
        ids = [item["id"] for item in now]
        assert len(set(ids)) == len(ids)
        assert ids[: len(before)] == [item["id"] for item in before]
        changed = [(was, become) for was, become in zip(before, now, strict=False) if was != become]
        for was, become in changed:
            assert was.get("status") == "running" or become["content"].startswith(was["content"])
        assert len(changed) <= 1
        before = now


@PATIENT
@given(CHOICES)
def test_an_items_number_is_its_messages(choices: list[int]) -> None:
    talk = Talk()
    Rambling(talk).go(choices)
    messages = talk.session()["messages"]
    for item in talk.items():
        if item["id"].startswith("msg-"):
            message = messages[int(item["id"].removeprefix("msg-"))]
            assert message["content"] == item["content"]
            assert message["role"] == {"user": "user", "agent": "assistant"}[item["type"]]


@PATIENT
@given(CHOICES)
def test_a_short_trace_takes_nothing_from_the_chat(choices: list[int]) -> None:
    talk, short = Talk(), Talk(trace_entries=1)
    Rambling(talk).go(choices)
    Rambling(short).go(choices)
    assert short.items() == talk.items()


@PATIENT
@given(CHOICES)
def test_what_was_before_a_turn_and_what_is_said_in_it_do_not_overlap(choices: list[int]) -> None:
    """Whoever is shown the items from before the open turn, and then that turn's events, sees each thing once."""
    talk = Talk()
    rambling = Rambling(talk)
    rambling.go(choices)
    rambling.finish()
    known = len(talk.items())
    talk.starts("next")
    talk.steps()
    talk.calls("mine")
    assert talk.items(before_turn=True) == talk.items()[:known]
    assert [item.get("content", item["id"]) for item in talk.items()[known:]] == ["next", "mine"]

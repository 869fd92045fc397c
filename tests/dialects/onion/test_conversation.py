"""The session object, as OUTPUT and CONNECTED have it (spec §7)."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given

from dragoman.dialects.onion import messages as wire
from dragoman.dialects.onion.conversation import Conversation
from dragoman.dialects.onion.merging import Measure
from dragoman.dialects.onion.projection import WHAT_NEXT
from dragoman.hub.events import (
    CheckpointTaken,
    Compacted,
    HistoryCall,
    HistoryMerged,
    HistoryMessage,
    HistoryReset,
    MessageAdded,
    Origin,
    PartDelta,
    Problem,
    PromptSubmitted,
    PromptWithdrawn,
    SessionClosed,
    SettingsChanged,
    ToolCalled,
    ToolEnded,
    TurnStarted,
)

from .original import Retelling, recorded, relative, typed
from .rambling import CHOICES, PATIENT, Rambling
from .talking import EPOCH, WIRE_ID, Talk

NAMES = (
    "approval_once_session",
    "approval_reject_hard",
    "files_images_ok",
    "input_tool_errors",
    "merge_iteration_resets_each_turn",
    "reconnect_idle_merge",
    "runtime_input",
)


def told(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(message["role"], message.get("content", "")) for message in messages]


def plain(message: dict[str, Any], trace: list[dict[str, Any]]) -> dict[str, Any]:
    """A message of the original without what we do otherwise: user text as typed, argument text spaced anew, and the
    result of a tool as ``tool_result`` has it (the original gives the model less of a refusal)."""
    if message["role"] == "user":
        return {**message, "content": typed(message["content"])}
    if message["role"] == "tool":
        results = {entry["tool_id"]: entry["result"] for entry in trace if entry["type"] == "tool_result"}
        return {**message, "content": results.get(message["tool_call_id"], message["content"])}
    if "tool_calls" not in message:
        return message
    calls = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def entry_told(entry: dict[str, Any]) -> dict[str, Any]:
    if entry["type"] == "files_received":
        return {**entry, "files": [{**file, "path": relative(file["path"])} for file in entry["files"]]}
    return {**entry, "content": typed(entry["content"])} if entry["type"] == "user_input" else entry


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_session_is_told_as_the_original_told_it(name: str) -> None:
    theirs = recorded(name)["session"]
    ours = json.loads(Retelling(theirs).sessions[-1])
    assert ours.pop("session_id") == "s"
    assert ours.pop("mode") == "safe"
    trace = theirs["trace"]
    assert [plain(m, trace) for m in ours.pop("messages")] == [plain(m, trace) for m in theirs.pop("messages")]
    assert ours.pop("trace") == [entry_told(entry) for entry in theirs.pop("trace")]
    theirs["user_prompt"] = typed(theirs["user_prompt"])
    assert ours == theirs


@PATIENT
@given(CHOICES)
def test_when_it_is_asked_makes_no_difference(choices: list[int]) -> None:
    """The same log gives the same bytes, whatever was asked for on the way."""
    talk = Talk()
    rambling = Rambling(talk)
    for choice in choices:
        rambling.go([choice])
        talk.conversation.session(WIRE_ID)
        talk.conversation.chat_items(before_turn=bool(choice % 2))
    anew = Conversation(trace_entries=1000)
    for event, said in talk.log:
        anew.take(event, said)
    assert anew.session(WIRE_ID) == talk.conversation.session(WIRE_ID)
    assert anew.chat_items() == talk.conversation.chat_items()
    assert anew.measure == talk.conversation.measure


@PATIENT
@given(CHOICES)
def test_each_call_is_followed_by_its_results(choices: list[int]) -> None:
    """Whatever happens, it is a conversation as a model could be given it."""
    talk = Talk()
    rambling = Rambling(talk)
    rambling.go(choices)
    rambling.finish()
    due: list[str] = []
    for message in talk.session()["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == due.pop(0)
            assert message["content"]
        else:
            assert due == []
            due = [call["id"] for call in message.get("tool_calls", ())]
    assert due == []
    assert [text for role, text in told(talk.session()["messages"]) if role == "user"] == rambling.typed


@PATIENT
@given(CHOICES)
def test_messages_keep_their_places(choices: list[int]) -> None:
    """All but the newest answer stay as they are; a result may still come in its place."""
    talk = Talk()
    rambling = Rambling(talk)
    before: list[dict[str, Any]] = []
    for choice in choices:
        rambling.go([choice])
        now = talk.session()["messages"]
        newest = max((n for n, message in enumerate(before) if message["role"] == "assistant"), default=0)
        assert len(now) >= len(before)
        for place, (was, become) in enumerate(zip(before, now, strict=False)):
            assert (was["role"], was.get("tool_call_id")) == (become["role"], become.get("tool_call_id"))
            assert was == become or place == newest or (was["role"] == "tool" and not was["content"])
        before = now


def test_user_text_is_what_was_typed() -> None:
    talk = Talk()
    talk.starts("look at this", content="look at this\n\nA reminder of where the files lie.")
    assert told(talk.session()["messages"]) == [("user", "look at this")]
    assert talk.session()["user_prompt"] == "look at this"


def test_a_prompt_that_came_meanwhile_stands_where_the_agent_took_it() -> None:
    talk = Talk()
    talk.starts("first")
    waiting = talk.submits("also")
    talk.steps()
    talk.calls("c")
    talk.ends("c")
    talk.stepped()
    assert "also" not in str(talk.session())
    talk.takes(waiting)
    talk.steps()
    talk.says("both done")
    assert told(talk.session()["messages"]) == [
        ("user", "first"),
        ("assistant", ""),
        ("tool", "found"),
        ("user", "also"),
        ("assistant", "both done"),
    ]
    assert (talk.session()["user_prompt"], talk.session()["turn"]) == ("first", 1)


def test_a_prompt_that_was_taken_back_is_not_shown() -> None:
    talk = Talk()
    prompt = talk.submits("never mind")
    talk.record(PromptWithdrawn(prompt=prompt, reason="taken back"))
    assert talk.session()["messages"] == []


def test_an_answer_has_its_text_and_all_its_calls() -> None:
    talk = Talk()
    talk.starts("go")
    talk.steps()
    talk.says("I look")
    talk.says(" at both.")
    talk.calls("a", given={"q": "ü"})
    talk.calls("b", "read")
    assert talk.session()["messages"][1] == {
        "role": "assistant",
        "content": "I look at both.",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "search", "arguments": '{"q":"ü"}'}},
            {"id": "b", "type": "function", "function": {"name": "read", "arguments": "{}"}},
        ],
    }


def test_results_stand_in_the_order_of_their_calls() -> None:
    """One that is still awaited is empty while others are behind it, and left out where none is."""
    talk = Talk()
    talk.starts("go")
    talk.steps()
    for call in "abc":
        talk.calls(call)
    assert len(talk.session()["messages"]) == 2
    talk.ends("b", "second")
    assert told(talk.session()["messages"])[2:] == [("tool", ""), ("tool", "second")]
    talk.ends("c", "third")
    talk.ends("a", "first")
    assert told(talk.session()["messages"])[2:] == [("tool", "first"), ("tool", "second"), ("tool", "third")]


def test_text_behind_a_call_is_a_message_behind_its_result() -> None:
    """A provider that runs its own tools goes on talking in the same answer."""
    talk = Talk()
    talk.starts("go")
    talk.steps()
    talk.says("I look.")
    talk.calls("a")
    talk.ends("a")
    talk.says("There it is.")
    assert told(talk.session()["messages"]) == [
        ("user", "go"),
        ("assistant", "I look."),
        ("tool", "found"),
        ("assistant", "There it is."),
    ]


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        pytest.param(None, "{}", id="nothing"),
        pytest.param({"a": [1, None]}, '{"a":[1,null]}', id="an-object"),
        pytest.param('{"a": ', '{"a": ', id="what-the-model-wrote-and-is-no-json"),
    ],
)
def test_arguments_are_json_text(given: object, arguments: str) -> None:
    talk = Talk()
    talk.starts("go")
    talk.steps()
    talk.calls("a", given=given)
    assert talk.session()["messages"][1]["tool_calls"][0]["function"]["arguments"] == arguments


def test_a_result_that_nothing_tells_of_has_its_output_or_its_problem() -> None:
    talk = Talk()
    talk.starts("go")
    talk.steps()
    for call in "ab":
        talk.record(ToolCalled(call=call, tool="x"), said=())
    talk.record(ToolEnded(call="a", tool="x", status="ok", output={"n": 1}), said=())
    talk.record(ToolEnded(call="b", tool="x", status="error", problem=Problem("gone", "no more")), said=())
    assert told(talk.session()["messages"])[2:] == [("tool", '{"n":1}'), ("tool", "no more")]
    assert talk.ids() == ["msg-0"]


def test_what_a_sub_agent_says_and_calls_is_not_part_of_it() -> None:
    talk = Talk()
    talk.starts("go")
    talk.steps()
    talk.calls("a", "task")
    talk.calls("b", "read", parent="a")
    talk.ends("b", "inner", "read")
    talk.record(MessageAdded(message="m", role="assistant", text="inner", origin=Origin(source="log", subagent="x")))
    talk.ends("a", "outer", "task")
    assert told(talk.session()["messages"])[1:] == [("assistant", ""), ("tool", "outer")]
    assert talk.ids() == ["msg-0", "a", "b"]


def test_a_program_on_a_terminal_that_says_no_steps() -> None:
    talk = Talk()
    talk.says("typed at the terminal", "user")
    talk.says("I look")
    talk.calls("a")
    talk.calls("b")
    talk.ends("a", "1")
    talk.ends("b", "2")
    talk.calls("c")
    talk.ends("c", "3")
    talk.says("one")
    talk.says("two")
    talk.says("a line of the program's own", "system")
    messages = talk.session()["messages"]
    assert told(messages) == [
        ("user", "typed at the terminal"),
        ("assistant", "I look"),
        ("tool", "1"),
        ("tool", "2"),
        ("assistant", ""),
        ("tool", "3"),
        ("assistant", "one"),
        ("assistant", "two"),
    ]
    assert [call["id"] for call in messages[1]["tool_calls"]] == ["a", "b"]
    session = talk.session()
    assert (session["turn"], session["iteration"], session["user_prompt"]) == (0, 0, None)


@pytest.mark.parametrize(
    ("outcome", "result"),
    [("completed", "said"), ("cancelled", WHAT_NEXT), ("failed", None), ("interrupted", None)],
)
def test_however_a_turn_ends_the_next_one_goes_on_from_it(outcome: Any, result: str | None) -> None:
    talk = Talk()
    talk.starts("first")
    talk.steps()
    talk.says("half an answ")
    talk.over(outcome, "said" if outcome == "completed" else None)
    assert (talk.session()["result"], talk.conversation.result) == (result, result)
    talk.starts("second")
    assert talk.session()["result"] is None
    talk.steps()
    talk.says("whole")
    talk.stepped()
    talk.over(result="whole")
    assert [text for _, text in told(talk.session()["messages"])] == ["first", "half an answ", "second", "whole"]
    assert (talk.session()["turn"], talk.session()["result"]) == (2, "whole")


def test_iterations_are_counted_in_each_turn_anew() -> None:
    talk = Talk()
    talk.starts("first")
    for _ in range(3):
        talk.steps()
        talk.stepped()
    assert talk.session()["iteration"] == 3
    talk.over()
    assert talk.conversation.measure[:2] == (1, 3)
    talk.starts("second")
    assert talk.conversation.measure[:2] == (2, 0)


def test_a_shortened_context_leaves_what_is_seen() -> None:
    talk = Talk()
    talk.short_turn("ask", "answer")
    before = talk.session()
    for phase in ("started", "done"):
        talk.record(Compacted(compaction="c", phase=phase, summary="in short", messages_after=1))
    assert talk.session() == before


def test_a_conversation_that_is_begun_anew_shows_nothing_from_before() -> None:
    talk = Talk()
    talk.short_turn("ask", "answer")
    talk.record(HistoryReset())
    since = EPOCH / 1000 + len(talk.log)
    session = talk.session()
    assert (session["messages"], session["trace"], session["user_prompt"], session["result"]) == ([], [], None, None)
    assert talk.items() == []
    assert (talk.conversation.since, talk.conversation.measure) == (since, Measure(0, 0, since))
    talk.short_turn("again", "yes")
    assert told(talk.session()["messages"]) == [("user", "again"), ("assistant", "yes")]
    assert (talk.conversation.turn, talk.ids()) == (1, ["msg-0", "msg-1"])


def merged(*messages: HistoryMessage, replace: bool = False, **detail: float) -> HistoryMerged:
    return HistoryMerged(messages=messages, replace=replace, by="o", via="onion", detail=detail)


USER, ASSISTANT = HistoryMessage(role="user", content="old"), HistoryMessage(role="assistant", content="older")


def test_a_history_that_was_taken_in_is_added_to_the_end() -> None:
    talk = Talk()
    talk.short_turn("ask", "answer")
    talk.record(merged(USER, ASSISTANT))
    assert [text for _, text in told(talk.session()["messages"])] == ["ask", "answer", "old", "older"]
    assert talk.ids() == ["msg-0", "msg-1", "msg-2", "msg-3"]
    assert talk.conversation.turn == 2


def test_a_history_may_take_the_place_of_what_was_known() -> None:
    talk = Talk()
    talk.short_turn("ask", "answer")
    talk.record(merged(USER, ASSISTANT, replace=True))
    assert [text for _, text in told(talk.session()["messages"])] == ["old", "older"]
    assert [item["content"] for item in talk.items()] == ["old", "older"]
    assert talk.conversation.turn == 1


def test_a_history_of_another_protocol_keeps_its_calls_and_loses_its_system_rows() -> None:
    talk = Talk()
    talk.record(
        merged(
            HistoryMessage(role="system", content="be good"),
            HistoryMessage(role="user", content=[{"type": "text", "text": "see"}, {"type": "image_url"}, "this", 5]),
            HistoryMessage(role="assistant", content="", calls=(HistoryCall(call="c", tool="t", input={"a": 1}),)),
            HistoryMessage(role="tool", content={"n": 1}, call="c"),
            HistoryMessage(role="tool", content="whose?", call="nobody's"),
        )
    )
    assert told(talk.session()["messages"]) == [("user", "see\n\nthis"), ("assistant", ""), ("tool", '{"n":1}')]
    assert talk.session()["messages"][1]["tool_calls"][0]["function"] == {"name": "t", "arguments": '{"a":1}'}


def test_a_history_is_as_far_as_it_says() -> None:
    talk = Talk()
    talk.record(merged(USER, ASSISTANT, turn=7, iteration=2, updated=5.5))
    assert talk.conversation.measure == (7, 2, 5.5)
    talk.starts("next")
    assert talk.session()["turn"] == 8


@pytest.mark.parametrize("detail", [{}, {"turn": 7}, {"turn": 1}], ids=["prompts", "further", "less-far"])
@pytest.mark.parametrize("replace", [False, True], ids=["added", "in-its-place"])
def test_prompts_are_numbered_by_the_turns_that_the_session_shows(detail: dict[str, float], replace: bool) -> None:
    talk = Talk()
    for _ in range(2):
        talk.short_turn("ask", "answer")
    talk.record(merged(USER, ASSISTANT, USER, replace=replace, **detail))
    talk.starts("next")
    assert talk.session()["trace"][-1]["turn"] == talk.session()["turn"] == talk.conversation.turn


def test_nothing_makes_a_conversation_less_far() -> None:
    talk = Talk()
    for _ in range(3):
        talk.short_turn("ask", "answer")
    talk.record(merged(USER, turn=1, iteration=0, updated=1.0))
    talk.record(merged(USER, replace=True, turn=2, iteration=0, updated=1.0))
    assert talk.conversation.measure == (3, 1, EPOCH / 1000 + len(talk.log))


def test_only_the_newest_of_the_trace_stays() -> None:
    talk = Talk(trace_entries=3)
    talk.short_turn("ask", "answer")
    assert [entry["type"] for entry in talk.session()["trace"]] == ["user_input", "llm_call", "llm_result"]
    talk.starts("next")
    assert [entry["type"] for entry in talk.session()["trace"]] == ["llm_call", "llm_result", "user_input"]


@pytest.mark.parametrize(
    ("mode", "word"),
    [("ask", "safe"), ("plan", "plan"), ("accept_edits", "accept_edits"), ("all", "ulw"), ("?", "safe"), (5, "safe")],
)
def test_the_mode_in_this_protocols_words(mode: object, word: str) -> None:
    talk = Talk()
    talk.short_turn("ask", "answer")
    measure = talk.conversation.measure
    talk.record(SettingsChanged(changes={"mode": mode}))
    assert talk.session()["mode"] == word
    assert (talk.conversation.measure > measure) == (word != "safe")
    talk.record(SettingsChanged(changes={"mode": None}))
    assert talk.session()["mode"] == "safe"


def test_what_it_does_not_show_makes_it_no_newer() -> None:
    talk = Talk()
    talk.short_turn("ask", "answer")
    before = talk.conversation.session(WIRE_ID)
    talk.record(CheckpointTaken(checkpoint="c", trigger="auto"))
    talk.record(PartDelta(turn="t", part="p", kind="text", text="x"))
    talk.record(SettingsChanged(changes={"title": "t"}))
    talk.submits("later")
    talk.record(SessionClosed(reason="over"))
    assert talk.conversation.session(WIRE_ID) == before


def test_nothing_is_known_of_a_session_in_which_nothing_was_said() -> None:
    talk = Talk()
    talk.record(SettingsChanged(changes={"mode": "all"}))
    assert talk.conversation.measure == Measure(0, 0, 0.0)
    assert list(talk.conversation.texts()) == []
    assert talk.conversation.session(b'"\\u00fc"').startswith(b'{"session_id":"\\u00fc","messages":[],"trace":[],')


@PATIENT
@given(CHOICES)
def test_before_the_open_turn_it_is_as_it_was_then(choices: list[int]) -> None:
    talk = Talk()
    rambling = Rambling(talk)
    rambling.go(choices)
    rambling.finish()
    then = (talk.conversation.session(WIRE_ID), talk.conversation.chat_items())
    measure, texts = talk.conversation.measure, list(talk.conversation.texts())
    talk.starts("next")
    talk.steps()
    talk.says("half")
    talk.calls("x")
    talk.conversation.session(WIRE_ID)
    before = talk.conversation.before_turn
    assert (
        talk.conversation.session(WIRE_ID, before_turn=True),
        talk.conversation.chat_items(before_turn=True),
    ) == then
    assert (before.measure, list(before.texts())) == (measure, texts)
    talk.ends("x")
    talk.stepped()
    talk.over()
    assert talk.conversation.session(WIRE_ID, before_turn=True) == talk.conversation.session(WIRE_ID)
    assert talk.conversation.before_turn.measure == talk.conversation.measure


def test_before_the_open_turn_also_when_the_trace_has_moved_on() -> None:
    talk = Talk(trace_entries=4)
    talk.short_turn("ask", "answer")
    talk.starts("next")
    talk.steps()
    talk.calls("x")
    assert [entry["type"] for entry in talk.session(before_turn=True)["trace"]] == ["llm_result"]
    talk.ends("x")
    talk.says("more", "reasoning")
    assert talk.session(before_turn=True)["trace"] == []


def test_results_are_kept_once() -> None:
    """The result of a tool stands in the trace, in a message and in a chat item, and is in memory once."""
    result = "x" * 100_000
    said = [
        wire.encode(
            wire.ToolResult(
                id=f"ev-{n}", ts=1.0, tool_id=f"c{n}", name="t", args={}, status="success", result=result, timing_ms=1
            )
        )
        for n in range(100)
    ]
    talk = Talk()
    talk.starts("go")
    talk.steps()
    with Traced() as traced:
        for n, encoded in enumerate(said):
            talk.record(ToolCalled(call=f"c{n}", tool="t", input={}))
            talk.record(ToolEnded(call=f"c{n}", tool="t", status="ok", output=result), said=[encoded])
    assert traced.kept < len(result) * len(said) / 10
    assert talk.conversation.session(WIRE_ID).count(result.encode()) == 200


def test_prompts_are_kept_once() -> None:
    """That of the newest turn stands in the session object by itself, too."""
    text = "x" * 100_000
    said = [wire.encode(wire.UserInput(id=f"p{n}", ts=1.0, content=text, turn=n)) for n in range(100)]
    talk = Talk()
    with Traced() as traced:
        for n, encoded in enumerate(said):
            talk.record(PromptSubmitted(prompt=f"p{n}", text=text, by="o", via="onion"))
            talk.record(TurnStarted(turn=f"t{n}", prompt=f"p{n}"), said=[encoded])
    assert traced.kept < len(text) * len(said) / 10


class Traced:
    """How many bytes were taken in a while, and not given back."""

    kept = 0

    def __enter__(self) -> Traced:
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kept, _peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

"""The TypeScript client's rules, written anew: what it drops, what fails a turn, and what it sends by itself."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from .good import Script, whole
from .sequence import Frame, Line, faults
from .ts_client import NO_CONVERSATION, NO_IDENTITY, OVER, SEEN, STRANGER, TsClient


def note(arguments: Frame) -> str:
    return f"saved {arguments['text']}"


def silent(arguments: Frame) -> None:
    return None


def broken(arguments: Frame) -> str:
    raise RuntimeError("no disk")


def asked(*turns: str, **tools: Any) -> TsClient:
    client = TsClient(tools={"save_note": note, **tools})
    for turn in turns:
        client.ask("hello", "c1", turn)
    return client


def fed(client: TsClient, lines: list[Line]) -> TsClient:
    for line in lines:
        if not line.ours:
            client.hear(line.frame)
    return client


def simple(*chunks: str) -> list[Line]:
    script = Script()
    script.begin("t1")
    script.speak("t1", *chunks)
    script.finish("t1", "".join(chunks))
    return copy.deepcopy(script.lines)


def the(lines: list[Line], kind: str) -> Frame:
    return next(line.frame for line in lines if line.frame["type"] == kind)


def test_a_good_turn_completes() -> None:
    client = fed(asked("t1"), simple("Hello ", "world"))
    turn = client.turns["t1"]
    assert (turn.outcome, turn.answer, turn.thoughts) == ("completed", "Hello world", "Hm.")
    assert client.dropped == []


def test_everything_once_gives_each_turn_its_end() -> None:
    client = asked("t1", "t2")
    client.ask("hello", "c2", "t3")
    client.stop("c2", "stop1")
    fed(client, whole())
    assert {ref: turn.outcome for ref, turn in client.turns.items()} == {
        "t1": "completed",
        "t2": "failed",
        "t3": "stopped",
    }
    assert client.turns["t2"].problem == "boom"
    assert [frame["type"] for frame in client.sent] == ["tool-result", "tool-bundle-result"]


def test_an_event_without_conversation_is_dropped_and_the_next_one_is_a_gap() -> None:
    lines = simple("Hello")
    del the(lines, "llm-thought")["conversation_ref"]
    client = fed(asked("t1"), lines)
    assert client.dropped[0][1] == NO_CONVERSATION
    assert client.turns["t1"].problem == "sequence 6 where 5 was due"


def test_a_turn_whose_every_event_is_dropped() -> None:
    lines = simple("Hello")
    for line in lines:
        line.frame.pop("conversation_ref", None)
    assert fed(asked("t1"), lines).turns["t1"].outcome == "dropped"


@pytest.mark.parametrize("key", ["event_id", "sequence"])
def test_an_event_without_identity_fails_the_turn(key: str) -> None:
    lines = simple("Hello")
    del the(lines, "query-accepted")[key]
    turn = fed(asked("t1"), lines).turns["t1"]
    assert (turn.outcome, turn.problem) == ("failed", NO_IDENTITY)


@pytest.mark.parametrize("number", [1, 4, 6, 7])
def test_a_gap_or_a_step_back_fails_the_turn(number: int) -> None:
    lines = simple("Hello")
    the(lines, "llm-thought")["sequence"] = number
    assert fed(asked("t1"), lines).turns["t1"].problem == f"sequence {number} where 5 was due"


def test_a_repeated_event_is_ignored() -> None:
    lines = simple("Hello")
    place = next(place for place, line in enumerate(lines) if line.frame["type"] == "streaming-response")
    lines.insert(place + 1, copy.deepcopy(lines[place]))
    client = fed(asked("t1"), lines)
    assert (client.turns["t1"].outcome, client.turns["t1"].text) == ("completed", "Hello")
    assert [why for _, why in client.dropped] == [SEEN]


def test_a_reused_event_id_swallows_an_event_and_so_fails_the_turn() -> None:
    """Whoever makes the turn's id the event's id loses all but the first of its events."""
    lines = simple("Hello")
    for line in lines:
        if "event_id" in line.frame:
            line.frame["event_id"] = "t1"
    client = fed(asked("t1"), lines)
    assert client.turns["t1"].outcome == "open"
    assert {why for _, why in client.dropped} == {SEEN}


@pytest.mark.parametrize("named", [{"id": "t1"}, {"id": "x", "payload": {"message": "boom", "turn_ref": "t1"}}])
def test_an_error_without_identity_still_ends_its_turn(named: Frame) -> None:
    client = asked("t1")
    client.hear({"type": "error", "payload": {"message": "boom"}, **named})
    assert (client.turns["t1"].outcome, client.turns["t1"].problem) == ("failed", "boom")


def test_an_error_of_something_else_ends_no_turn() -> None:
    client = asked("t1")
    client.hear({"id": "x", "type": "error", "payload": {"message": "boom"}})
    assert client.turns["t1"].outcome == "open"
    assert client.dropped[0][1] == STRANGER


def test_what_comes_after_the_end_is_dropped() -> None:
    lines = simple("Hello")
    more = copy.deepcopy(the(lines, "streaming-response")) | {"event_id": "late", "sequence": 9}
    client = fed(asked("t1"), lines)
    client.hear(more)
    assert client.turns["t1"].text == "Hello"
    assert [why for _, why in client.dropped] == [OVER]


def test_a_stopped_turn_stays_stopped() -> None:
    client = asked("t1")
    lines = simple("Hello ", "world")
    half = [line for line in lines if line.frame.get("sequence", 0) < 7]
    fed(client, half)
    client.stop("c1", "s1")
    ack = {"status": "stopped", "canceled": True, "conversation_ref": "c1", "turn_ref": None}
    client.hear({"id": "s1", "type": "stop-query-ack", "payload": ack})
    fed(client, lines[len(half) :])
    assert (client.turns["t1"].outcome, client.turns["t1"].text) == ("stopped", "Hello ")
    assert {why for _, why in client.dropped} == {OVER}


def test_a_stop_that_hit_nothing_stops_nothing() -> None:
    client = asked("t1")
    client.stop("c1", "s1")
    ack = {"status": "not-running", "canceled": False, "conversation_ref": "c1", "turn_ref": None}
    client.hear({"id": "s1", "type": "stop-query-ack", "payload": ack})
    assert client.turns["t1"].outcome == "open"


def test_replies_take_no_number() -> None:
    lines = simple("Hello")
    place = next(place for place, line in enumerate(lines) if line.frame["type"] == "llm-thought")
    lines.insert(place, Line({"id": "t1", "type": "audio-chunk", "payload": {"audio": "AAA=", "sample_rate": 22050}}))
    assert fed(asked("t1"), lines).turns["t1"].outcome == "completed"


def test_nothing_streamed_shows_the_final_response() -> None:
    script = Script()
    script.begin("t1")
    script.event("t1", "streaming-complete", final_response="No answer.")
    turn = fed(asked("t1"), script.lines).turns["t1"]
    assert (turn.answer, turn.transcript) == ("No answer.", [("text", "No answer.")])


def test_no_final_response_leaves_what_was_streamed() -> None:
    lines = simple("Hello")
    the(lines, "streaming-complete")["payload"] = {}
    assert fed(asked("t1"), lines).turns["t1"].answer == "Hello"


def calling(**payload: Any) -> list[Line]:
    script = Script()
    script.begin("t1")
    call = {"tool_name": "save_note", "parameters": {"text": "x"}, "request_id": "r1", "metadata": {}}
    script.event("t1", "tool-call", **(call | payload))
    return script.lines


def test_a_tool_is_run_and_its_result_names_the_request() -> None:
    client = fed(asked("t1"), calling())
    (result,) = client.sent
    assert (result["type"], result["payload"]) == (
        "tool-result",
        {"request_id": "r1", "success": True, "data": {"output": "saved x"}},
    )


def test_a_tool_that_fails_says_so() -> None:
    client = fed(asked("t1", save_note=broken), calling())
    assert client.sent[0]["payload"] == {
        "request_id": "r1",
        "success": False,
        "data": {"output": "no disk"},
        "error": "no disk",
    }


def test_the_servers_own_tool_is_not_run() -> None:
    client = fed(asked("t1"), calling(metadata={"skip_local_execution": True}))
    assert (client.sent, client.turns["t1"].calls) == ([], [])


@pytest.mark.parametrize("request_id", [None, ""])
def test_a_tool_call_without_request_is_not_run(request_id: str | None) -> None:
    client = fed(asked("t1"), calling(request_id=request_id))
    assert (client.sent, client.turns["t1"].outcome) == ([], "failed")


def test_an_output_is_shown_twice_unless_it_names_the_request() -> None:
    for named, shown in (({}, 2), ({"request_id": "r1"}, 1)):
        script = Script()
        script.begin("t1")
        script.call("t1", "r1")
        script.event("t1", "tool-output", tool_name="save_note", success=True, output="saved x", **named)
        client = fed(asked("t1"), script.lines)
        assert client.turns["t1"].transcript == [("tool", "saved x")] * shown


@pytest.mark.parametrize(
    ("tools", "status", "steps"),
    [
        (("save_note", "save_note"), "success", ["ok", "ok"]),
        (("save_note", "broken"), "partial_failure", ["ok", "error"]),
        (("broken", "nobody"), "failure", ["error", "error"]),
    ],
)
def test_a_bundle_has_one_result(tools: tuple[str, ...], status: str, steps: list[str]) -> None:
    script = Script()
    script.begin("t1")
    script.event("t1", "tool-bundle", bundle_id="b1", tools=[{"name": each, "args": {"text": "x"}} for each in tools])
    (result,) = fed(asked("t1", broken=broken), script.lines).sent
    assert (result["type"], result["payload"]["bundle_id"], result["payload"]["status"]) == (
        "tool-bundle-result",
        "b1",
        status,
    )
    assert [step["status"] for step in result["payload"]["step_results"]] == steps


def test_a_step_without_output_has_a_sentence() -> None:
    script = Script()
    script.begin("t1")
    script.event("t1", "tool-bundle", bundle_id="b1", tools=[{"name": "silent", "args": {}}])
    (result,) = fed(asked("t1", silent=silent), script.lines).sent
    assert result["payload"]["step_results"][0]["output"] == {
        "output": "Tool silent executed successfully (no output)."
    }


def test_the_two_judges_agree_on_what_is_good() -> None:
    lines = simple("Hello")
    assert faults(lines) == []
    assert fed(asked("t1"), lines).turns["t1"].outcome == "completed"

"""The judge of resumes is judged: every transcript that was doctored must be found out."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from .resume_checker import Frame, Return, Wrong, judge

SESSION: Frame = {"session_id": "s", "messages": [{"role": "user", "content": "go"}], "turn": 1}
OUTPUT: Frame = {
    "type": "OUTPUT",
    "result": "ab",
    "session_id": "s",
    "duration_ms": 3,
    "session": SESSION,
    "chat_items": [{"id": "msg-0", "type": "user", "content": "go"}],
}


def event(number: int, kind: str, **fields: object) -> Frame:
    return {"type": kind, "id": f"ev-{number}", "ts": number / 10, **fields, "session_id": "s"}


WITNESS: list[Frame] = [
    event(1, "user_input", content="go", turn=1),
    event(2, "llm_call", model="m", iteration=1, status="running"),
    event(3, "assistant_delta", content="a"),
    event(4, "assistant_delta", content="b"),
    event(2, "llm_result", model="m", iteration=1, status="success"),
    event(6, "tool_call", tool_id="t", name="read", args={}),
    {"type": "PING"},
    event(7, "tool_result", tool_id="t", name="read", args={}, status="success", result="x"),
    OUTPUT,
]


def connected(status: str, **more: object) -> Frame:
    return {"type": "CONNECTED", "session_id": "s", "status": status, **more}


def continued(had: int) -> Return:
    """A right one, that had heard so many frames."""
    before = [frame for frame in WITNESS[:had] if frame["type"] != "PING"]
    return Return(before[-1]["id"], [connected("running"), *WITNESS[had:]], before)


def again() -> Return:
    return Return(None, [connected("running"), {"type": "PING"}, *WITNESS], WITNESS[:3])


def ended() -> Return:
    more = {"server_newer": True, "session": SESSION, "chat_items": OUTPUT["chat_items"]}
    return Return("ev-3", [connected("connected", **more), {"type": "PING"}], WITNESS[:3])


@pytest.mark.parametrize("had", range(1, len(WITNESS)))
def test_a_turn_that_goes_on_is_right_wherever_it_was_cut(had: int) -> None:
    assert judge(continued(had), WITNESS) == "continued"


def test_the_whole_turn_again_is_right_and_so_is_one_that_ended() -> None:
    assert judge(again(), WITNESS) == "again"
    assert judge(ended(), WITNESS) == "ended"


def test_deltas_in_other_pieces_are_right() -> None:
    returned = again()
    returned.after = [*returned.after[:4], event(4, "assistant_delta", content="ab"), *returned.after[6:]]
    assert judge(returned, WITNESS) == "again"
    returned = continued(2)
    returned.after = [returned.after[0], event(4, "assistant_delta", content="ab"), *WITNESS[4:]]
    assert judge(returned, WITNESS) == "continued"


def test_only_what_is_between_two_events_with_one_id_may_come_again() -> None:
    returned = continued(5)
    assert (returned.last, returned.before[-1]["type"]) == ("ev-2", "llm_result")
    right = [returned.after[0], *WITNESS[2:]]
    returned.after = right
    assert judge(returned, WITNESS) == "continued"
    for wrong in (
        [right[0], *WITNESS[2:5], *right[1:]],
        [right[0], WITNESS[4], *WITNESS[5:]],
        [right[0], *WITNESS[3:]],
        [right[0], *WITNESS[1:]],
    ):
        returned.after = wrong
        with pytest.raises(Wrong):
            judge(returned, WITNESS)
    returned = continued(6)
    returned.after = [returned.after[0], WITNESS[5], *returned.after[1:]]
    with pytest.raises(Wrong, match="told twice"):
        judge(returned, WITNESS)


def lost(returned: Return) -> None:
    del list(returned.after)[3]
    returned.after = [*returned.after[:3], *returned.after[4:]]


def doubled(returned: Return) -> None:
    returned.after = [*returned.after[:3], returned.after[2], *returned.after[3:]]


def swapped(returned: Return) -> None:
    one, other = returned.after[-3], returned.after[-2]
    returned.after = [*returned.after[:-3], other, one, returned.after[-1]]


def renamed(returned: Return) -> None:
    returned.after = [*returned.after[:-2], {**returned.after[-2], "id": "ev-99"}, returned.after[-1]]


def later(returned: Return) -> None:
    returned.after = [*returned.after[:-2], {**returned.after[-2], "ts": 99.5}, returned.after[-1]]


def other_text(returned: Return) -> None:
    returned.after = [
        {**frame, "content": "?"} if frame["type"] == "assistant_delta" else frame for frame in returned.after
    ]


def no_output(returned: Return) -> None:
    returned.after = returned.after[:-1]


def two_outputs(returned: Return) -> None:
    returned.after = [*returned.after, OUTPUT]


def early_output(returned: Return) -> None:
    returned.after = [*returned.after[:-2], OUTPUT, returned.after[-2]]


def another_output(returned: Return) -> None:
    returned.after = [*returned.after[:-1], {**OUTPUT, "result": "other"}]


def said_new(returned: Return) -> None:
    returned.after = [{**returned.after[0], "status": "new"}, *returned.after[1:]]


def another_session(returned: Return) -> None:
    returned.after = [{**returned.after[0], "session_id": "other"}, *returned.after[1:]]


def two_connected(returned: Return) -> None:
    returned.after = [returned.after[0], *returned.after]


def event_first(returned: Return) -> None:
    returned.after = [returned.after[1], returned.after[0], *returned.after[2:]]


def nameless(returned: Return) -> None:
    returned.after = [
        {key: value for key, value in frame.items() if key != "session_id"} if frame["type"] == "tool_call" else frame
        for frame in returned.after
    ]


RUNNING = [
    lost,
    doubled,
    swapped,
    renamed,
    later,
    other_text,
    no_output,
    two_outputs,
    early_output,
    another_output,
    said_new,
    another_session,
    two_connected,
    event_first,
    nameless,
]


@pytest.mark.parametrize("doctor", RUNNING, ids=lambda doctor: doctor.__name__)
@pytest.mark.parametrize("make", [lambda: continued(2), again], ids=["continued", "again"])
def test_a_doctored_transcript_is_found_out(make: Callable[[], Return], doctor: Callable[[Return], None]) -> None:
    returned = copy.deepcopy(make())
    returned.after = [frame for frame in returned.after if frame["type"] != "PING"]
    doctor(returned)
    with pytest.raises(Wrong):
        judge(returned, WITNESS)


def stale_session(returned: Return) -> None:
    returned.after = [{**returned.after[0], "session": {**SESSION, "turn": 0}}]


def no_items(returned: Return) -> None:
    returned.after = [{**returned.after[0], "chat_items": []}]


def not_newer(returned: Return) -> None:
    returned.after = [connected("connected")]


def told_again(returned: Return) -> None:
    returned.after = [returned.after[0], WITNESS[-2]]


def output_again(returned: Return) -> None:
    returned.after = [returned.after[0], OUTPUT]


@pytest.mark.parametrize(
    "doctor",
    [stale_session, no_items, not_newer, told_again, output_again, said_new, another_session, two_connected],
    ids=lambda doctor: doctor.__name__,
)
def test_a_doctored_end_is_found_out(doctor: Callable[[Return], None]) -> None:
    returned = copy.deepcopy(ended())
    doctor(returned)
    with pytest.raises(Wrong):
        judge(returned, WITNESS)

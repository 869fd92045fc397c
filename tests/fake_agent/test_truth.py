"""The truth checker finds what it is there to find."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fake_agent.truth import Announced, announcements, judge, timeline

Json = dict[str, Any]

TURN: list[Json] = [
    {"at": 0, "state": "starting"},
    {"at": 1000, "state": "idle"},
    {"at": 3000, "effect": "submitted"},
    {"at": 3000, "state": "working"},
    {"at": 6000, "state": "idle"},
]


def prompt(at: int, serial: int, command: str = "ls", kind: str = "permission") -> Json:
    return {"at": at, "state": "prompt", "kind": kind, "dialog": serial, "input": {"command": command}}


DIALOG: list[Json] = [*TURN[:4], prompt(4000, 1), {"at": 6000, "state": "working"}, {"at": 7000, "state": "idle"}]


def test_the_truth_is_no_lie() -> None:
    verdict = judge(TURN, [(0, "starting"), (1000, "idle"), (3000, "working"), (6000, "idle")], 10_000)
    assert (verdict.total, verdict.wrong, verdict.recovery) == (10_000, 0, 0)


def test_a_change_told_within_the_grace_is_right() -> None:
    verdict = judge(TURN, [(0, "starting"), (1400, "idle"), (3499, "working"), (5600, "idle")], 10_000)
    assert (verdict.wrong, verdict.recovery) == (0, 0)


def test_a_change_told_late_counts_from_the_grace_on_and_recovers_from_the_change_on() -> None:
    verdict = judge(TURN, [(0, "starting"), (1000, "idle"), (4000, "working"), (6000, "idle")], 10_000)
    assert (verdict.wrong, verdict.recovery) == (500, 1000)
    assert [(s.told, s.true) for s in verdict.stretches] == [("idle", "working")]


def test_a_change_never_told_is_wrong_until_the_end() -> None:
    verdict = judge(TURN, [(0, "starting"), (1000, "idle"), (3000, "working")], 10_000)
    assert (verdict.wrong, verdict.recovery) == (3500, 4000)
    assert verdict.fraction == 0.35


def test_a_state_that_was_not_true_on_either_side_is_wrong_also_within_the_grace() -> None:
    told = [(0, "starting"), (1000, "idle"), (3000, "error"), (3100, "working"), (6000, "idle")]
    assert judge(TURN, told, 10_000).wrong == 100


def test_a_blip_in_the_middle_is_wrong() -> None:
    told = [(0, "starting"), (1000, "idle"), (3000, "working"), (4500, "idle"), (4600, "working"), (6000, "idle")]
    verdict = judge(TURN, told, 10_000)
    assert (verdict.wrong, verdict.recovery) == (100, 100)


IN_ORDER = [(0, "starting"), (1000, "idle"), (3010, "working"), (4010, "prompt"), (6010, "working"), (7010, "idle")]


@pytest.mark.parametrize(
    ("told", "false"),
    [
        ([], []),
        ([(3100, "idle"), (3400, "working")], ["3100: working to idle"]),  # idle was true 100 ms ago
        ([(3950, "idle")], ["3950: working to idle"]),
        ([(4100, "idle"), (4110, "prompt")], ["4100: prompt to idle"]),
        ([(6700, "idle"), (6800, "working")], ["6800: idle to working"]),
        ([(6900, "idle")], ["7010: idle to idle"]),
        ([(4020, "prompt")], []),
        ([(7500, "error")], ["7500: idle to error"]),
    ],
)
def test_a_transition_that_the_record_has_not_is_false_however_short(told: list[Any], false: list[str]) -> None:
    assert judge(DIALOG, [*IN_ORDER, *told], 10_000).false == false


def test_work_that_was_never_told() -> None:
    told = [(0, "starting"), (1000, "idle"), (4010, "prompt"), (6010, "working"), (7010, "idle")]
    assert judge(DIALOG, told, 10_000).untold == [3000]
    assert judge(DIALOG, IN_ORDER, 10_000).untold == []
    brief: list[Json] = [*TURN[:4], {"at": 3100, "state": "idle"}]
    assert judge(brief, told[:2], 10_000).untold == []


def test_after_an_error_that_was_told_idle_is_right_and_before_it_is_not() -> None:
    record: list[Json] = [*TURN[:4], {"at": 6000, "state": "error"}]
    start = [(0, "starting"), (1000, "idle"), (3000, "working")]
    assert judge(record, [*start, (6000, "error"), (6100, "idle")], 10_000).wrong == 0
    verdict = judge(record, [*start, (6000, "idle")], 10_000)
    assert verdict.wrong > 3000
    assert verdict.never == ["error"]


def test_dialogs_told_once_twice_and_never() -> None:
    told = [(0, "starting"), (1000, "idle"), (3000, "working"), (4100, "prompt"), (6000, "working"), (7000, "idle")]
    one, late = Announced(4100, "permission", "ls"), Announced(5000, "permission", "ls")
    verdict = judge(DIALOG, told, 10_000, [one])
    assert (verdict.delays, verdict.twice, verdict.missed, verdict.misnamed) == ({1: 100}, [], [], [])
    assert judge(DIALOG, told, 10_000, [one, late]).twice == [1]
    assert judge(DIALOG, told, 10_000).missed == [1]
    assert judge(DIALOG, told, 10_000, [one, Announced(9000, "permission", None)]).invented
    assert judge(DIALOG, told, 10_000, [Announced(4100, "plan", None)]).misnamed == [(1, "plan")]


def test_two_dialogs_close_together_are_told_apart_by_what_they_ask() -> None:
    record = [*TURN[:4], prompt(4000, 1, "a"), {"at": 4300, "state": "working"}, prompt(4400, 2, "b")]
    verdict = judge(record, [(0, "starting")], 9000, [Announced(4450, "permission", "a"), Announced(4500, "x", "b")])
    assert (verdict.missed, verdict.twice, verdict.delays) == ([], [], {1: 450, 2: 100})


def frame(at: int, prev: str, state: str, **prompt: Any) -> tuple[int, Json]:
    return at, {"event": "transition", "prev": prev, "next": state, "prompt": prompt or None}


def test_announcements_of_coop_frames() -> None:
    frames = [
        frame(1, "idle", "working"),
        frame(2, "working", "prompt", type="permission", input=None, questions=[]),
        frame(2, "prompt", "prompt", type="permission", input='{"text":"touch a and more"}', questions=[]),
        frame(3, "prompt", "prompt", type="permission", input='{"command":"touch a"}'),
        frame(4, "prompt", "prompt", type="permission", input='{"command":"touch a","description":"x"}'),
        frame(5, "prompt", "prompt", type="permission", input='{"command":"touch b"}'),
        frame(6, "prompt", "working"),
        (7, {"event": "exit", "code": 0, "signal": None}),
    ]
    assert announcements(frames) == [Announced(2, "permission", "touch a"), Announced(5, "permission", "touch b")]
    assert [state for _, state in timeline(frames)] == [
        "working",
        *["prompt"] * 5,
        "working",
        "exited",
    ]


@pytest.mark.parametrize(("number", "told"), [(5, ["error"]), (6, ["error", "error"])])
def test_an_error_that_keeps_its_number_is_told_once(number: int, told: list[str]) -> None:
    frames = [(at, {"event": "transition", "next": "error", "seq": seq}) for at, seq in ((1, 5), (2, number))]
    assert [state for _, state in timeline(frames)] == told

"""The comparer itself: what is the same passes, and nothing that is not."""

from __future__ import annotations

import copy
import itertools
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.dialects.leaves import ANYTHING, UNEXPECTED

from .canonical import canonical
from .compare import problems
from .differences import expected
from .recording import NAMES, Answer, Frame, Say, Step, load

SAMPLES = 12
"""Places at which one recording is damaged."""

Place = tuple[int, str, int]
"""Step, socket, frame."""


def test_every_recording_is_here() -> None:
    assert [len(load(name)) for name in NAMES] == [141, 8, 147, 17, 14]


def test_every_entry_of_a_recording_is_of_a_step() -> None:
    frames = [frame for name in NAMES for step in load(name) for said in step.heard.values() for frame in said]
    answers = [step.answer for name in NAMES for step in load(name) if step.answer is not None]
    assert (len(frames), len(answers)) == (325, 237)


@pytest.mark.parametrize("name", NAMES)
def test_another_run_of_the_same_conversation_is_the_same(name: str) -> None:
    recorded = load(name)
    assert problems(canonical(recorded), canonical(_run_again(recorded))) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_canonical_form_is_its_own(name: str) -> None:
    wanted = expected(name)
    assert problems(wanted, canonical(wanted)) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_lost_frame_is_seen(name: str) -> None:
    for place in _places(name):
        damaged = _damaged(expected(name), place, lambda frames, at: [*frames[:at], *frames[at + 1 :]])
        assert problems(expected(name), damaged), place


@pytest.mark.parametrize("name", NAMES)
def test_a_repeated_frame_is_seen(name: str) -> None:
    for place in _places(name):
        damaged = _damaged(expected(name), place, lambda frames, at: [*frames[: at + 1], *frames[at:]])
        assert problems(expected(name), damaged), place


@pytest.mark.parametrize("name", NAMES)
def test_two_frames_in_the_wrong_order_are_seen(name: str) -> None:
    wanted = expected(name)
    pairs = 0
    for number, step in enumerate(wanted):
        for who, frames in step.heard.items():
            for at, (one, other) in enumerate(itertools.pairwise(frames)):
                if one == other:
                    continue
                pairs += 1
                if pairs % 5 == 0 or pairs < SAMPLES:
                    swapped = [*frames[:at], other, one, *frames[at + 2 :]]
                    damaged = [
                        *wanted[:number],
                        replace(step, heard={**step.heard, who: swapped}),
                        *wanted[number + 1 :],
                    ]
                    assert problems(wanted, damaged), (number, who, at)
    assert pairs


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_field_is_seen(name: str) -> None:
    for number, who, at in _places(name):
        step = expected(name)[number]
        for changed, path in _changes(step.heard[who][at]):
            damaged = _damaged(
                expected(name), (number, who, at), lambda frames, at, c=changed: [*frames[:at], c, *frames[at + 1 :]]
            )
            assert problems(expected(name), damaged), path


@pytest.mark.parametrize("name", NAMES)
def test_a_frame_on_another_socket_or_in_another_step_is_seen(name: str) -> None:
    wanted = expected(name)
    for number, who, at in _places(name):
        frame = wanted[number].heard[who][at]
        lost = _damaged(wanted, (number, who, at), lambda frames, at: [*frames[:at], *frames[at + 1 :]])
        later = (number + 1) % len(wanted)
        moved = replace(lost[later], heard={**lost[later].heard, who: [frame, *lost[later].heard.get(who, [])]})
        assert problems(wanted, [*lost[:later], moved, *lost[later + 1 :]])
        heard = {**lost[number].heard, "nobody": [frame]}
        assert problems(wanted, [*lost[:number], replace(lost[number], heard=heard), *lost[number + 1 :]])


@pytest.mark.parametrize("name", ["cab", "cin", "cin2"])
def test_another_answer_is_seen(name: str) -> None:
    for step in expected(name):
        for other in _answers(step.answer) if step.answer is not None else ():
            assert problems([step], [replace(step, answer=other)]), other


def test_another_end_of_a_socket_is_seen() -> None:
    wanted = expected("cin")
    for number, step in enumerate(wanted):
        if step.closed is not None:
            assert problems(wanted, [*wanted[:number], replace(step, closed=1000), *wanted[number + 1 :]])


def test_an_id_that_does_not_stay_is_seen() -> None:
    recorded = load("cin")
    history = next(
        frame for step in recorded for frame in step.heard.get("A", []) if frame["type"] == "history" and frame["data"]
    )
    before = canonical(recorded)
    history["data"][0]["id"] = str(uuid.uuid4())
    assert problems(before, canonical(recorded))


def test_changes_of_a_session_between_two_events_are_one() -> None:
    """And only those: one before an event and one behind it are two."""
    card = {"id": str(uuid.uuid4()), "name": "n", "type": "external", "agent": "claude", "cwd": "/", "createdAt": 1}
    event = {"id": str(uuid.uuid4()), "type": "stop", "timestamp": 1_795_817_000_000, "sessionId": card["id"]}
    made = _said("session:created", {**card, "status": "working"})
    told = _said("session:status", {**card, "status": "idle"})
    happened = _said("event", event)
    assert [frame["type"] for frame in _heard([made, told])] == ["session:created"]
    assert _heard([made, told])[0]["data"]["status"] == "idle"
    assert [frame["type"] for frame in _heard([made, happened, told])] == ["session:created", "event", "session:status"]


def test_a_mistake_of_the_server_is_no_text() -> None:
    step = Step(Say("A", "x"), heard={"A": [{"type": "error", "payload": {"message": f"no{ANYTHING}"}}]})
    said = [
        replace(step, heard={"A": [{"type": "error", "payload": {"message": text}}]})
        for text in ("no, not so", f"no, it {UNEXPECTED}")
    ]
    assert [bool(problems([step], [one])) for one in said] == [False, True]


def _said(kind: str, content: Frame) -> Frame:
    return {"type": kind, "data": content, "payload": content}


def _heard(frames: list[Frame]) -> list[Frame]:
    return canonical([Step(Say("A", "x"), heard={"A": frames})])[0].heard["A"]


def _places(name: str) -> list[Place]:
    """Some of the frames, from the first to the last, the same ones every time."""
    there = [
        (number, who, at)
        for number, step in enumerate(expected(name))
        for who, frames in step.heard.items()
        for at in range(len(frames))
    ]
    return [there[round(at * (len(there) - 1) / (SAMPLES - 1))] for at in range(SAMPLES)]


def _damaged(steps: Sequence[Step], place: Place, damage: Any) -> list[Step]:
    number, who, at = place
    step = steps[number]
    heard = {**step.heard, who: damage(step.heard[who], at)}
    return [*steps[:number], replace(step, heard=heard), *steps[number + 1 :]]


def _changes(frame: Frame) -> Iterator[tuple[Frame, str]]:
    """The frame with one of the fields of its content changed, or gone."""
    for side in ("data", "payload"):
        content = frame.get(side)
        if isinstance(content, dict):
            for key, value in content.items():
                if value != ANYTHING:
                    yield {**copy.deepcopy(frame), side: {**content, key: _another(value)}}, f"{side}.{key}"
                yield (
                    {**copy.deepcopy(frame), side: {k: v for k, v in content.items() if k != key}},
                    f"{side}.{key} gone",
                )
        elif isinstance(content, list):
            yield {**copy.deepcopy(frame), side: [*content, "another"]}, side
        if content is not None:
            yield {key: value for key, value in frame.items() if key != side}, f"{side} gone"


def _answers(given: Answer) -> Iterator[Answer]:
    yield replace(given, status=given.status + 1)
    yield replace(given, acao="*")
    yield replace(given, ctype="text/other")
    if isinstance(given.body, dict):
        for key, value in given.body.items():
            if value != ANYTHING:
                yield replace(given, body={**given.body, key: _another(value)})
            yield replace(given, body={k: v for k, v in given.body.items() if k != key})


def _another(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return "another"
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"other {value}"
    if isinstance(value, list):
        return [*value, "another"]
    return {**value, "another": 1}


_UUID = re.compile(r"(?!0{8})[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r'"(createdAt|lastActivity|timestamp)": (\d{13})')


def _run_again(steps: list[Step]) -> list[Step]:
    """The same conversation a minute later, with other ids but for those that a client made up."""
    given = json.dumps([str(step.action) for step in steps if not isinstance(step.action, Say)])
    kept = {found[0] for found in _UUID.finditer(given)} - {
        session["id"] for step in steps for session in _sessions(step)
    }

    def again(value: Any) -> Any:
        text = json.dumps(value)
        text = _UUID.sub(
            lambda found: found[0] if found[0] in kept else str(uuid.uuid5(uuid.NAMESPACE_URL, found[0])), text
        )
        return json.loads(
            _TIME.sub(lambda found: found[0] if found[2] in given else f'"{found[1]}": {int(found[2]) + 60000}', text)
        )

    made: list[Step] = []
    for step in steps:
        answer = step.answer and replace(step.answer, body=again(step.answer.body))
        action = step.action
        if hasattr(action, "path"):
            action = replace(action, path=again(action.path))
        elif isinstance(action, Say) and isinstance(action.message, dict):
            action = replace(action, message=again(action.message))
        made.append(replace(step, action=action, answer=answer, heard=again(step.heard)))
    return made


def _sessions(step: Step) -> Iterator[Frame]:
    from .canonical import sessions_in

    yield from sessions_in([step.heard, step.answer.body if step.answer else None])

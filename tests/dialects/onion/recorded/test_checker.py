"""The checker itself: what is the same passes, and nothing that is not."""

from __future__ import annotations

import copy
import json
import re
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.dialects.leaves import ANYTHING, UNEXPECTED

from .canonical import canonical, given
from .compare import answers, problems
from .recording import SCENARIOS, Answered, Asked, Entry, Frame, Opened, Received, Sent, load

SAMPLES = 5
"""Places at which one recording is damaged."""

SPOKEN = tuple(name for name in SCENARIOS if any(isinstance(entry, Received) for entry in load(name).entries))


def test_every_recording_is_here() -> None:
    assert len(SCENARIOS) == 67 + 9


@pytest.mark.parametrize("name", SCENARIOS)
def test_another_run_of_the_same_conversation_is_the_same(name: str) -> None:
    recorded = load(name).entries
    assert problems(canonical(recorded), canonical(_run_again(recorded))) == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_canonical_form_is_its_own(name: str) -> None:
    wanted = canonical(load(name).entries)
    assert canonical(wanted) == wanted


@pytest.mark.parametrize("name", SPOKEN)
def test_a_lost_frame_is_seen(name: str) -> None:
    wanted = canonical(load(name).entries)
    for at in _places(_said(wanted)):
        assert problems(wanted, [*wanted[:at], *wanted[at + 1 :]]), f"{wanted[at]} was lost"


@pytest.mark.parametrize("name", SPOKEN)
def test_a_repeated_frame_is_seen(name: str) -> None:
    wanted = canonical(load(name).entries)
    for at in _places(_said(wanted)):
        assert problems(wanted, [*wanted[: at + 1], *wanted[at:]]), f"{wanted[at]} was said twice"


@pytest.mark.parametrize("name", SPOKEN)
def test_a_changed_field_is_seen(name: str) -> None:
    wanted = canonical(load(name).entries)
    for at in _places(_said(wanted)):
        for changed, path in _changes(_frame(wanted[at])):
            entry = wanted[at]
            assert isinstance(entry, Received)
            got = [*wanted[:at], replace(entry, frame=changed), *wanted[at + 1 :]]
            assert problems(wanted, got), f"{path} was changed"


@pytest.mark.parametrize("name", SPOKEN)
def test_two_frames_in_the_wrong_order_are_seen(name: str) -> None:
    wanted = canonical(load(name).entries)
    said = _said(wanted)
    for at in _places([at for at in said if at + 1 in said and _ordered(wanted[at], wanted[at + 1])]):
        swapped = [*wanted[:at], wanted[at + 1], wanted[at], *wanted[at + 2 :]]
        assert problems(wanted, swapped), f"{wanted[at]} was swapped with the next"


@pytest.mark.parametrize("name", ["http_open", "careful_http", "careful_code_http", "strict"])
def test_another_answer_is_seen(name: str) -> None:
    wanted = canonical(load(name).entries)
    for at, entry in enumerate(wanted):
        if isinstance(entry, Answered):
            got = [*wanted[:at], replace(entry, status=entry.status + 1), *wanted[at + 1 :]]
            assert problems(wanted, got), f"{entry} was another"


def test_an_id_that_does_not_stay_is_seen() -> None:
    recorded = list(load("reconnect_running_replay_all").entries)
    again = _of(recorded, "tool_call")[1]
    changed = _changed(recorded, again, id=str(uuid.uuid4()))
    assert problems(canonical(recorded), canonical(changed))


def test_a_time_that_does_not_stay_is_seen() -> None:
    recorded = list(load("reconnect_running_replay_all").entries)
    again = _of(recorded, "user_input")[1]
    changed = _changed(recorded, again, ts=_frame(recorded[again])["ts"] + 0.5)
    assert problems(canonical(recorded), canonical(changed))


def test_an_answer_may_stand_among_what_a_turn_says() -> None:
    wanted = canonical(load("runtime_input").entries)
    at = next(at for at in _said(wanted) if answers(_frame(wanted[at])) and not answers(_frame(wanted[at + 1])))
    later = [*wanted[:at], wanted[at + 1], wanted[at], *wanted[at + 2 :]]
    assert problems(wanted, later) == []


def test_a_mistake_of_the_server_is_no_answer() -> None:
    wanted = Received("socket 1", {"type": "ERROR", "message": ANYTHING})
    said = [replace(wanted, frame={"type": "ERROR", "message": text}) for text in ("no", f"it {UNEXPECTED}")]
    opened = Opened("socket 1", "/ws")
    assert problems([opened, wanted], [opened, said[0]]) == []
    assert problems([opened, wanted], [opened, said[1]])


def test_what_is_said_before_it_was_asked_for_is_seen() -> None:
    wanted = canonical(load("approval_once_session").entries)
    sent = next(at for at, entry in enumerate(wanted) if isinstance(entry, Sent) and entry.kind == "APPROVAL_RESPONSE")
    early = [*wanted[:sent], wanted[sent + 1], wanted[sent], *wanted[sent + 2 :]]
    assert any("APPROVAL_RESPONSE" in found for found in problems(wanted, early))


def _said(entries: Sequence[Entry]) -> list[int]:
    return [at for at, entry in enumerate(entries) if isinstance(entry, Received)]


def _of(entries: Sequence[Entry], kind: str) -> list[int]:
    return [at for at in _said(entries) if _frame(entries[at])["type"] == kind]


def _changed(entries: Sequence[Entry], at: int, **fields: Any) -> list[Entry]:
    """The conversation with some fields of one message changed."""
    entry = entries[at]
    assert isinstance(entry, Received)
    return [*entries[:at], replace(entry, frame={**entry.frame, **fields}), *entries[at + 1 :]]


def _frame(entry: Entry) -> Frame:
    assert isinstance(entry, Received)
    return entry.frame


def _places(there: Sequence[int]) -> list[int]:
    """Some of them, from the first to the last, the same ones every time."""
    if len(there) <= SAMPLES:
        return list(there)
    return [there[round(at * (len(there) - 1) / (SAMPLES - 1))] for at in range(SAMPLES)]


def _ordered(one: Entry, other: Entry) -> bool:
    """Whether the order of two messages is fixed, and can be seen."""
    assert isinstance(one, Received)
    assert isinstance(other, Received)
    alike = one.conn == other.conn and answers(one.frame) == answers(other.frame)
    return alike and one.frame != other.frame


def _changes(frame: Frame) -> Iterator[tuple[Frame, str]]:
    """The message with one of its leaves changed, or one of its fields gone."""
    for key in frame:
        if key != "type":
            changed = copy.deepcopy(frame)
            changed[key] = _another(changed[key])
            yield changed, key
            yield {name: value for name, value in frame.items() if name != key}, f"{key} (gone)"


def _another(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return "another"
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value} and more"
    if isinstance(value, list):
        return [*value, "another"]
    return {**value, "another": 1}


_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TS = re.compile(r'"(ts|updated|created|expires)": (\d+\.\d+)')


def _run_again(entries: Sequence[Entry]) -> list[Entry]:
    """The same conversation a minute later, with other ids but for those that a client made up."""
    again = _Again(given(entries))
    return [again.entry(entry) for entry in entries]


class _Again:
    def __init__(self, kept: Collection[str]) -> None:
        self._kept = kept

    def entry(self, entry: Entry) -> Entry:
        match entry:
            case Received(_, frame):
                return replace(entry, frame=self._later(frame))
            case Sent(_, dict(message)):
                return replace(entry, message=self._later(message))
            case Answered():
                return replace(entry, body=self._later(entry.body))
            case Asked():
                return replace(entry, path=self._renamed(entry.path), body=self._later(entry.body))
        return entry

    def _later(self, value: Any) -> Any:
        text = _TS.sub(lambda found: f'"{found[1]}": {float(found[2]) + 60}', json.dumps(value))
        return json.loads(self._renamed(text))

    def _renamed(self, text: str) -> str:
        def other(found: re.Match[str]) -> str:
            return found[0] if found[0] in self._kept else str(uuid.uuid5(uuid.NAMESPACE_URL, found[0]))

        return _UUID.sub(other, text)

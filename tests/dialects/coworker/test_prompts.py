"""Decisions as asks and approvals, and what a client's words mean for them (seed: Ask Flow, Command Approval)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.dialects.coworker import messages as wire
from dragoman.dialects.coworker.prompts import Asked, as_answer, find, prompt, request_id
from dragoman.hub.decisions import check_answer
from dragoman.hub.errors import InvalidAnswer
from dragoman.hub.events import Answer, DecisionOpened, Option, Question
from dragoman.hub.state import SessionState

YES_NO = (Option("Yes", "once"), Option("No", "deny"))
DIALOG = (Question("Which base?", (Option("A"), Option("B"))), Question("Which name?"))


def opened(kind: str = "question", **more: Any) -> DecisionOpened:
    return msgspec.convert({"decision": "d", "kind": kind, "text": "t", **more}, DecisionOpened, from_attributes=True)


def shown(decision: DecisionOpened) -> wire.Ask | wire.Approval | None:
    return prompt("s", decision)


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (opened(), wire.Ask(session_id="s", request_id="d", question="t")),
        (
            opened(options=(Option("A"), Option("B", "b"))),
            wire.Ask(session_id="s", request_id="d", question="t", options=("A", "B")),
        ),
        (opened("plan", options=YES_NO), wire.Ask(session_id="s", request_id="d", question="t", options=("Yes", "No"))),
        (
            opened("setup", options=YES_NO),
            wire.Ask(session_id="s", request_id="d", question="t", options=("Yes", "No")),
        ),
        (opened("form"), wire.Ask(session_id="s", request_id="d", question="t")),
        (
            opened(questions=DIALOG[:1]),
            wire.Ask(session_id="s", request_id="d", question="Which base?", options=("A", "B")),
        ),
        (
            opened(questions=DIALOG),
            wire.Ask(session_id="s", request_id="d#1", question="Which base?", options=("A", "B")),
        ),
        (
            opened(questions=DIALOG, question_current=1),
            wire.Ask(session_id="s", request_id="d#2", question="Which name?"),
        ),
        (opened(questions=DIALOG, question_current=2), None),
        (opened(ready=False), None),
        (
            opened("permission", options=YES_NO, dangerous=True, reason="matches_dangerous_pattern"),
            wire.Approval(
                session_id="s",
                request_id="d",
                command="t",
                dangerous=True,
                reason_code="matches_dangerous_pattern",
            ),
        ),
        (
            opened("permission", reason="something of its own"),
            wire.Approval(
                session_id="s", request_id="d", command="t", dangerous=False, reason_code="requires_manual_review"
            ),
        ),
    ],
    ids=[str(row) for row in range(12)],
)
def test_how_a_decision_is_asked(decision: DecisionOpened, message: wire.ServerMessage | None) -> None:
    assert shown(decision) == message


@pytest.mark.parametrize(
    ("decision", "said", "means"),
    [
        (opened(), "free", Answer(text="free")),
        (opened(), "", Answer(text="")),
        (opened(options=YES_NO), "No", Answer(option=2)),
        (opened(options=YES_NO), "no", Answer(text="no")),
        (opened("plan", options=YES_NO), "Yes", Answer(option=1)),
        (opened("plan", options=YES_NO), "smaller steps", Answer(text="smaller steps")),
        (opened("setup", options=YES_NO), "Yes", Answer(option=1)),
        (opened(questions=DIALOG), "B", Answer(answers=(Answer(option=2),))),
        (opened(questions=DIALOG, question_current=1), "B", Answer(answers=(Answer(text="B"),))),
        (opened("form"), " ", Answer(accept=False)),
        (opened("form"), '{"name":"x"}', Answer(accept=True, values={"name": "x"})),
    ],
    ids=[str(row) for row in range(11)],
)
def test_what_a_text_means(decision: DecisionOpened, said: str, means: Answer) -> None:
    answer = as_answer(Asked(decision, None), said)
    assert answer == means
    check_answer(decision, answer)


@pytest.mark.parametrize("said", ["x", "[]", "{", "1", "[" * 10_000], ids=[str(row) for row in range(5)])
def test_a_form_wants_an_object(said: str) -> None:
    with pytest.raises(InvalidAnswer, match="JSON object"):
        as_answer(Asked(opened("form"), None), said)


def test_a_request_id_stands_for_the_question_that_was_shown() -> None:
    """Invariant 4: an answer to a question that is over cannot become one to the next."""
    dialog = opened(questions=DIALOG)
    state = SessionState(session="s", decisions={"d": dialog})
    found = find(state, "d#1", approval=False)
    assert found is not None
    assert found == (dialog, 0)
    state.decisions["d"] = msgspec.structs.replace(dialog, question_current=1)
    assert find(state, "d#1", approval=False) is None
    assert find(state, request_id(state.decisions["d"]), approval=False) is not None


@pytest.mark.parametrize("kind", ["question", "plan", "setup", "form", "permission"])
def test_an_answer_of_the_other_kind_finds_nothing(kind: str) -> None:
    state = SessionState(session="s", decisions={"d": opened(kind)})
    assert (find(state, "d", approval=True) is not None) is (kind == "permission")
    assert (find(state, "d", approval=False) is not None) is (kind != "permission")
    assert find(state, "e", approval=kind == "permission") is None

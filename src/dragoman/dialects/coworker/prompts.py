"""Decisions as ``ask`` and ``approval``, and a client's response to one (seed: Ask Flow, Command Approval).

A dialog of several questions is asked one by one; the ``requestId`` of the n-th is the decision's id, ``#``, n.
"""

from __future__ import annotations

from typing import NamedTuple, get_args

import msgspec

from dragoman.hub.decisions import position
from dragoman.hub.errors import NOT_JSON, InvalidAnswer
from dragoman.hub.events import Answer, DecisionOpened, Json, Option
from dragoman.hub.state import SessionState

from . import messages as wire

_REASONS = frozenset(get_args(wire.ReasonCode))
_UNNAMED: wire.ReasonCode = "requires_manual_review"


class Asked(NamedTuple):
    """An open decision that a request id stands for; ``question`` is a place, from 0, in a dialog that has some."""

    opened: DecisionOpened
    question: int | None


def request_id(opened: DecisionOpened) -> str:
    """What this decision, at the question that its dialog has come to, is called on the wire."""
    if len(opened.questions) < 2:
        return opened.decision
    return f"{opened.decision}#{position(opened) + 1}"


def prompt(session: str, opened: DecisionOpened) -> wire.Ask | wire.Approval | None:
    """The message that asks for it; None while its options are still being read, or when no question is left."""
    if not opened.ready or (opened.questions and position(opened) >= len(opened.questions)):
        return None
    if opened.kind == "permission":
        return wire.Approval(
            session_id=session,
            request_id=request_id(opened),
            command=opened.text,
            dangerous=opened.dangerous,
            reason_code=_reason(opened.reason),
        )
    text, options = _question(opened)
    labels = tuple(option.label for option in options)
    return wire.Ask(session_id=session, request_id=request_id(opened), question=text, options=labels or msgspec.UNSET)


def find(state: SessionState, request: str, *, approval: bool) -> Asked | None:
    """The open decision of this kind that a request id stands for; None for any other id."""
    for opened in state.decisions.values():
        if request_id(opened) == request and (opened.kind == "permission") is approval:
            return Asked(opened, position(opened) if opened.questions else None)
    return None


def as_answer(asked: Asked, said: str) -> Answer:
    """What a text means: the option that it is the label of, else itself. Raises ``InvalidAnswer``."""
    opened = asked.opened
    if opened.kind == "form":
        return _form(said)
    _, options = _question(opened)
    labels = [option.label for option in options]
    answer = Answer(option=labels.index(said) + 1) if said in labels else Answer(text=said)
    return Answer(answers=(answer,)) if opened.questions else answer


def _question(opened: DecisionOpened) -> tuple[str, tuple[Option, ...]]:
    if not opened.questions:
        return opened.text, opened.options
    question = opened.questions[position(opened)]
    return question.question, question.options


def _form(said: str) -> Answer:
    """A form is filled in with a JSON object; nothing at all declines it."""
    if not said.strip():
        return Answer(accept=False)
    try:
        values: dict[str, Json] = msgspec.json.decode(said, type=dict)
    except NOT_JSON as wrong:
        raise InvalidAnswer("answer with a JSON object of the fields, or with nothing to decline") from wrong
    return Answer(accept=True, values=values)


def _reason(given: str | None) -> wire.ReasonCode:
    return given if given in _REASONS else _UNNAMED  # type: ignore[return-value]

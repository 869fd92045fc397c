"""What is asked on this protocol's socket: of each kind one decision at a time, told from the log alone (invariant 4).

The wire has three kinds of questions, and its answers name none of them. So of several open decisions of a kind the
first is asked; the next one is asked where the log says that the one before was resolved.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from dragoman.hub.decisions import position
from dragoman.hub.events import DecisionKind, DecisionOpened, DecisionResolved, DecisionRevised, Question
from dragoman.hub.state import revised

WireKind = Literal["ask_user", "approval_needed", "plan_review"]
"""The stream event that asks."""

WIRE_KINDS: dict[DecisionKind, WireKind] = {
    "permission": "approval_needed",
    "plan": "plan_review",
    "question": "ask_user",
    "setup": "ask_user",
    "form": "ask_user",
}

NEEDS_APPROVE = frozenset({"permission", "plan", "setup"})
"""Kinds of decisions that only who has the approve right is shown, and may answer."""


class Ask(msgspec.Struct, frozen=True):
    """A decision, or one question of its dialog (from 0), as a client is asked it."""

    opened: DecisionOpened
    question: int

    @property
    def decision(self) -> str:
        """The id of the decision."""
        return self.opened.decision

    @property
    def kind(self) -> WireKind:
        """Which stream event asks it."""
        return WIRE_KINDS[self.opened.kind]

    @property
    def needs_approve(self) -> bool:
        """Whether only those are asked who may approve."""
        return self.opened.kind in NEEDS_APPROVE

    @property
    def asked(self) -> Question:
        """What is asked: the question of the dialog, or the whole decision as one."""
        questions = self.opened.questions
        if self.question < len(questions):
            return questions[self.question]
        return Question(self.opened.text, self.opened.options)


class Asking:
    """The open decisions of a session, and which of them is asked now. Fed the log in order."""

    def __init__(self) -> None:
        self._open: dict[str, DecisionOpened] = {}
        self._asked: dict[WireKind, Ask] = {}

    def copy(self) -> Asking:
        """The same, to be fed apart."""
        twin = Asking()
        twin._open, twin._asked = dict(self._open), dict(self._asked)
        return twin

    @property
    def now(self) -> list[Ask]:
        """What is asked now, at most one of a kind."""
        return list(self._asked.values())

    def opened(self, fact: DecisionOpened) -> Ask | None:
        """What is asked with this, if anything."""
        self._open[fact.decision] = fact
        return self._next(WIRE_KINDS[fact.kind])

    def revised(self, fact: DecisionRevised) -> Ask | None:
        """The dialog is ready only now, goes on with its next question, or turns out to be of another kind."""
        before = self._open.get(fact.decision)
        if before is None:
            return None
        after = self._open[fact.decision] = revised(before, fact)
        for kind, ask in list(self._asked.items()):
            if ask.decision == fact.decision and (kind, ask.question) != (WIRE_KINDS[after.kind], position(after)):
                del self._asked[kind]
        return self._next(WIRE_KINDS[after.kind])

    def resolved(self, fact: DecisionResolved) -> Ask | None:
        """It is over: what is asked in its place."""
        gone = self._open.pop(fact.decision, None)
        if gone is None:
            return None
        kind = WIRE_KINDS[gone.kind]
        if kind in self._asked and self._asked[kind].decision == fact.decision:
            del self._asked[kind]
        return self._next(kind)

    def _next(self, kind: WireKind) -> Ask | None:
        if kind in self._asked:
            return None
        for opened in self._open.values():
            if opened.ready and WIRE_KINDS[opened.kind] == kind:
                ask = self._asked[kind] = Ask(opened, position(opened))
                return ask
        return None

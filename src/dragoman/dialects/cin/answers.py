"""Numbers as answers (spec §2.4): the rows of a permission prompt, and what the number of one of them says.

A client answers with a number and, if it can, with the decision's id. Without the id the answer is to what is asked
now, and only if its sender can have seen that (invariant 4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dragoman.hub.decisions import position
from dragoman.hub.errors import InvalidAnswer
from dragoman.hub.events import Answer, DecisionOpened, DecisionResolved, DecisionRevised, Event, Option
from dragoman.hub.session import Session

from . import messages as wire

YES, YES_ALWAYS, NO = "Yes", "Yes, and do not ask again in this session", "No"
"""The rows of a decision that brings none of its own."""

BATCH = 200
"""Events that are read at once to see what was asked before."""


def asked_now(decisions: Mapping[str, DecisionOpened]) -> DecisionOpened | None:
    """Of a session's open decisions the one that is asked: the oldest permission that can be answered here, else the
    oldest permission, else the oldest of the others that a number can answer; None when there is none."""
    ready = [opened for opened in decisions.values() if opened.ready and opened.kind != "form"]
    permissions = [opened for opened in ready if opened.kind == "permission"]
    answerable = [opened for opened in permissions if not is_elsewhere(opened)]
    return next(iter(answerable or permissions or ready), None)


def is_elsewhere(opened: DecisionOpened) -> bool:
    """Whether it is answered where its agent runs, and nowhere else."""
    return opened.detail.get("elsewhere") is True


def choices_of(opened: DecisionOpened) -> tuple[wire.Choice, ...]:
    """The rows that it is answered with; none where a number cannot."""
    rows = tuple(option.label for option in _options(opened)) or tuple(label for label, _ in _own_rows(opened))
    return tuple(wire.Choice(str(number), label) for number, label in enumerate(rows, 1))


def answer_of(opened: DecisionOpened, number: str) -> Answer:
    """What the number says. Raises ``InvalidAnswer`` where it is that of no row."""
    choices = choices_of(opened)
    picked = next((at for at, choice in enumerate(choices, 1) if choice.number == number), None)
    if picked is None:
        known = f"the numbers 1 to {len(choices)}" if choices else "no number"
        raise InvalidAnswer(f"{number} is no answer to this {opened.kind}: it takes {known}")
    if opened.questions:
        return Answer(answers=(Answer(option=picked),))
    if opened.options:
        return Answer(option=picked)
    return _own_rows(opened)[picked - 1][1]


def number_of(opened: DecisionOpened, given: Answer) -> str | None:
    """The number of the row that says this; None where none does."""
    if given.option is not None:
        return str(given.option)
    rows = () if opened.options or opened.questions else _own_rows(opened)
    return next((str(number) for number, (_, answer) in enumerate(rows, 1) if answer == given), None)


def question_of(opened: DecisionOpened) -> int | None:
    """The place, from 0, of the question that such an answer is to; None where there are none."""
    return position(opened) if opened.questions else None


async def settled(session: Session, opened: DecisionOpened, seconds: float, mine: Callable[[str], bool]) -> bool:
    """Whether an answer that names no decision can be taken to be to ``opened``, which is asked now.

    Not while it has been asked for less than ``seconds``, if what was asked just before it was answered by somebody
    else: who sends a number now may have seen that one only. ``mine`` says of a decision whether the sender themselves
    has answered it.
    """
    now, limit = session.clock.now(), round(seconds * 1000)
    asked_at, others = 0, 0
    for event in await _since(session, now - 2 * limit):
        kind, of_others = _told(event, opened.decision, mine)
        asked_at = event.at if kind else asked_at
        others = event.at if of_others else others
    return now - asked_at >= limit or asked_at - others >= limit


def _told(event: Event, decision: str, mine: Callable[[str], bool]) -> tuple[bool, bool]:
    """Whether with this event something began to be asked, and whether what was asked was answered by somebody else."""
    fact = event.fact
    if isinstance(fact, DecisionOpened):
        return fact.decision == decision, False
    if isinstance(fact, DecisionResolved):
        return fact.decision != decision, fact.decision != decision and not mine(fact.decision)
    if isinstance(fact, DecisionRevised) and fact.decision == decision:
        moved = fact.question_current is not None or fact.answered is not None
        return moved or fact.ready is not None, moved and not mine(decision)
    return False, False


async def _since(session: Session, at: int) -> list[Event]:
    """The session's events since then, the oldest first; some before them as well."""
    events: list[Event] = []
    before: int | None = None
    while batch := await session.read_back(before, BATCH):
        events = batch + events
        before = batch[0].seq
        if batch[0].at < at:
            break
    return events


def _options(opened: DecisionOpened) -> tuple[Option, ...]:
    if not opened.questions:
        return opened.options
    at = position(opened)
    return opened.questions[at].options if at < len(opened.questions) else ()


def _own_rows(opened: DecisionOpened) -> tuple[tuple[str, Answer], ...]:
    """The rows of a decision without options, and what each says."""
    if opened.kind == "permission":
        always = (
            ((YES_ALWAYS, Answer(accept=True, scope="session")),) if isinstance(opened.detail.get("grant"), str) else ()
        )
        return ((YES, Answer(accept=True, scope="once")), *always, (NO, Answer(accept=False)))
    if opened.kind == "plan":
        return ((YES, Answer(accept=True)), (NO, Answer(accept=False)))
    if opened.kind == "setup":
        return ((YES, Answer(option=1)),)
    return ()

"""Answering decisions: what fits, who waits, who was first (invariant 4)."""

from __future__ import annotations

import asyncio

import msgspec

from .errors import InvalidAnswer
from .events import Answer, DecisionOpened
from .events.decisions import DecisionKind
from .permissions import Right

SCOPE_CHARS = 2000
"""Length of a permission's scope: a rule is kept for as long as its session."""


_RIGHTS: dict[DecisionKind, Right] = {
    "question": Right.WRITE,
    "form": Right.WRITE,
    "permission": Right.APPROVE,
    "plan": Right.APPROVE,
    "setup": Right.APPROVE,
}


def right_to_answer(kind: DecisionKind) -> Right:
    """What answering a decision of this kind needs.

    Whoever may write a prompt may say what a question or a form asks for. The others permit something.
    """
    return _RIGHTS[kind]


class DecisionClosed(Exception):
    """A decision ended without an answer: cancelled with its turn, expired, or its agent is gone."""

    def __init__(self, decision: str, outcome: str) -> None:
        super().__init__(f"decision {decision!r} was {outcome}")
        self.decision = decision
        self.outcome = outcome


class DecisionWaiters:
    """The agents' side: futures that resolve once an outcome is durable."""

    def __init__(self) -> None:
        self._futures: dict[str, asyncio.Future[Answer]] = {}

    async def wait(self, decision: str) -> Answer:
        """The answer, or ``DecisionClosed``."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._futures[decision] = future
        try:
            return await future
        finally:
            self._futures.pop(decision, None)

    def resolve(self, decision: str, outcome: str, answer: Answer | None) -> bool:
        """Wake whoever waits; False when nobody does."""
        future = self._futures.get(decision)
        if future is None or future.done():
            return False
        if outcome == "answered" and answer is not None:
            future.set_result(answer)
        else:
            future.set_exception(DecisionClosed(decision, outcome))
        return True


def position(opened: DecisionOpened) -> int:
    """The place, from 0, of the first question that is left; the number of questions when none is."""
    return min(opened.question_current, len(opened.questions))


def take(opened: DecisionOpened, given: tuple[Answer, ...], answer: Answer) -> tuple[Answer, bool]:
    """``answer`` joined with what was ``given`` before, and whether questions are left.

    What was answered elsewhere, at the terminal, is filled up with answers that say nothing; what was taken back there
    is left out. The answer to a secret is always whole: its parts would lie in the log.
    """
    answers = answer.answers
    if not opened.questions or not (answers or given):
        return answer, False
    begin = position(opened)
    joined = (given + (Answer(),) * begin)[:begin] + answers
    left = bool(answers) and len(joined) < len(opened.questions) and not opened.secret
    return msgspec.structs.replace(answer, answers=joined), left


def spelt_out(opened: DecisionOpened, answer: Answer) -> Answer:
    """A permission answered by the number of an option, with what that option means.

    An option's value is ``once``, ``session``, ``rule:`` and a rule in the agent's own words, or ``deny``; one without
    such a value means whatever its agent takes it for, and stays a number.
    """
    if opened.kind != "permission" or answer.option is None or answer.accept is not None:
        return answer
    value = opened.options[answer.option - 1].value if answer.option <= len(opened.options) else None
    if value == "deny":
        return msgspec.structs.replace(answer, accept=False)
    if value in ("once", "session"):
        return msgspec.structs.replace(answer, accept=True, scope=value)
    if value is not None and value.startswith("rule:"):
        return msgspec.structs.replace(answer, accept=True, scope=value.removeprefix("rule:"))
    return answer


def check_answer(opened: DecisionOpened, answer: Answer) -> None:
    """Raise ``InvalidAnswer`` unless ``answer`` says something that this decision can mean, at its question now."""
    if answer.scope is not None and len(answer.scope) > SCOPE_CHARS:
        raise InvalidAnswer(f"a scope has at most {SCOPE_CHARS} characters")
    # Options that are still being read cannot be counted yet.
    _check_option(answer, len(opened.options) if opened.ready else None)
    if opened.kind in ("permission", "plan", "setup"):
        if answer.accept is None and answer.option is None and answer.text is None:
            raise InvalidAnswer(f"a {opened.kind} needs accept, an option or a text")
    elif opened.kind == "form":
        if not answer.values and answer.accept is None:
            raise InvalidAnswer("a form needs values, or accept: false to decline it")
    else:
        _check_question(opened, answer)


def _check_question(opened: DecisionOpened, answer: Answer) -> None:
    left = opened.questions[position(opened) :]
    nothing = answer.text is None and answer.option is None and not answer.answers and not answer.choices
    if nothing and (left or not opened.questions or answer.accept is None):
        raise InvalidAnswer("a question needs a text, an option, choices or answers")
    if len(answer.answers) > (len(left) if opened.questions else 1):
        raise InvalidAnswer(f"{len(answer.answers)} answers to {len(left)} questions")
    for question, said in zip(left, answer.answers, strict=False):
        # A question that has not been on the screen yet has no options to count.
        _check_option(said, len(question.options) or None)


def _check_option(answer: Answer, options: int | None) -> None:
    """A decision without options takes the first: it is its yes."""
    if answer.option is None:
        return
    if options is not None and answer.option == options + 1 and answer.text is not None:
        return  # "other", behind the options, with what it is
    if answer.option < 1 or (options is not None and answer.option > max(options, 1)):
        raise InvalidAnswer(f"option {answer.option} is not one of {options if options is not None else 'any'}")

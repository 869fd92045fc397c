"""Answering decisions: what fits, who waits, who was first (invariant 4)."""

from __future__ import annotations

import asyncio

from .errors import InvalidAnswer
from .events import Answer, DecisionOpened


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


def check_answer(opened: DecisionOpened, answer: Answer) -> None:
    """Raise ``InvalidAnswer`` unless ``answer`` says something that this decision can mean."""
    if answer.option is not None and opened.ready and not 1 <= answer.option <= max(len(opened.options), 1):
        raise InvalidAnswer(f"option {answer.option} is not one of {len(opened.options)}")
    if opened.kind in ("permission", "plan", "setup"):
        if answer.accept is None and answer.option is None and answer.text is None:
            raise InvalidAnswer(f"a {opened.kind} needs accept, an option or a text")
        return
    if opened.kind == "form":
        if not answer.values and answer.accept is None:
            raise InvalidAnswer("a form needs values, or accept: false to decline it")
        return
    if answer.text is None and answer.option is None and not answer.answers:
        raise InvalidAnswer("a question needs a text, an option or answers")
    for question, given in zip(opened.questions, answer.answers, strict=False):
        if given.option is not None and not 1 <= given.option <= max(len(question.options), 1):
            raise InvalidAnswer(f"option {given.option} is not one of {len(question.options)}")

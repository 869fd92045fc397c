"""The decisions of a session: opened by its agent, answered by people, each with one outcome (invariant 4)."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Callable

from .decisions import DecisionWaiters, check_answer, position, right_to_answer, spelt_out, take
from .errors import AlreadyResolved, AnsweredAlready, InvalidRequest, LimitReached, UnknownDecision
from .events import Answer, AnyFact, DecisionOpened, DecisionOutcome, DecisionResolved, DecisionRevised, Event
from .log import SessionLog, SessionParts
from .permissions import Principal, Right
from .ports import Agent
from .sizes import json_size
from .state import SessionState

log = logging.getLogger("dragoman.session")


class DecidingSession(SessionLog):
    """See the module. A part of ``Session``."""

    def __init__(self, state: SessionState, parts: SessionParts) -> None:
        super().__init__(state, parts)
        self._agent: Agent | None = None
        self._waiters = DecisionWaiters()
        self._secrets: dict[str, Answer] = {}
        """Answers that the log must not hold, until their agent has them."""
        self._expiries: dict[str, asyncio.TimerHandle] = {}

    # For clients

    async def answer(
        self, principal: Principal, decision: str, answer: Answer, *, via: str, question: int | None = None
    ) -> Event:
        """Resolve a decision, or go on with its dialog while questions are left; returns once that is durable.

        ``question`` is the place, from 0, of the question that the answer begins with, for whoever may have seen an
        older one. A question or a form needs the write right, all else approve. Raises ``AlreadyResolved`` when someone
        was first, ``AnsweredAlready`` when that was so for this question, ``UnknownDecision``, ``InvalidAnswer`` (it
        stays open), ``NotPermitted``.
        """
        self._check_may_answer(principal, decision)
        if json_size(answer) > self.limits.prompt_bytes:
            raise LimitReached(f"the answer is longer than {self.limits.prompt_bytes} bytes (prompt_bytes)")
        if decision in self.state.decisions:
            async with self.ensure_agent().answering(decision, answer):
                event = await self._take_answer(principal, decision, answer, via, question)
            return await self.acknowledged(event)
        raise await self.no_longer_open(decision)

    async def no_longer_open(self, decision: str) -> AlreadyResolved | UnknownDecision:
        """What an answer to a decision that is not open is refused with; the outcome is durable by then."""
        fact = await self.fact_of(f"decision:{decision}")
        if fact is None:
            return UnknownDecision(decision)
        assert isinstance(fact, DecisionResolved)
        return AlreadyResolved(decision, fact.outcome, fact.answer)

    # For agents

    async def decide(self, opened: DecisionOpened) -> Answer:
        """Open a decision and wait for its durable answer. Raises ``DecisionClosed``."""
        self.open_decision(opened)
        return await self._waiters.wait(opened.decision)

    def open_decision(self, opened: DecisionOpened) -> Event:
        """Open a decision that the agent will be told of through ``Agent.resolved``."""
        if len(self.state.decisions) >= self.limits.open_decisions:
            raise LimitReached(f"{self.limits.open_decisions} decisions are open (open_decisions)")
        if opened.decision in self.state.decisions:
            raise InvalidRequest(f"decision {opened.decision!r} is open already")
        return self.record(opened)

    def cancel_decision(self, decision: str, reason: str) -> bool:
        """Close an open decision without an answer; False when it is not open any more."""
        if decision not in self.state.decisions:
            return False
        self._resolve(decision, "cancelled", reason=reason)
        return True

    def settle_decision(
        self,
        decision: str,
        *,
        answer: Answer | None = None,
        by: str | None = None,
        via: str = "terminal",
        reason: str | None = None,
    ) -> bool:
        """An open decision was answered beside the hub: at the agent's own terminal. False when it is not open.

        ``answer`` is None where nobody can know what was said.
        """
        if decision not in self.state.decisions:
            return False
        self._resolve(decision, "answered", answer=answer, by=by, via=via, reason=reason)
        return True

    # For the session

    @abstractmethod
    def ensure_agent(self) -> Agent:
        """The agent that opens the decisions, made on first need."""

    def end_expiries(self) -> None:
        """No decision expires any more: the server stops."""
        for timer in self._expiries.values():
            timer.cancel()

    # Inside

    def _check_may_answer(self, principal: Principal, decision: str) -> None:
        """What became of one that is not open any more is told to whoever might have answered it."""
        opened = self.state.decisions.get(decision)
        if opened is not None:
            self.admit(principal, right_to_answer(opened.kind))
        else:
            self.admit(principal, Right.WRITE if Right.WRITE in principal.rights else Right.APPROVE)

    async def _take_answer(
        self, principal: Principal, decision: str, answer: Answer, via: str, question: int | None
    ) -> Event:
        opened = self.state.decisions.get(decision)
        if opened is None:
            raise await self.no_longer_open(decision)
        principal.check(self.id, right_to_answer(opened.kind))  # what it is may have been seen only meanwhile
        if question is not None and question != position(opened):
            raise AnsweredAlready(question)
        check_answer(opened, answer)
        answer = spelt_out(opened, answer)
        answer, left = take(opened, self.state.answered.get(decision, ()), answer)
        if left:
            return self._go_on(decision, answer.answers, principal.id)
        if opened.secret:
            self._secrets[decision] = answer
            answer = Answer(accept=answer.accept, option=answer.option, withheld=True)
        return self._resolve(decision, "answered", answer=answer, by=principal.id, via=via)

    def _go_on(self, decision: str, answered: tuple[Answer, ...], by: str) -> Event:
        return self.record(
            DecisionRevised(decision=decision, answered=answered, question_current=len(answered), by=by, cause="")
        )

    def _resolve(self, decision: str, outcome: DecisionOutcome, **more: object) -> Event:
        fact = DecisionResolved(decision=decision, outcome=outcome, **more)  # type: ignore[arg-type]
        return self.record(fact, settling=True)

    def _recorded(self, fact: AnyFact) -> None:
        if isinstance(fact, DecisionOpened) and fact.expires_at is not None:
            self._expire_later(fact)

    def _became_durable(self, fact: AnyFact) -> None:
        super()._became_durable(fact)
        if isinstance(fact, DecisionRevised) and fact.answered is not None and fact.by is not None:
            self._tell(fact.decision, lambda agent: agent.progressed(fact))
        if isinstance(fact, DecisionResolved):
            self._settled(fact)

    def _settled(self, fact: DecisionResolved) -> None:
        if (timer := self._expiries.pop(fact.decision, None)) is not None:
            timer.cancel()
        answer = self._secrets.pop(fact.decision, fact.answer)
        if self._waiters.resolve(fact.decision, fact.outcome, answer):
            return
        self._tell(fact.decision, lambda agent: agent.resolved(fact, answer))

    def _tell(self, decision: str, say: Callable[[Agent], None]) -> None:
        if self._agent is not None:
            try:
                say(self._agent)
            except Exception:
                log.exception("the agent of session %s did not take what became of %s", self.id, decision)

    def _expire_later(self, opened: DecisionOpened) -> None:
        assert opened.expires_at is not None
        delay = max(0.0, (opened.expires_at - self.clock.now()) / 1000)
        loop = asyncio.get_running_loop()
        self._expiries[opened.decision] = loop.call_later(delay, self._expire, opened.decision)

    def _expire(self, decision: str) -> None:
        if decision in self.state.decisions:
            self._resolve(decision, "expired", reason="expired")

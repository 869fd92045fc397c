"""Prompts and answers on their way to the agent, and what became of each."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence

from dragoman.agents.terminal.terminal import PtyTerminal
from dragoman.hub.errors import InputRefused
from dragoman.hub.events import Answer, DecisionResolved, DecisionRevised, Problem
from dragoman.hub.session import Session
from dragoman.hub.turns import TurnBrokenOff, TurnContext, TurnFailed

from .dialogs import OpenDialog
from .gate import InputGate, PersonTyping
from .groom import groomed_row
from .hands import Hands, NotDelivered, check_can_be_typed
from .profile import GroomMode, Profile
from .settings import DriverSettings
from .watch import AgentWatch

log = logging.getLogger("dragoman.terminal")

REMEMBERED = 200
"""Outcomes that are kept for those who ask late."""

LATE_WORK = 1.0
"""Seconds after which a prompt that started no work (a local command) is done."""

VANISHING = 1.0
"""Seconds in which a dialog that is off the screen proves to be gone or comes back."""

_AT_REST = ("idle", "error")


class Deliveries:
    """All deliveries of one session. One runs at a time: the gate sees to that."""

    def __init__(
        self,
        session: Session,
        terminal: PtyTerminal,
        profile: Profile,
        settings: DriverSettings,
        watch: AgentWatch,
        *,
        groom: GroomMode,
    ) -> None:
        self._session = session
        self._terminal = terminal
        self._profile = profile
        self._settings = settings
        self._watch = watch
        self._groom = groom
        self._gate = InputGate(terminal.deliver, gap=settings.input_delay)
        self._hands = Hands(watch, self._gate, terminal, profile, settings)
        self._outcomes: dict[str, asyncio.Future[str | None]] = {}
        self._claimed: str | None = None

    def begin(self) -> None:
        """The program runs: from now on what a person types goes through the gate."""
        self._terminal.person = self._gate.person

    def end(self) -> None:
        """The program is gone."""
        self._terminal.person = None
        for outcome in self._outcomes.values():
            if not outcome.done():
                outcome.set_result("the program ended")

    async def outcome(self, of: str) -> str | None:
        """Wait for what becomes of a prompt or of the newest answer to a decision: None, or why it did not arrive."""
        state = self._session.state
        waits = {prompt.prompt for prompt in state.queue} | ({state.turn.prompt} if state.turn is not None else set())
        if of not in self._outcomes and of not in waits and of not in state.decisions:
            return "what became of it is not known any more"  # it was before this server's start, or long ago
        return await asyncio.shield(self._outcome(of))

    def _outcome(self, of: str) -> asyncio.Future[str | None]:
        outcome = self._outcomes.get(of)
        if outcome is None:
            outcome = self._outcomes[of] = asyncio.get_running_loop().create_future()
            while len(self._outcomes) > REMEMBERED:
                self._outcomes.pop(next(iter(self._outcomes)))
        return outcome

    def _came_out(self, of: str, why_not: str | None) -> None:
        outcome = self._outcome(of)
        if not outcome.done():
            outcome.set_result(why_not)

    # Prompts

    async def run_turn(self, turn: TurnContext) -> str | None:
        """Hand the prompt over and see the agent through to its end."""
        watch, prompt = self._watch, turn.prompt
        try:
            await watch.until(lambda: watch.state in _AT_REST or not watch.running, None)
            broken_off = watch.broken_off
            worked = await self._hands.hand_over(prompt.content or prompt.text)
        except (NotDelivered, PersonTyping, InputRefused) as problem:
            self._came_out(prompt.prompt, str(problem))
            raise TurnFailed(Problem(code="not_delivered", message=str(problem))) from problem
        except asyncio.CancelledError:
            self._came_out(prompt.prompt, "cancelled")
            await self._break_off()
            raise
        self._came_out(prompt.prompt, None)
        try:
            await self._see_through(worked)
        except asyncio.CancelledError:
            await self._break_off()
            raise
        return self._result(broken_off)

    async def _see_through(self, worked: int) -> None:
        """Wait until the agent is done with its prompt."""
        watch = self._watch

        def at_work() -> bool:
            return watch.worked > worked or watch.state not in _AT_REST or not watch.running

        if await watch.until(at_work, LATE_WORK):
            await watch.until(lambda: watch.state in _AT_REST or not watch.running, None)

    def _result(self, broken_off: int) -> str | None:
        status = self._session.state.status
        if self._watch.broken_off > broken_off:
            raise TurnBrokenOff
        if status.state == "error":
            code = status.error_category or "other"
            raise TurnFailed(Problem(code=code, message=status.error_detail or "the agent reports an error"))
        return status.last_message

    async def _break_off(self) -> None:
        """Make the agent stop what it does, and wait until it has."""
        watch = self._watch
        if not watch.running or watch.state in _AT_REST:
            return
        for key in self._profile.interrupt:
            self._terminal.deliver_keys((key,))
            await watch.until(lambda: watch.state in _AT_REST, self._settings.interrupt_gap)
        if not await watch.until(lambda: watch.state in _AT_REST or not watch.running, self._settings.answer_timeout):
            log.warning("session %s: the agent did not stop its turn", self._session.id)

    # Answers

    @contextlib.asynccontextmanager
    async def answering(self, decision: str, answer: Answer) -> AsyncIterator[None]:
        """See ``Agent.answering``. An answer that gets recorded keeps the gate until it is carried out."""
        check_can_be_typed(answer)
        dialogs = self._watch.dialogs
        if dialogs.open is None or dialogs.open.decision != decision:
            yield
            return
        try:
            await self._gate.begin()
        except PersonTyping as problem:
            raise InputRefused(str(problem)) from problem
        self._claimed = None
        try:
            await self._look_closely()
            known = self._known(decision)
            yield
            if self._known(decision) != known:
                self._outcomes.pop(decision, None)  # of an answer to an earlier question of the dialog
                self._outcome(decision)
                self._claimed = decision
        finally:
            if self._claimed != decision:
                self._gate.end()

    async def _look_closely(self) -> None:
        """See whether the dialog still stands: a person may have answered it just now."""
        self._watch.look()
        opened = self._watch.dialogs.open
        if opened is not None and opened.missing_since is not None:
            dialogs = self._watch.dialogs
            await self._watch.until(lambda: dialogs.open is not opened or opened.missing_since is None, VANISHING)

    def _known(self, decision: str) -> tuple[bool, Sequence[Answer]]:
        """What the log says of a decision: whether it is open, and what was answered."""
        state = self._session.state
        return decision in state.decisions, state.answered.get(decision, ())

    def resolved(self, outcome: DecisionResolved, answer: Answer | None) -> None:
        """An outcome is durable: carry it out."""
        claimed, self._claimed = self._claimed == outcome.decision, None
        if claimed:
            said = answer or Answer()
            self._start(outcome.decision, said, said.answers or (said,), last=True)
        elif outcome.via == "terminal":
            self._came_out(outcome.decision, "it was answered at the terminal")
        else:
            if outcome.outcome == "cancelled":
                # With its turn, perhaps: the dialog may stand there all the same.
                loop = asyncio.get_running_loop()
                loop.call_later(VANISHING, self._watch.dialogs.ask_again, outcome.decision)
            if outcome.outcome == "expired":
                self._session.tasks.start(self._decline(outcome.decision), f"expired:{outcome.decision}")
            self._came_out(outcome.decision, f"it was {outcome.outcome}")

    def progressed(self, revision: DecisionRevised) -> None:
        """Some of a dialog's questions were answered, durably: carry them out."""
        claimed, self._claimed = self._claimed == revision.decision, None
        if claimed:
            self._start(revision.decision, Answer(), revision.answered or (), last=False)

    def _start(self, decision: str, answer: Answer, answers: Sequence[Answer], *, last: bool) -> None:
        self._session.tasks.start(self._carry_out(decision, answer, answers, last=last), f"answer:{decision}")

    async def _carry_out(self, decision: str, answer: Answer, answers: Sequence[Answer], *, last: bool) -> None:
        why_not: str | None = "the server stops"
        opened = self._watch.dialogs.open
        try:
            if opened is None or opened.decision != decision:
                why_not = "the dialog is gone"
                return
            opened.being_answered = True
            if opened.about.kind == "question":
                await self._hands.answer_questions(opened, answers[opened.given :], last=last)
                opened.given = len(answers)
                why_not = None
            else:
                await self._hands.answer(opened, answer)
                why_not = None
        except (NotDelivered, InputRefused) as problem:
            why_not = str(problem)
            log.warning("session %s: an answer did not reach the dialog: %s", self._session.id, problem)
            if opened is not None and await self._still_stands(opened):
                self._watch.dialogs.ask_again(decision)
        finally:
            if opened is not None:
                opened.being_answered = False
            self._gate.end(drop=why_not is None and last)
            self._came_out(decision, why_not)

    async def _still_stands(self, opened: OpenDialog) -> bool:
        """Whether a dialog whose answer failed goes on standing there: it may be about to go, by another hand."""
        watch = self._watch

        def going() -> bool:
            return watch.dialogs.open is not opened or opened.missing_since is not None

        watch.look()
        if await watch.until(going, VANISHING):
            await watch.until(lambda: watch.dialogs.open is not opened or opened.missing_since is None, VANISHING)
        return watch.dialogs.open is opened and opened.missing_since is None

    async def _decline(self, decision: str) -> None:
        """Nobody answered in time: that is never consent."""
        opened = self._watch.dialogs.open
        if opened is not None and opened.decision == decision:
            async with self._gate.delivery():
                self._terminal.deliver_keys(("escape",))

    # Set-up dialogs

    def dialog_opened(self, opened: OpenDialog) -> None:
        """Answer a dialog that needs no human, a moment after it was announced."""
        # Later on, what looks like a start-up dialog may be a picture that somebody draws.
        if self._groom != "auto" or opened.asked_again or self._watch.was_ready:
            return
        if opened.shown is not None and groomed_row(opened.shown) is not None:
            asyncio.get_running_loop().call_later(self._settings.groom_delay, self._groom_now, opened)

    def _groom_now(self, opened: OpenDialog) -> None:
        if self._watch.dialogs.open is not opened or opened.shown is None:
            return
        row = groomed_row(opened.shown)
        if row is not None:
            answer = Answer(option=row + 1) if opened.shown.rows else Answer(accept=True)
            self._session.tasks.start(self._answer_as_groom(opened.decision, answer), f"groom:{opened.decision}")

    async def _answer_as_groom(self, decision: str, answer: Answer) -> None:
        try:
            async with self.answering(decision, answer):
                self._session.settle_decision(decision, answer=answer, by="groom", via="groom")
        except InputRefused as problem:
            log.info("session %s: a set-up dialog is left to the person who types: %s", self._session.id, problem)

"""One turn as the wire shows it: its chunks as they come, and what is said of it once it is over."""

from __future__ import annotations

from dragoman.hub.events import AnyFact, MessageAdded, Outcome, Problem, StepStarted

from . import messages as wire
from .chunks import TurnChunks
from .errors import failure
from .metadata import thought_kind


class TurnView:
    """Fed every fact of its turn, in order, from ``turn.started`` on; so its chunks have the same numbers for all."""

    def __init__(self, session: str, turn: str, *, provider: str, model: str) -> None:
        self.turn = turn
        self._session = session
        self._chunks = TurnChunks(session, turn, provider=provider, model=model)
        self._in_steps = False
        self._said: list[str] = []
        self._thought: list[str] = []
        self._over = False

    def runs_on(self, provider: str, model: str) -> None:
        """What the session has now; what a step said of itself stays."""
        self._chunks.runs_on(provider, model)

    def project(self, fact: AnyFact) -> list[wire.ServerMessage]:
        """What this fact of the turn says by itself."""
        if isinstance(fact, StepStarted):
            self._in_steps = True
            self._said, self._thought = [], []
        return [*self._chunks.project(fact)]

    def message(self, fact: MessageAdded) -> list[wire.ServerMessage]:
        """A whole message. What a step says is held, since only the last step's is told; others are told at once."""
        if not self._in_steps:
            return told(self._session, fact, provider=self._chunks.provider)
        if fact.role == "assistant":
            self._said.append(fact.text)
        elif fact.role == "reasoning":
            self._thought.append(fact.text)
        return []

    def end(self, outcome: Outcome, problem: Problem | None) -> list[wire.ServerMessage]:
        """What was held until the turn's outcome is known; nothing the second time."""
        if self._over:
            return []
        self._over = True
        ended: list[wire.ServerMessage] = [*self._chunks.end(outcome, problem)]
        if outcome == "failed":
            ended.append(failure(self._session, problem))
        elif outcome == "completed":
            ended += _thoughts(self._session, "".join(self._thought), self._chunks.provider)
            ended += _answer(self._session, "".join(self._said))
        return ended


def told(session: str, fact: MessageAdded, *, provider: str | None) -> list[wire.ServerMessage]:
    """``reasoning`` or ``assistant_message``; nothing when it is blank."""
    if fact.role == "reasoning":
        return _thoughts(session, fact.text, provider)
    return _answer(session, fact.text) if fact.role == "assistant" else []


def _thoughts(session: str, text: str, provider: str | None) -> list[wire.ServerMessage]:
    kind = thought_kind(provider)
    return [wire.Reasoning(session_id=session, kind=kind, text=text.strip())] if text.strip() else []


def _answer(session: str, text: str) -> list[wire.ServerMessage]:
    return [wire.AssistantMessage(session_id=session, text=text.strip())] if text.strip() else []

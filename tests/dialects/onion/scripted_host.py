"""The agent that the original's recordings were made with, rebuilt: a model that follows words of its prompt, and nine
tools. It reports through the hub's own facts, as our native agent does.

==================================  =================================================================================
prompt                              what the model does
==================================  =================================================================================
has ``boom``                        fails (``llm exploded``); ``slowboom``: after one ``slow`` of a second
``slow X``                          calls ``slow`` for X seconds, three times, one after the other
``tool please``                     calls ``search``
``two tools one fails``             calls ``search`` and ``fail`` in one answer
``missing tool``                    calls a tool that is not there
``bash2...``, ``bash ...``          calls ``bash`` twice in one answer; once
``write ...``                       calls ``write``
``ask ...``                         calls ``ask_user``
``plan it``                         enters plan mode, writes a plan, tries ``bash``, presents the plan
``compact now``                     calls ``search`` five times; before the fifth its context is shortened
anything else, and after all that   says how many user messages and tool results it sees, and how the last ones go
==================================  =================================================================================

A ``Stage`` decides when a model call begins and when ``slow`` returns, so a test need not sleep.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext

from dragoman.hub.errors import InvalidRequest, Unsupported
from dragoman.hub.events import (
    Answer,
    DecisionResolved,
    DecisionRevised,
    Json,
    PromptSubmitted,
)
from dragoman.hub.permissions import widening
from dragoman.hub.ports import Driver, Hooks, Terminal
from dragoman.hub.session import Session
from dragoman.hub.standing import Executor
from dragoman.hub.turns import TurnContext

from .scripted_stage import Stage, Ways
from .scripted_turn import TOOLS, Run
from .scripted_words import THOUGHT

KIND = "fake-host"


class FakeHostFactory:
    """Makes fake hosts, all on one stage. ``folder`` is the one that a written plan is said to lie in.

    With ``thinks`` the model says what it means to do before it does anything, and what it makes of each result.
    """

    kind = KIND
    elsewhere = False

    def __init__(self, stage: Stage | None = None, *, folder: str = "/srv/agent", thinks: bool = False) -> None:
        self.ways = Ways(stage or Stage(), folder, thinks)

    def validate(self, agent: str, cwd: str, options: dict[str, object]) -> dict[str, object]:
        if options:
            raise InvalidRequest(f"a fake host takes no options, got {', '.join(sorted(options))}")
        return {}

    def check_settings(self, changes: Mapping[str, Json]) -> None:
        """None has a meaning here but the mode."""

    def widens(self, before: Mapping[str, Json], changes: Mapping[str, Json]) -> bool:
        return widening(changes)

    def adopt(self, session: str, options: dict[str, object]) -> None:
        """There is nothing to keep."""

    def make(self, session: Session) -> FakeHost:
        return FakeHost(session, self)

    async def sweep(self, kept: Collection[str]) -> Collection[str]:
        """Nothing lies beside the log."""
        return ()

    async def recover(self, session: Session, lost: Executor | None) -> None:
        """Nothing outlives the server."""

    def dropped(self, session: str) -> None:
        """Nothing is kept beside the log."""


class FakeHost:
    """See the module."""

    terminal: Terminal | None = None
    driver: Driver | None = None
    hooks: Hooks | None = None
    own_tools: Collection[str] = TOOLS
    offered_tools: Collection[str] = TOOLS
    holds = False

    def __init__(self, session: Session, factory: FakeHostFactory) -> None:
        self._session = session
        self._factory = factory
        self._messages = 0
        """How many there were when the turn began, as the original counts them."""

    async def start(self) -> None:
        """It is always ready."""

    def check(self, prompt: PromptSubmitted) -> None:
        """It takes every prompt."""

    def progressed(self, revision: DecisionRevised) -> None:
        """It asks one thing at a time."""

    def answering(self, decision: str, answer: Answer) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def resolved(self, outcome: DecisionResolved, answer: Answer | None) -> None:
        """Only its own turns open decisions, and those wait themselves."""

    async def compact(self) -> None:
        raise Unsupported("a fake host shortens its context only when told to in a prompt")

    async def close(self, budget: float) -> None:
        """Nothing to end."""

    async def shows_pictures(self) -> bool:
        """Its model takes what is not text, too; it says nothing of it."""
        return True

    async def run_turn(self, turn: TurnContext) -> str | None:
        run = Run(turn, self._factory.ways, self._messages)
        try:
            return await run.result()
        finally:
            self._messages += run.messages


__all__ = ["KIND", "THOUGHT", "TOOLS", "FakeHost", "FakeHostFactory", "Stage"]

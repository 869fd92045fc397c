"""An agent that somebody started elsewhere, as far as its hooks and its session log tell of it."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager, nullcontext

from dragoman.hub.errors import InvalidRequest, Unsupported
from dragoman.hub.events import Answer, DecisionResolved, DecisionRevised, PromptSubmitted
from dragoman.hub.ports import Driver, Hooks, Terminal
from dragoman.hub.session import Session
from dragoman.hub.turns import TurnContext

from .settings import HookedSettings

NO_TERMINAL = "External session has no terminal info"
"""Why it takes no prompt; in the words of the bridge that clients know."""


class HookedAgent:
    """Implements the hub's ``Agent``. It is never started here, and lives on when the server stops."""

    terminal: Terminal | None = None
    driver: Driver | None = None
    hooks: Hooks | None = None
    own_tools: Collection[str] = ()
    offered_tools: Collection[str] = ()
    holds = False

    def __init__(self, session: Session, settings: HookedSettings) -> None:
        self._session = session
        self._settings = settings

    async def recover(self) -> None:
        """After a lost server: see whether it lives, and go on from what the log says."""

    async def start(self) -> None:
        raise InvalidRequest("it was started elsewhere")

    def check(self, prompt: PromptSubmitted) -> None:  # noqa: ARG002
        raise Unsupported(NO_TERMINAL)

    async def run_turn(self, turn: TurnContext) -> str | None:  # noqa: ARG002
        raise Unsupported(NO_TERMINAL)

    def answering(self, decision: str, answer: Answer) -> AbstractAsyncContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def resolved(self, outcome: DecisionResolved, answer: Answer | None) -> None:
        """An outcome is durable: the hook that waits for it may print it."""

    def progressed(self, revision: DecisionRevised) -> None:
        """Dialogs of several questions are answered where the agent runs."""

    async def compact(self) -> None:
        raise Unsupported("the agent keeps its own context")

    async def close(self, budget: float) -> None:
        """At a server's stop the agent lives on, and so does its log; when its session is closed that ends here."""

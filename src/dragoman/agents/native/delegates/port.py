"""The delegate port: a program that runs a whole turn with tools of its own (``claude-code``, ``codex-cli``).

A delegate reports what its program does as facts, in the same order as a native turn does: steps, parts, messages,
calls with executor ``agent``, usage. What the program asks becomes a decision. Its own conversation goes on from turn
to turn by the id that it gave it, which the log keeps (``step.ended.provider_metadata["agent_session"]``).
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from dragoman.agents.native.calls import Place
from dragoman.agents.native.modes import Mode
from dragoman.agents.native.permits import Permits
from dragoman.hub.events import Json
from dragoman.hub.turns import TurnContext

from .hooks import DelegateHooks


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One round of a turn that a delegate is given.

    ``text`` is what the person said, before it whatever the program does not know of the conversation yet.
    ``agent_session`` is the program's own conversation to go on with, None to begin one; ``remembered`` is all that the
    last ``step.ended.provider_metadata`` of that conversation said. ``step`` is the number of the first step that it
    may record, ``calls`` the ids that calls of the session had before: an id means one call in the whole log. ``key``
    is the provider's API key, where one is to be used in place of the program's own sign-in. ``hooks`` is to be told
    the program's name for its conversation, and has what its environment needs.
    """

    turn: TurnContext
    place: Place
    permits: Permits
    model: str
    mode: Mode
    text: str
    step: int
    agent_session: str | None = None
    remembered: dict[str, Json] = {}
    calls: frozenset[str] = frozenset()
    instructions: str | None = None
    key: str | None = None
    hooks: DelegateHooks = msgspec.field(default_factory=DelegateHooks)

    def __repr__(self) -> str:
        return f"<round of turn {self.turn.turn} from step {self.step} on>"  # not the key, wherever it is shown


class ConversationLost(Exception):
    """The program no longer has the conversation it was to go on with. Raised before anything of the round was
    recorded; the round is run again as the beginning of a new one, with what was said so far."""


class Report(msgspec.Struct, frozen=True):
    """How a round came out: the last answer's text, and the number of the last step that was recorded."""

    text: str | None
    step: int


class Delegate(Protocol):
    """One program. Stateless: a process lives as long as the round that needs it, and is ended with it."""

    name: str
    """The provider's id: ``claude-code``, ``codex-cli``."""

    async def run(self, assignment: Assignment) -> Report:
        """Run one round to its end. Raises ``ProviderFailed`` with the program's own words, ``TurnFailed``,
        ``ConversationLost``.

        Prompts that come in to steer reach the program where it can take them; what it did not take is left waiting.
        When cancelled it breaks the program off and ends every process of it before the cancellation propagates.
        """

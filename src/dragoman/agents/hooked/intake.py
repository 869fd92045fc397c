"""What takes the hooks of agents that run elsewhere, and what is read in their session logs: each goes to its session.

A post of a session that is in memory is taken in one step, without a task and without a wait but for the disk.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.agents.common.observation import Observation
from dragoman.hub.clock import Clock
from dragoman.hub.permissions import EVERYTHING, Principal
from dragoman.hub.ports import HookChannel, HookPost
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session

from .factory import HookedFactory
from .settings import HookedSettings

OWNER = Principal("hooks", EVERYTHING)
"""Who owns the sessions that hooks make."""

TranscriptNamed = Callable[[str, str, str, HookChannel], None]
"""Told of each session log that a post names: agent, agent's session id, path, and how the post came. Once for each
path of a session; must return at once."""


class Intake:
    """Implements the hub's ``HookIntake``. Open it once the registry is open, close it before that is closed."""

    def __init__(
        self,
        registry: Registry,
        factory: HookedFactory,
        settings: HookedSettings | None = None,
        clock: Clock | None = None,
        *,
        transcript_named: TranscriptNamed | None = None,
    ) -> None:
        self._registry = registry
        self._factory = factory
        self._settings = settings or factory.settings
        self._clock = clock or registry.clock
        self.transcript_named = transcript_named

    async def open(self) -> None:
        """Know the sessions that there are."""

    async def close(self) -> None:
        """Take nothing more: posts that wait are refused, and their agents go on."""

    def session_of(self, agent: str, agent_session: str) -> str | None:
        """The id of the hooked session that this agent's session is; None while there is none."""

    def accept(self, post: HookPost) -> tuple[Session, int] | None:
        """Take a post of a session that is in memory: that session, and the seq to wait for.

        None for all else: what says nothing, and what ``take`` must look up, wait for or make.
        """

    async def take(self, post: HookPost) -> None:
        """See the port."""

    async def ask(self, post: HookPost) -> str:
        """See the port."""
        return ""

    async def observed(
        self,
        agent: str,
        agent_session: str,
        observation: Observation,
        *,
        cwd: str | None = None,
        path: str | None = None,
        create: bool = False,
    ) -> bool:
        """Take what was read in a session log; whether it is of a session of ours.

        ``create`` makes one for it in the folder ``cwd`` where there is none; ``path`` is the log's. Returns once it is
        recorded, not once it is durable. Raises ``LimitReached`` and ``StorageUnavailable``.
        """
        return False

"""Makes the agents of sessions that exist through hooks only."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import Json
from dragoman.hub.permissions import widening
from dragoman.hub.session import Session
from dragoman.hub.standing import Executor

from .agent import HookedAgent
from .driven import HOOKED
from .forms import AGENT_CHARS, NAME_CHARS
from .recording import PostedIds
from .settings import HookedSettings


class HookedFactory:
    """Makes hooked agents. Their one option, ``agent_session``, is the agent's own name for its session."""

    kind = HOOKED
    elsewhere = True

    def __init__(self, settings: HookedSettings | None = None) -> None:
        self.settings = settings or HookedSettings()
        self._posted = PostedIds()

    def validate(self, agent: str, cwd: str, options: dict[str, object]) -> dict[str, object]:
        """Their folder may be on another machine, so only its form is checked. ``vouched``: the person's own agent has
        said that it works there."""
        named, vouched = options.get("agent_session"), options.get("vouched", False)
        if options.keys() - {"vouched"} != {"agent_session"} or not isinstance(vouched, bool):
            raise InvalidRequest("a hooked session takes agent_session, and vouched, which is true or false")
        if not isinstance(named, str) or not 0 < len(named) <= NAME_CHARS:
            raise InvalidRequest(f"agent_session has 1 to {NAME_CHARS} characters")
        if not agent or len(agent) > AGENT_CHARS:
            raise InvalidRequest(f"an agent's name has 1 to {AGENT_CHARS} characters")
        if not cwd.startswith("/") or "\0" in cwd:
            raise InvalidRequest(f"{cwd[:200]!r} is not an absolute path")
        return {"agent_session": named, **({"vouched": True} if vouched else {})}

    def check_settings(self, changes: Mapping[str, Json]) -> None:
        """None has a meaning here."""

    def widens(self, before: Mapping[str, Json], changes: Mapping[str, Json]) -> bool:  # noqa: ARG002
        return widening(changes)

    def adopt(self, session: str, options: dict[str, object]) -> None:
        """There is nothing to keep."""

    def make(self, session: Session) -> HookedAgent:
        return HookedAgent(session, self.settings, self._posted)

    async def sweep(self, kept: Collection[str]) -> Collection[str]:  # noqa: ARG002
        """Nothing lies beside the log, and what runs is not ours to end."""
        return ()

    async def recover(self, session: Session, lost: Executor | None) -> None:  # noqa: ARG002
        """The agent lived on without us: see what became of it, and go on with it where it is alive."""
        agent = session.ensure_agent()
        assert isinstance(agent, HookedAgent)
        await agent.recover()

    def dropped(self, session: str) -> None:
        """Nothing is kept beside the log."""

"""What an agent's hooks are told: whether it may stop, and what its session is begun with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.hub.events import HookAnswered
from dragoman.hub.ports import StopVerdict
from dragoman.hub.session import Session


class HookAnswers:
    """Answers for one session, from its settings and its log."""

    def __init__(self, session: Session, config: Mapping[str, Any]) -> None:
        self._session = session
        self._config = config

    def stop(self, payload: Mapping[str, Any]) -> tuple[StopVerdict, HookAnswered]:
        """The verdict, and the fact to be recorded before it is given."""
        state = self._session.state
        verdict = StopVerdict(type="allowed", last_message=state.status.last_message)
        active = payload.get("stop_hook_active") is True
        return verdict, HookAnswered(hook="stop", verdict=verdict.type, stop_hook_active=active)

    def start(self, payload: Mapping[str, Any]) -> tuple[str, HookAnswered]:
        """The script to inject, and the fact."""
        source, agent_session = payload.get("source"), payload.get("session_id")
        return "", HookAnswered(
            hook="start",
            source=source if isinstance(source, str) else "unknown",
            agent_session=agent_session if isinstance(agent_session, str) else None,
        )

    def stop_reply(self, agent: str, verdict: StopVerdict) -> str:
        """What the agent's stop hook prints: nothing when it may stop."""
        if verdict.type != "blocked":
            return ""
        if agent == "gemini":
            return msgspec.json.encode({"continue": True}).decode()
        return msgspec.json.encode({"decision": "block", "reason": verdict.reason}).decode()

"""What an agent's hooks are told: whether it may stop, and what its session is begun with."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.agents.terminal.hooks import start_script, stop_gate
from dragoman.hub.hook_config import start_config, stop_config
from dragoman.hub.ports import StopVerdict
from dragoman.hub.session import Session
from dragoman.hub.standing import AgentStatus

SEND = f"{shlex.quote(sys.executable)} -m dragoman send"
"""How an agent says that its work is done: by this very installation, whatever its PATH holds."""


class HookAnswers:
    """Answers for one session, from its settings and its log."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def stop(self, payload: Mapping[str, Any], status: AgentStatus) -> stop_gate.Stop:
        """The verdict on an agent whose state is ``status``, and the fact to be recorded before it is given."""
        state = self._session.state
        failed = status.state == "error"
        agent_session = payload.get("session_id")
        return stop_gate.decide(
            stop_config(state.settings),
            stop_hook_active=payload.get("stop_hook_active") is True,
            error_category=status.error_category if failed else None,
            error_detail=status.error_detail if failed else None,
            pending=state.stop_signal,
            last_message=state.status.last_message,
            send_command=SEND,
            agent_session=agent_session if isinstance(agent_session, str) else None,
        )

    def start(self, payload: Mapping[str, Any]) -> start_script.Start:
        """The script to inject, and the fact."""
        return start_script.begin(start_config(self._session.state.settings), payload)


def stop_reply(agent: str, verdict: StopVerdict) -> str:
    """What the agent's stop hook prints: nothing when it may stop."""
    if verdict.type != "blocked":
        return ""
    answer: dict[str, object] = {"decision": "block", "reason": verdict.reason}
    if agent == "gemini":
        answer["continue"] = True
    return msgspec.json.encode(answer).decode()

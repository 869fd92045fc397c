"""The lines that tell of tools as they begin and end (seed: ``log``; spec §4.6)."""

from __future__ import annotations

from dragoman.hub.events import ToolCalled, ToolEnded

from .tool_lines import called, ended

_CALLS = 1000
"""Calls whose end has not come: more are not remembered, and their ends say less."""


class ToolTalk:
    """Fed every call and every end of one, in order; remembers what is still open."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolCalled] = {}

    def called(self, fact: ToolCalled) -> str | None:
        """The line of a call; None where none is said."""
        if len(self._calls) < _CALLS:
            self._calls[fact.call] = fact
        return called(fact, self._subagent(fact))

    def ended(self, fact: ToolEnded) -> str | None:
        """The line of its end; None where none is said."""
        call = self._calls.pop(fact.call, None)
        return ended(fact, call, self._subagent(call))

    def _subagent(self, call: ToolCalled | None) -> str | None:
        """The kind of sub-agent that made this call; None for the session's own agent."""
        if call is None or call.parent is None:
            return None
        parent = self._calls.get(call.parent)
        given = parent.input if parent is not None else None
        kind = given.get("agentType", given.get("subagent_type")) if isinstance(given, dict) else None
        return kind if isinstance(kind, str) else "general"

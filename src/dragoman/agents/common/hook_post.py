"""One hook's payload, with what the hooks of all agents have in common."""

from __future__ import annotations

from typing import Any, Literal

from dragoman.hub.events import AnyFact, Json, Origin

from .fields import millis_of, text_of
from .observation import Dialog, Observation, Sighting, asked, seen

UNTIMED = -1
"""When a hook ran, where nobody can know: what its payload says of that is not to be believed."""

ID_CHARS = 200
"""Length of a poster's own id for what it posts; a longer one is none."""


class Post:
    """``event`` is the hook's name as it came. ``at`` is when it ran, where somebody knows that better than it says.

    ``source`` says how it came: of two that tell of the same thing each is believed to tell it once.
    """

    def __init__(
        self, agent: str, event: str, payload: dict[str, Any], at: int | None = None, source: str = "hook"
    ) -> None:
        self.agent = agent
        self.source = source
        self.event = event
        self.payload = payload
        self.session = text_of(payload, "session_id", "thread_id", "sessionId")
        self.subagent = text_of(payload, "agent_id")
        self.at = millis_of(payload) if at is None else None if at == UNTIMED else at
        self.tool = text_of(payload, "tool_name", "tool")
        self.call = text_of(payload, "tool_use_id", "call_id") or ""
        self.input: Json = payload.get("tool_input")

    def origin(self, *, only: bool = True) -> Origin:
        """``only``: the hook is this one fact, so that the poster's id is the fact's."""
        payload = self.payload
        named = text_of(payload, "id") if only else None
        return Origin(
            source=self.source,
            id=named if named is None or len(named) <= ID_CHARS else None,
            at=self.at,
            agent_session=self.session,
            subagent=self.subagent,
            cwd=text_of(payload, "cwd"),
        )

    def says(
        self,
        *facts: AnyFact,
        state: Literal["working", "idle"] | None = None,
        dialog: Dialog | None = None,
        error: str | None = None,
        prompt: str | None = None,
        interrupted: bool = False,
        compacted: bool = False,
    ) -> Observation:
        sighting: Sighting | None = None
        if dialog is not None:
            sighting = asked("hook", dialog)
        elif self.subagent is not None:
            sighting = None
        elif error is not None:
            sighting = seen("hook", "error", error=error)
        elif state is not None:
            sighting = seen("hook", state)
        return Observation(
            facts=facts,
            sighting=sighting,
            prompt=prompt,
            interrupted=interrupted,
            compacted=compacted,
            agent_session=self.session,
            transcript=text_of(self.payload, "transcript_path"),
            at=self.at,
        )

"""What a person is asked, as clients of the bridge are shown it (``cin:permission_prompt``)."""

from __future__ import annotations

from dragoman.hub.events import DecisionOpened

from . import messages as wire
from .answers import choices_of, is_elsewhere

CONTEXT_CHARACTERS = 4000
"""Of what is asked about."""

_NAMES = {"plan": "ExitPlanMode", "question": "AskUserQuestion"}
"""The tool that asks, where nobody said."""


def prompt_of(session: str, opened: DecisionOpened) -> wire.PermissionPrompt:
    """The decision on the wire. One with ``detail["elsewhere"]`` is answered where its agent runs: it has no rows."""
    return wire.PermissionPrompt(
        session_id=session,
        tool=opened.tool or _NAMES.get(opened.kind, "Unknown"),
        context=opened.text[:CONTEXT_CHARACTERS],
        options=() if is_elsewhere(opened) else choices_of(opened),
        decision_id=opened.decision,
    )

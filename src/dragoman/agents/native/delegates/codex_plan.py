"""A plan that Codex puts forward at the end of a turn in its plan mode, and what is made of it."""

from __future__ import annotations

from dragoman.agents.native.plans import mode_after, plan_decision
from dragoman.hub.decisions import DecisionClosed
from dragoman.hub.events import SettingsChanged
from dragoman.hub.turns import TurnContext


async def present(turn: TurnContext, plan: str) -> str | None:
    """Put the plan before a person: what Codex is told then, None when the turn is over with it.

    An accepted plan ends plan mode.
    """
    opened = plan_decision(turn.session.ids(), plan, turn=turn.turn)
    try:
        answer = await turn.decide(opened)
    except DecisionClosed:
        return None
    mode = mode_after(answer, opened)
    if mode is None:
        return answer.text or None
    turn.record(SettingsChanged(changes={"mode": mode}))
    return f"The plan is accepted. Implement it. {answer.text or ''}".strip()

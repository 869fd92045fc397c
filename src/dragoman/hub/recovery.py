"""What must be said of a session whose server was lost: nothing runs without a live executor (invariant 6)."""

from __future__ import annotations

from .events import AgentExited, AnyFact, DecisionResolved, Problem, StateChanged, ToolEnded, TurnEnded
from .state import SessionState
from .turns import settle_turn

SERVER_LOST = "server-lost"
_LOST = Problem(code="interrupted", message="the server was lost")


def facts_after_loss(state: SessionState) -> list[AnyFact]:
    """The facts that close what the lost server left open, in the order a live server would have used."""
    facts = settle_turn(state, reason="interrupted")
    facts += [
        ToolEnded(call=call.call, tool=call.tool, status="interrupted", turn=call.turn, problem=_LOST)
        for call in state.calls.values()
        if state.turn is None or call.turn != state.turn.turn
    ]
    told = {fact.decision for fact in facts if isinstance(fact, DecisionResolved)}
    facts += [
        DecisionResolved(decision=decision, outcome="cancelled", reason=SERVER_LOST)
        for decision in state.decisions
        if decision not in told
    ]
    if state.turn is not None:
        facts.append(TurnEnded(turn=state.turn.turn, outcome="interrupted"))
    if state.executor is not None:
        facts.append(AgentExited(cause=SERVER_LOST, tape_offset=state.tape_reserved))
        facts.append(StateChanged(prev=state.status.state, next="exited", cause="process:server-lost"))
    return facts

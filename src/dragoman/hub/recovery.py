"""What must be said of a session whose server was lost: nothing runs without a live executor (invariant 6)."""

from __future__ import annotations

from .events import AgentExited, AnyFact, DecisionResolved, StateChanged, ToolEnded, TurnEnded
from .state import SessionState
from .turns import dangling_calls, settle_turn

SERVER_LOST = "server-lost"


def facts_after_loss(state: SessionState) -> list[AnyFact]:
    """The facts that close what the lost server left open, in the order a live server would have used.

    How long it all took is known up to the last thing that was written down.
    """
    now = state.changed_at
    facts = settle_turn(state, reason="interrupted", now=now)
    ended = {fact.call for fact in facts if isinstance(fact, ToolEnded)}
    facts += [end for end in dangling_calls(state, "the server was lost", now=now) if end.call not in ended]
    told = {fact.decision for fact in facts if isinstance(fact, DecisionResolved)}
    facts += [
        DecisionResolved(decision=decision, outcome="cancelled", reason=SERVER_LOST)
        for decision in state.decisions
        if decision not in told
    ]
    if state.turn is not None:
        lasted = max(0, now - state.turn.started_at)
        turn = state.turn
        outcome = turn.outcome or "interrupted"
        facts.append(TurnEnded(turn=turn.turn, outcome=outcome, problem=turn.problem, duration_ms=lasted))
    if state.executor is not None:
        facts.append(AgentExited(cause=SERVER_LOST, tape_offset=state.tape_reserved))
        facts.append(StateChanged(prev=state.status.state, next="exited", cause="process:server-lost"))
    return facts

"""Spans: what sessions did, as OpenTelemetry has it. Pure; ids follow from the log's: one log, the same spans.

Names and attributes are those of OpenTelemetry's conventions for generative AI where there are some. Beside them, and
in the words of agent-coworker, each turn has a span of no length when it begins (``agent.turn.started``) and one when
it ends (``agent.turn.completed``, ``.failed``, ``.cancelled``), which leave at once and not only with the whole turn.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

import msgspec

from dragoman.hub.clock import iso_time
from dragoman.hub.events import Problem

from .activity import (
    Activity,
    DecisionDone,
    Model,
    ModelCallDone,
    ToolDone,
    TurnBegan,
    TurnDone,
    Where,
)

Value = str | int | float | bool | tuple[str, ...]
Attributes = dict[str, Value]

LONGEST = 200
"""Characters of an attribute that somebody else chose."""

LONGEST_MESSAGE = 2000
"""Characters of an error message, where details are wanted."""

PROVIDERS = {
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "claude": "anthropic",
    "codex": "openai",
    "gemini": "gcp.gemini",
}
"""Our names of providers, and of the agents that have one of their own, where the conventions have another."""

_ENDS = {"completed": "agent.turn.completed", "cancelled": "agent.turn.cancelled"}
"""Outcomes of turns that are no failure, in agent-coworker's words."""

_TOKENS = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
}


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span. ``trace`` has 128 bits, ``span`` and ``parent`` 64; times are milliseconds since 1970.

    ``ok`` is None where there is nothing to say about success.
    """

    trace: int
    span: int
    parent: int | None
    name: str
    kind: Literal["internal", "client"] = "internal"
    began: int
    ended: int
    attributes: Attributes
    ok: bool | None = None
    message: str | None = None


class SpanMaker:
    """Makes spans. ``details`` adds error messages and folders, which may quote prompts and results."""

    def __init__(self, *, details: bool) -> None:
        self._details = details

    def spans(self, activity: Activity) -> list[Span]:
        """The spans of one activity."""
        match activity:
            case TurnBegan():
                return [self._began(activity)]
            case TurnDone():
                return [self._ended(activity), self._turn(activity)]
            case ModelCallDone():
                return [self._model_call(activity)]
            case ToolDone():
                return [self._tool(activity)]
            case DecisionDone():
                return [self._decision(activity)]
            case _:
                return []

    def _began(self, it: TurnBegan) -> Span:
        return Span(
            trace=trace_of(it.where.session, it.turn),
            span=_span_id(it.where.session, it.turn, "started"),
            parent=turn_span(it.where.session, it.turn),
            name="agent.turn.started",
            began=it.began,
            ended=it.began,
            attributes=_coworker(it.where, it.model, it.began),
            ok=True,
        )

    def _ended(self, it: TurnDone) -> Span:
        attributes = _coworker(it.where, it.model, it.ended) | {"duration.ms": it.ended - it.began}
        ok = it.outcome in _ENDS
        if not ok:
            attributes["error"] = self._reason(it) or it.outcome
        return Span(
            trace=trace_of(it.where.session, it.turn),
            span=_span_id(it.where.session, it.turn, "ended"),
            parent=turn_span(it.where.session, it.turn),
            name=_ENDS.get(it.outcome, "agent.turn.failed"),
            began=it.ended,
            ended=it.ended,
            attributes=attributes,
            ok=ok,
            message=None if ok else self._reason(it),
        )

    def _turn(self, it: TurnDone) -> Span:
        attributes = _operation(it.where, "invoke_agent") | _answered(it.where, it.model) | _tokens(it.tokens)
        attributes |= {"gen_ai.agent.name": _cut(it.where.agent), "dragoman.turn.id": it.turn}
        attributes |= {"dragoman.turn.outcome": it.outcome, "dragoman.session.kind": it.where.kind}
        if self._details:
            attributes["dragoman.session.cwd"] = it.where.cwd
        failed = it.outcome not in _ENDS
        if failed:
            attributes["error.type"] = _code(it.problem) or it.outcome
        return Span(
            trace=trace_of(it.where.session, it.turn),
            span=turn_span(it.where.session, it.turn),
            parent=None,
            name=f"invoke_agent {_cut(it.where.agent)}",
            began=it.began,
            ended=it.ended,
            attributes=attributes,
            ok=not failed,
            message=self._reason(it) if failed else None,
        )

    def _model_call(self, it: ModelCallDone) -> Span:
        attributes = _operation(it.where, "chat") | _answered(it.where, it.model) | _tokens(it.tokens)
        attributes |= {"dragoman.step": it.step, "gen_ai.response.finish_reasons": (_cut(it.finish),)}
        if it.problem is not None:
            attributes["error.type"] = _cut(it.problem.code)
        return Span(
            trace=trace_of(it.where.session, it.turn),
            span=_span_id(it.where.session, it.turn, f"step {it.step}"),
            parent=turn_span(it.where.session, it.turn),
            name=f"chat {_cut(it.model.model or 'unknown')}",
            kind="client",
            began=it.began,
            ended=it.ended,
            attributes=attributes,
            ok=None if it.problem is None else False,
            message=self._reason(it),
        )

    def _tool(self, it: ToolDone) -> Span:
        attributes = _operation(it.where, "execute_tool") | {
            "gen_ai.tool.name": _cut(it.tool),
            "gen_ai.tool.call.id": _cut(it.call),
            "gen_ai.tool.type": "function",
            "dragoman.tool.executor": it.executor,
            "dragoman.tool.status": it.status,
        }
        failed = it.status != "ok"
        if failed:
            attributes["error.type"] = _code(it.problem) or it.status
        return Span(
            trace=trace_of(it.where.session, it.turn or it.call),
            span=_call_span(it.where.session, it.call),
            parent=_call_span(it.where.session, it.parent) if it.parent else _parent(it.where, it.turn),
            name=f"execute_tool {_cut(it.tool)}",
            began=it.began,
            ended=it.ended,
            attributes=attributes,
            ok=False if failed else None,
            message=self._reason(it) if failed else None,
        )

    def _decision(self, it: DecisionDone) -> Span:
        attributes: Attributes = {
            "gen_ai.conversation.id": it.where.session,
            "dragoman.decision.kind": it.kind,
            "dragoman.decision.outcome": it.outcome,
        }
        if it.call is not None:
            attributes["gen_ai.tool.call.id"] = _cut(it.call)
        return Span(
            trace=trace_of(it.where.session, it.turn or it.decision),
            span=_span_id(it.where.session, it.decision, "decision"),
            parent=_parent(it.where, it.turn),
            name=f"wait_for_decision {it.kind}",
            began=it.began,
            ended=it.ended,
            attributes=attributes,
        )

    def _reason(self, it: TurnDone | ModelCallDone | ToolDone) -> str | None:
        if it.problem is None:
            return None
        return it.problem.message[:LONGEST_MESSAGE] if self._details else _code(it.problem)


def trace_of(session: str, turn: str) -> int:
    """The trace of a turn (or of what happened outside of any)."""
    return _number(16, session, turn)


def turn_span(session: str, turn: str) -> int:
    """The span of a whole turn."""
    return _span_id(session, turn, "turn")


def _call_span(session: str, call: str) -> int:
    return _span_id(session, call, "call")


def _parent(where: Where, turn: str | None) -> int | None:
    return turn_span(where.session, turn) if turn is not None else None


def _span_id(session: str, name: str, what: str) -> int:
    return _number(8, session, name, what)


def _number(size: int, *parts: str) -> int:
    """A number of ``size`` bytes that follows from the parts; never 0, which means none."""
    digest = blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=size).digest()
    return int.from_bytes(digest) or 1


def _coworker(where: Where, model: Model, at: int) -> Attributes:
    """The attributes of agent-coworker's own spans."""
    attributes: Attributes = {"sessionId": where.session, "event.at": iso_time(at)}
    if model.provider is not None:
        attributes["provider"] = _cut(model.provider)
    if model.model is not None:
        attributes["model"] = _cut(model.model)
    return attributes


def _operation(where: Where, name: str) -> Attributes:
    return {"gen_ai.operation.name": name, "gen_ai.conversation.id": where.session}


def _answered(where: Where, model: Model) -> Attributes:
    """Who answered: an agent that drives its own model where nobody else is named."""
    provider = model.provider or where.agent
    attributes: Attributes = {"gen_ai.provider.name": PROVIDERS.get(provider, _cut(provider))}
    if model.model is not None:
        attributes["gen_ai.request.model"] = _cut(model.model)
    return attributes


def _tokens(tokens: dict[str, int]) -> Attributes:
    return {_TOKENS[name]: count for name, count in tokens.items()}


def _code(problem: Problem | None) -> str | None:
    return _cut(problem.code) if problem is not None else None


def _cut(text: str) -> str:
    return text[:LONGEST]

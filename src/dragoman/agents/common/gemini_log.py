"""Gemini CLI's chat file: messages that are written again as they grow, and patches of the whole.

After a cancelled turn the conversation so far is written out anew under new ids, the prompts just as they were first
written. So prompts are not read from here: the hooks that name this file tell them. An answer's copy differs from the
answer in that its content is a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.hub.events import AnyFact, MessageAdded, Origin, Problem, ToolCalled, ToolEnded, UsageReported

from .fields import count_of, dict_of, dicts_of, millis_of, text_of, total
from .observation import Observation, seen

_CANCELLED = "Request cancelled"

_STATUS = {"success": "ok", "cancelled": "denied"}
"""Of a tool call that is over. It is written down once it is."""


def read_gemini_line(record: dict[str, Any]) -> Observation:
    """What a record of the chat says. Never fails."""
    at = millis_of(record)
    kind = record.get("type")
    text = text_of(record, "content")
    if kind == "gemini" and isinstance(record.get("content"), str):
        return Observation(facts=tuple(_answer(record, Origin(source="log", at=at))), at=at)
    if kind == "error":
        return Observation(sighting=seen("log", "error", error=text or "unknown"), at=at)
    if kind == "info" and text is not None and text.startswith(_CANCELLED):
        return Observation(sighting=seen("log", "idle"), interrupted=True, at=at)
    if "sessionId" in record and record.get("kind") in ("main", None):
        return Observation(agent_session=text_of(record, "sessionId"), at=at)
    return Observation(at=at)


def _answer(record: dict[str, Any], origin: Origin) -> Iterator[AnyFact]:
    message = text_of(record, "id")
    if message is None:
        return
    for position, thought in enumerate(dicts_of(record.get("thoughts"))):
        told = ": ".join(part for name in ("subject", "description") if (part := text_of(thought, name)) is not None)
        if told:
            yield MessageAdded(message=f"{message}#{position}", role="reasoning", text=told, origin=origin)
    text = text_of(record, "content")
    if text is not None:
        yield MessageAdded(message=message, role="assistant", text=text, origin=origin)
    for call in dicts_of(record.get("toolCalls")):
        yield from _call(call, origin)
    usage = _usage(record, message, origin)
    if usage is not None:
        yield usage


def _call(call: dict[str, Any], origin: Origin) -> Iterator[AnyFact]:
    named, tool = text_of(call, "id"), text_of(call, "name")
    if named is None or tool is None:
        return
    yield ToolCalled(call=named, tool=tool, input=call.get("args"), executor="agent", origin=origin)
    status = call.get("status")
    if status not in ("success", "cancelled", "error"):
        return
    result = next((dict_of(dict_of(part, "functionResponse"), "response") for part in dicts_of(call.get("result"))), {})
    error = text_of(result, "error")
    code = "denied" if status == "cancelled" else "tool_failed"
    yield ToolEnded(
        call=named,
        tool=tool,
        status=_STATUS.get(status, "error"),  # type: ignore[arg-type]
        input=call.get("args"),
        output=result or None,
        problem=None if status == "success" else Problem(code, error or "the tool failed"),
        origin=origin,
    )


def _usage(record: dict[str, Any], message: str, origin: Origin) -> UsageReported | None:
    tokens = dict_of(record, "tokens")
    if not tokens:
        return None
    thoughts = count_of(tokens, "thoughts")
    return UsageReported(
        message=message,
        model=text_of(record, "model"),
        input_tokens=total(count_of(tokens, "input"), count_of(tokens, "tool")),
        output_tokens=total(count_of(tokens, "output"), thoughts),
        reasoning_tokens=thoughts,
        cached_tokens=count_of(tokens, "cached"),
        conversation_tokens=count_of(tokens, "total"),
        origin=origin,
    )

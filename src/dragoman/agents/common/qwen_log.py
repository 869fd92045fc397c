"""Qwen Code's chat file: Claude's envelope around Gemini's parts."""

from __future__ import annotations

from typing import Any

from dragoman.hub.events import AnyFact, MessageAdded, Origin, Problem, ToolCalled, ToolEnded, UsageReported

from .asking import asks, dialog_about, is_injected
from .fields import count_of, dict_of, dicts_of, joined_text, millis_of, text_of
from .observation import Observation, Sighting, asked, seen

_ENDS = {"success": "ok", "cancelled": "denied"}


def read_qwen_line(record: dict[str, Any]) -> Observation:
    """What a record of the chat says. Never fails."""
    origin = Origin(
        source="log",
        at=millis_of(record),
        agent_session=text_of(record, "sessionId"),
        cwd=text_of(record, "cwd"),
    )
    parts = list(dicts_of(dict_of(record, "message").get("parts")))
    match record.get("type"):
        case "user":
            return _user(record, parts, origin)
        case "assistant":
            return _assistant(record, parts, origin)
        case "tool_result":
            return _tool_result(record, parts, origin)
        case "system":
            return _system(record, origin)
        case _:
            return _says(origin)


def _says(
    origin: Origin,
    *facts: AnyFact,
    sighting: Sighting | None = None,
    prompt: str | None = None,
    interrupted: bool = False,
) -> Observation:
    return Observation(
        facts=facts,
        sighting=sighting,
        prompt=prompt,
        interrupted=interrupted,
        agent_session=origin.agent_session,
        at=origin.at,
    )


def _user(record: dict[str, Any], parts: list[dict[str, Any]], origin: Origin) -> Observation:
    text = joined_text(parts)
    if not text or record.get("isMeta") is True or is_injected(text):
        return _says(origin)
    said = MessageAdded(message=text_of(record, "uuid") or "", role="user", text=text, origin=origin)
    return _says(origin, said, sighting=seen("log", "working"), prompt=text)


def _assistant(record: dict[str, Any], parts: list[dict[str, Any]], origin: Origin) -> Observation:
    message = text_of(record, "uuid") or ""
    facts: list[AnyFact] = []
    sighting: Sighting | None = None
    for position, part in enumerate(parts):
        text, called = text_of(part, "text"), dict_of(part, "functionCall")
        tool = text_of(called, "name")
        if tool is not None:
            call, given = text_of(called, "id") or "", called.get("args")
            facts.append(ToolCalled(call=call, tool=tool, input=given, executor="agent", origin=origin))
            if sighting is None or not sighting.cause.startswith("log:tool"):
                sighting = _used(tool, given, call)
        elif text is not None:
            thought = part.get("thought") is True
            named = f"{message}#{position}" if message else ""
            role = "reasoning" if thought else "assistant"
            facts.append(MessageAdded(message=named, role=role, text=text, origin=origin))  # type: ignore[arg-type]
            if sighting is None or sighting.cause == "log:thinking":
                sighting = seen("log", "working", "log:thinking") if thought else seen("log", "idle")
    usage = _usage(record, message, origin)
    return _says(origin, *facts, *([usage] if usage is not None else []), sighting=sighting)


def _used(tool: str, given: object, call: str) -> Sighting:
    cause = f"log:tool({tool})"
    if asks(tool) is None:
        return seen("log", "working", cause)
    return asked("log", dialog_about(tool, given, call or None), cause)


def _tool_result(record: dict[str, Any], parts: list[dict[str, Any]], origin: Origin) -> Observation:
    about = dict_of(record, "toolCallResult")
    status = text_of(about, "status") or "success"
    facts: list[AnyFact] = []
    for part in parts:
        response = dict_of(part, "functionResponse")
        result = dict_of(response, "response")
        call = text_of(response, "id") or text_of(about, "callId")
        if call is None:
            continue
        code = "denied" if status == "cancelled" else "tool_failed"
        facts.append(
            ToolEnded(
                call=call,
                tool=text_of(response, "name") or "",
                status=_ENDS.get(status, "error"),  # type: ignore[arg-type]
                output=result or None,
                problem=None if status == "success" else Problem(code, text_of(result, "error") or "the tool failed"),
                origin=origin,
            )
        )
    cancelled = status == "cancelled"  # by a person: the turn ends with it
    return _says(origin, *facts, sighting=seen("log", "idle" if cancelled else "working"), interrupted=cancelled)


def _system(record: dict[str, Any], origin: Origin) -> Observation:
    """Telemetry: only that a request failed for good is news. Helpers of the program ask the model for things too."""
    event = dict_of(dict_of(record, "systemPayload"), "uiEvent")
    if event.get("event.name") != "qwen-code.api_error" or text_of(event, "subagent_name") is not None:
        return _says(origin)
    return _says(
        origin, sighting=seen("log", "error", error=text_of(event, "error_message", "error_type") or "unknown")
    )


def _usage(record: dict[str, Any], message: str, origin: Origin) -> UsageReported | None:
    tokens = dict_of(record, "usageMetadata")
    if not tokens or not message:
        return None
    read, everything = count_of(tokens, "promptTokenCount"), count_of(tokens, "totalTokenCount")
    written = count_of(tokens, "candidatesTokenCount")
    if read is not None and everything is not None and everything >= read:
        written = everything - read  # whether candidates hold the thoughts differs with the provider
    return UsageReported(
        message=message,
        model=text_of(record, "model"),
        input_tokens=read,
        output_tokens=written,
        reasoning_tokens=count_of(tokens, "thoughtsTokenCount"),
        cached_tokens=count_of(tokens, "cachedContentTokenCount"),
        conversation_tokens=everything,
        origin=origin,
    )

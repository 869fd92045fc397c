"""Codex' rollout: what it sent and got (``response_item``), and what happened around that (``event_msg``).

Codex runs without hooks of ours, so its log also stands in for them: that a session started and that a turn is over are
facts here. A user's text in ``response_item`` may be the program's own (instructions, the environment), so prompts are
taken from events, and answers from items, which have their ids in every version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.hub.events import (
    Compacted,
    HookAnswered,
    Json,
    LogWritten,
    MessageAdded,
    UsageReported,
)

from . import codex_tools as tools
from .codex_line import Line
from .fields import count_of, dict_of, joined_text, text_of
from .observation import Dialog, Observation, asked, seen

_NOT_A_PROMPT = ("<environment_context", "<user_instructions", "<turn_aborted", "# AGENTS.md instructions")

_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "web_search_call"})
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})


def read_codex_line(record: dict[str, Any]) -> Observation:
    """What a record of the rollout says. Never fails."""
    line = Line(record)
    kind = text_of(line.payload, "type") or ""
    match record.get("type"):
        case "session_meta":
            return _session(line)
        case "event_msg":
            return _EVENTS.get(kind, _nothing)(line)
        case "response_item":
            return _item(line, kind)
        case "token_usage_record":
            return _usage(line, dict_of(line.payload, "usage"), text_of(line.payload, "response_id"))
        case "compacted":
            done = Compacted(compaction="", phase="done", origin=line.origin)
            return line.says(done, compacted=True)
        case _:
            return line.says()


def _nothing(line: Line) -> Observation:
    return line.says()


def _session(line: Line) -> Observation:
    session = text_of(line.payload, "id", "session_id")
    if isinstance(line.payload.get("source"), dict):
        return line.says()  # a sub-agent's own rollout
    origin = msgspec.structs.replace(line.origin, agent_session=session, cwd=text_of(line.payload, "cwd"))
    return line.says(
        HookAnswered(hook="start", source="startup", agent_session=session, origin=origin), agent_session=session
    )


# Turns


def _started(line: Line) -> Observation:
    return line.says(sighting=seen("log", "working"))


def _complete(line: Line) -> Observation:
    stop = HookAnswered(hook="stop", origin=line.origin)
    error = line.payload.get("error")
    if not error:
        return line.says(stop, sighting=seen("log", "idle"))
    return line.says(stop, sighting=seen("log", "error", error=_error_text(error)))


def _aborted(line: Line) -> Observation:
    """Broken off. A turn that was replaced by another goes on in that one."""
    if line.payload.get("reason") == "replaced":
        return line.says()
    return line.says(sighting=seen("log", "idle"), interrupted=True)


def _failed(line: Line) -> Observation:
    return line.says(sighting=seen("log", "error", error=_error_text(line.payload)))


def _retried(line: Line) -> Observation:
    text = text_of(line.payload, "message") or "the connection to the model broke"
    return line.says(LogWritten(line=text, level="warning", origin=line.origin))


def _error_text(error: Json) -> str:
    if not isinstance(error, dict):
        return error if isinstance(error, str) and error.strip() else "unknown"
    info: Json = error.get("codex_error_info")
    code = info if isinstance(info, str) else next(iter(info), None) if isinstance(info, dict) else None
    message = text_of(error, "message")
    if message is None:
        return str(code or "unknown")
    return message if code in (None, "other") else f"{code}: {message}"


# Messages


def _user_message(line: Line) -> Observation:
    return _prompt(line, text_of(line.payload, "message"), "")


def _item_completed(line: Line) -> Observation:
    item = dict_of(line.payload, "item")
    match item.get("type"):
        case "UserMessage":
            return _prompt(line, joined_text(item.get("content")), text_of(item, "id") or "")
        case "CommandExecution":
            return tools.command_ended(line, item, text_of(item, "id"))
        case "FileChange":
            return tools.ended(line, text_of(item, "id"), item, failed=item.get("status") not in ("completed", None))
        case "Plan" if (plan := text_of(item, "text")) is not None:
            # shown for approval once the turn is over
            return line.says(sighting=asked("log", Dialog(kind="plan", text=plan, input={"plan": plan})))
        case _:
            return line.says()


def _prompt(line: Line, text: str | None, message: str) -> Observation:
    if not text or text.lstrip().startswith(_NOT_A_PROMPT):
        return line.says()
    said = MessageAdded(message=message, role="user", text=text, origin=line.origin)
    return line.says(said, sighting=seen("log", "working"), prompt=text)


def _item(line: Line, kind: str) -> Observation:
    if kind in _CALLS:
        return tools.called(line, kind)
    if kind in _OUTPUTS:
        return tools.output(line)
    payload = line.payload
    message = text_of(payload, "id") or ""
    if kind == "message" and payload.get("role") == "assistant":
        text = joined_text(payload.get("content"))
        said = MessageAdded(message=message, role="assistant", text=text, origin=line.origin)
        return line.says(*([said] if text else []))
    if kind == "reasoning":
        text = joined_text(payload.get("summary"))
        thought = MessageAdded(message=message, role="reasoning", text=text, origin=line.origin)
        return line.says(*([thought] if text and message else []), sighting=seen("log", "working", "log:thinking"))
    return line.says()


# Tokens


def _token_count(line: Line) -> Observation:
    """A version that numbers its records has a record of its own for each answer's usage, with the answer's id."""
    info = dict_of(line.payload, "info")
    so_far = count_of(dict_of(info, "total_token_usage"), "total_tokens")
    if "ordinal" in line.record or so_far is None:
        return line.says()
    # it is told again when only the rate limits are news: the same sum is the same answer
    return _usage(line, dict_of(info, "last_token_usage"), f"tokens-{so_far}")


def _usage(line: Line, usage: dict[str, Any], message: str | None) -> Observation:
    if message is None or not usage:
        return line.says()
    return line.says(
        UsageReported(
            message=message,
            input_tokens=count_of(usage, "input_tokens"),
            output_tokens=count_of(usage, "output_tokens"),
            reasoning_tokens=count_of(usage, "reasoning_output_tokens"),
            cached_tokens=count_of(usage, "cached_input_tokens"),
            cache_write_tokens=count_of(usage, "cache_write_input_tokens"),
            conversation_tokens=count_of(usage, "total_tokens"),
            origin=line.origin,
        )
    )


_EVENTS: dict[str, Callable[[Line], Observation]] = {
    "task_started": _started,
    "turn_started": _started,
    "task_complete": _complete,
    "turn_complete": _complete,
    "turn_aborted": _aborted,
    "error": _failed,
    "stream_error": _retried,
    "user_message": _user_message,
    "item_completed": _item_completed,
    "exec_command_end": tools.exec_ended,
    "patch_apply_end": tools.patch_ended,
    "exec_approval_request": tools.exec_approval,
    "apply_patch_approval_request": tools.patch_approval,
    "request_user_input": tools.input_request,
    "token_count": _token_count,
}

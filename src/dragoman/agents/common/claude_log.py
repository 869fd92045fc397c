"""Claude Code's transcript: one record per block of a message, and many that say nothing of what goes on.

Only prompts, answers and tool results are evidence. Everything else (hook summaries, durations, modes, attachments,
file history, requests) may come after the turn is over and must never look like work.
"""

from __future__ import annotations

import re
from typing import Any

from dragoman.hub.events import (
    AnyFact,
    Compacted,
    Json,
    MessageAdded,
    Origin,
    Problem,
    ToolCalled,
    ToolEnded,
    UsageReported,
)

from .asking import asks, dialog_about, is_injected
from .fields import count_of, dict_of, dicts_of, joined_text, millis_of, text_of, total
from .observation import Observation, Sighting, asked, seen

_NOT_A_PROMPT = re.compile(r"\s*<(command-|local-command-|bash-|user-memory-|ide_|system-reminder)")
"""What the program writes into the conversation in the user's name: local commands, shell mode, an editor's notes."""

_BROKEN_OFF = "[Request interrupted by user"
"""How the text begins that stands for Esc: it goes on in more than one way."""

_REJECTED = "User rejected tool use"

_OVER = frozenset({"end_turn", "stop_sequence", "max_tokens", "refusal"})
"""Stop reasons after which the agent waits. Null is none: the block was written before the message's end was known."""


def read_claude_line(record: dict[str, Any]) -> Observation:
    """What a record of the transcript says. Never fails."""
    line = _Line(record)
    match record.get("type"):
        case "user" if record.get("isMeta") is not True:
            return _user(line)
        case "assistant":
            return _assistant(line)
        case "system" if record.get("subtype") == "compact_boundary":
            return _compacted(line)
        case _:
            return line.says()


class _Line:
    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record
        self.message = dict_of(record, "message")
        self.content: Json = self.message.get("content")
        self.aside = record.get("isSidechain") is True
        """A sub-agent's conversation: its tools are worth knowing, its words and states are not the session's."""
        self.at = millis_of(record)
        self.origin = Origin(
            source="log",
            at=self.at,
            agent_session=text_of(record, "sessionId", "session_id"),
            subagent=(text_of(record, "agentId") or "sidechain") if self.aside else None,
            cwd=text_of(record, "cwd"),
        )

    def says(
        self,
        *facts: AnyFact,
        sighting: Sighting | None = None,
        prompt: str | None = None,
        interrupted: bool = False,
        compacted: bool = False,
    ) -> Observation:
        main = not self.aside
        return Observation(
            facts=tuple(fact for fact in facts if main or not isinstance(fact, MessageAdded)),
            sighting=sighting if main else None,
            prompt=prompt if main else None,
            interrupted=interrupted and main,
            compacted=compacted and main,
            agent_session=self.origin.agent_session,
            at=self.at,
        )


# What the user's side says


def _user(line: _Line) -> Observation:
    results = [block for block in dicts_of(line.content) if block.get("type") == "tool_result"]
    if results:
        return _tool_results(line, results)
    record = line.record
    text = _prompt_in(line.content)
    if text.lstrip().startswith(_BROKEN_OFF):
        return line.says(sighting=seen("log", "idle"), interrupted=True)
    if not text or record.get("isCompactSummary") is True or record.get("isVisibleInTranscriptOnly") is True:
        return line.says()
    injected = is_injected(text) or dict_of(record, "origin").get("kind") == "task-notification"
    said = MessageAdded(
        message=text_of(record, "uuid") or "", role="system" if injected else "user", text=text, origin=line.origin
    )
    return line.says(said, sighting=seen("log", "working"), prompt=None if injected else text)


def _prompt_in(content: Json) -> str:
    texts = [text for block in dicts_of(content) if (text := text_of(block, "text")) is not None]
    return "\n".join(text for text in texts if _NOT_A_PROMPT.match(text) is None)


def _tool_results(line: _Line, results: list[dict[str, Any]]) -> Observation:
    rejected = _rejected(line.record)
    # words that came with the rejection are the agent's next input: it goes on
    stopped = rejected and text_of(line.record, "userFeedback") is None
    facts = [_tool_ended(line, block, rejected=rejected) for block in results]
    return line.says(*facts, sighting=seen("log", "idle" if stopped else "working"), interrupted=stopped)


def _rejected(record: dict[str, Any]) -> bool:
    result = record.get("toolUseResult")
    told = isinstance(result, str) and result.startswith(_REJECTED)
    return told or record.get("toolDenialKind") == "user-rejected"


def _tool_ended(line: _Line, block: dict[str, Any], *, rejected: bool) -> ToolEnded:
    content: Json = block.get("content")
    text = joined_text(content)
    details: Json = line.record.get("toolUseResult")
    broken_off = text.startswith(_BROKEN_OFF) or (isinstance(details, dict) and details.get("interrupted") is True)
    failed = block.get("is_error") is True
    return ToolEnded(
        call=text_of(block, "tool_use_id") or "",
        tool="",
        status="denied" if rejected else "interrupted" if broken_off else "error" if failed else "ok",
        output=details if isinstance(details, (dict, list)) else content,
        problem=Problem("denied" if rejected else "tool_failed", text or "the tool failed") if failed else None,
        origin=line.origin,
    )


# What the agent says


def _assistant(line: _Line) -> Observation:
    record = line.record
    error = _error(line)
    if error is not None:
        return line.says(sighting=seen("log", "error", error=error))
    facts: list[AnyFact] = []
    sighting: Sighting | None = None
    for position, block in enumerate(dicts_of(line.content)):
        named = f"{text_of(line.message, 'id') or ''}#{_position(record, position)}"
        match block.get("type"):
            case "tool_use" if (tool := text_of(block, "name")) is not None:
                call, given = text_of(block, "id") or "", block.get("input")
                facts.append(ToolCalled(call=call, tool=tool, input=given, executor="agent", origin=line.origin))
                if sighting is None or sighting.cause in ("log:thinking", "log:working", "log:idle"):
                    sighting = _used(tool, given, call)
            case "thinking":
                if (text := text_of(block, "thinking")) is not None:
                    facts.append(MessageAdded(message=named, role="reasoning", text=text, origin=line.origin))
                sighting = sighting or seen("log", "working", "log:thinking")
            case "text" if (text := text_of(block, "text")) is not None:
                facts.append(MessageAdded(message=named, role="assistant", text=text, origin=line.origin))
                if sighting is None or sighting.cause == "log:thinking":
                    sighting = _after_text(line.message.get("stop_reason"))
            case _:
                pass
    usage = _usage(line)
    return line.says(*facts, *([usage] if usage is not None else []), sighting=sighting)


def _position(record: dict[str, Any], position: int) -> str:
    """Which block of its message this is. Versions that do not count them have one record, and so one id, per block."""
    counted = count_of(record, "apiBlockIndex")
    if counted is not None:
        return str(counted + position)
    return f"{text_of(record, 'uuid') or ''}{position or ''}"


def _used(tool: str, given: Json, call: str) -> Sighting:
    cause = f"log:tool({tool})"
    if asks(tool) is None:
        return seen("log", "working", cause)
    return asked("log", dialog_about(tool, given, call or None), cause)


def _after_text(stop_reason: Json) -> Sighting | None:
    if not isinstance(stop_reason, str):
        return None
    return seen("log", "idle" if stop_reason in _OVER else "working")


def _error(line: _Line) -> str | None:
    """The text of an answer that is none: the API's error, in the assistant's place."""
    record = line.record
    error: Json = record.get("error")
    if record.get("isApiErrorMessage") is not True and not error:
        return None
    code = text_of(record, "error")
    text = joined_text(line.content)
    if code is None or code == "unknown" or code in text:
        return text or code or "unknown"
    return f"{code}: {text}" if text else code


def _usage(line: _Line) -> UsageReported | None:
    usage, message = dict_of(line.message, "usage"), text_of(line.message, "id")
    if not usage or message is None:
        return None
    cached = count_of(usage, "cache_read_input_tokens")
    stored = count_of(usage, "cache_creation_input_tokens")
    read = total(count_of(usage, "input_tokens"), cached, stored)
    written = count_of(usage, "output_tokens")
    return UsageReported(
        message=message,
        model=text_of(line.message, "model"),
        input_tokens=read,
        output_tokens=written,
        reasoning_tokens=count_of(dict_of(usage, "output_tokens_details"), "thinking_tokens"),
        cached_tokens=cached,
        cache_write_tokens=stored,
        conversation_tokens=None if line.aside else total(read, written),
        origin=line.origin,
    )


def _compacted(line: _Line) -> Observation:
    details = dict_of(line.record, "compactMetadata")
    done = Compacted(
        compaction="",
        phase="done",
        reason=text_of(details, "trigger"),
        tokens_before=count_of(details, "preTokens"),
        tokens_after=count_of(details, "postTokens"),
        origin=line.origin,
    )
    return line.says(*(() if line.aside else (done,)), compacted=True)

"""What each message to a windie client carries: a table of payload shapes, from the contract's section of each type.

``faults(type, payload)`` says in a line each what is wrong. Keys that the contract does not show are faults, and so are
nullable keys that are left out, for a client may tell an absent key from a null.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Check = Callable[[Any, str], Iterator[str]]
"""Given a value and its path, what is wrong with it."""


def text(value: Any, at: str) -> Iterator[str]:
    """A string, which may be empty."""
    if not isinstance(value, str):
        yield f"{at}: no text"


def filled(value: Any, at: str) -> Iterator[str]:
    """A string with something in it."""
    if not isinstance(value, str) or not value.strip():
        yield f"{at}: no text, or a blank one"


def flag(value: Any, at: str) -> Iterator[str]:
    """A boolean."""
    if not isinstance(value, bool):
        yield f"{at}: no boolean"


def count(value: Any, at: str) -> Iterator[str]:
    """A whole number that is not negative; JSON's true is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        yield f"{at}: no count"


def seconds(value: Any, at: str) -> Iterator[str]:
    """A duration."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        yield f"{at}: no duration"


def anything(value: Any, at: str) -> Iterator[str]:
    """Whatever JSON allows."""
    yield from ()


def free(value: Any, at: str) -> Iterator[str]:
    """An object with keys of its own."""
    if not isinstance(value, dict):
        yield f"{at}: no object"


def nullable(check: Check) -> Check:
    """That, or null."""

    def checked(value: Any, at: str) -> Iterator[str]:
        if value is not None:
            yield from check(value, at)

    return checked


def one_of(*values: str) -> Check:
    """One of some words."""

    def checked(value: Any, at: str) -> Iterator[str]:
        if value not in values:
            yield f"{at}: {value!r} is none of {', '.join(values)}"

    return checked


def listing(check: Check, *, least: int = 0) -> Check:
    """A list of such values, ``least`` or more of them."""

    def checked(value: Any, at: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield f"{at}: no list"
            return
        if len(value) < least:
            yield f"{at}: fewer than {least}"
        for index, each in enumerate(value):
            yield from check(each, f"{at}[{index}]")

    return checked


def closed(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None, *, more: bool = False) -> Check:
    """An object of these keys; ``more`` allows others, where the contract says so."""
    known = {**required, **(optional or {})}

    def checked(value: Any, at: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{at}: no object"
            return
        for key in required:
            if key not in value:
                yield f"{at}.{key}: not there"
        for key, each in value.items():
            if key in known:
                yield from known[key](each, f"{at}.{key}")
            elif not more:
                yield f"{at}.{key}: not in the contract"

    return checked


def mapping(check: Check) -> Check:
    """An object whose every value is such."""

    def checked(value: Any, at: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{at}: no object"
            return
        for key, each in value.items():
            yield from check(each, f"{at}.{key}")

    return checked


def _pcm(value: Any, at: str) -> Iterator[str]:
    try:
        sound = base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        yield f"{at}: no base64"
        return
    if not sound or len(sound) % 2:
        yield f"{at}: no PCM of 16 bits"


def _rate(value: Any, at: str) -> Iterator[str]:
    if isinstance(value, bool) or value != 22050:
        yield f"{at}: not 22050"


def _redacted(value: Any, at: str) -> Iterator[str]:
    if value != "":
        yield f"{at}: a key is shown"


def _and(first: Check, then: Callable[[Any], Iterator[str]]) -> Check:
    """``then`` looks at a value whose shape is known to be right."""

    def checked(value: Any, at: str) -> Iterator[str]:
        wrong = list(first(value, at))
        yield from wrong or (f"{at}: {each}" for each in then(value))

    return checked


def _arithmetic(tokens: dict[str, Any]) -> Iterator[str]:
    if tokens["visible_output_tokens"] + (tokens["thinking_tokens"] or 0) != tokens["output_tokens_total"]:
        yield "visible and thinking tokens are not output_tokens_total"
    if tokens["prompt_tokens"] + tokens["output_tokens_total"] != tokens["total_tokens"]:
        yield "prompt and output tokens are not total_tokens"
    if (tokens.get("cached_tokens") or 0) > tokens["prompt_tokens"]:
        yield "more cached_tokens than prompt_tokens"
    told = tokens.get("cache_status") in ("hit", "miss") and tokens.get("cache_hit") is not None
    if told and tokens["cache_hit"] != (tokens["cache_status"] == "hit"):
        yield "cache_hit is not what cache_status says"


def _ack(ack: dict[str, Any]) -> Iterator[str]:
    if ack["canceled"] != (ack["status"] == "stopped"):
        yield "canceled is not what status says"


def _remote(tool: dict[str, Any]) -> Iterator[str]:
    if tool["enabled"] and not tool["available"]:
        yield "enabled though not available"
    if tool["available"] != (tool["reason_unavailable"] is None):
        yield "a reason for what is available, or none for what is not"


def _opaque(call: dict[str, Any]) -> Iterator[str]:
    if call["request_id"] == call["metadata"]["tool_call_id"]:
        yield "request_id is the provider's own id"


def _skipped(done: dict[str, Any]) -> Iterator[str]:
    if done.get("skipped_reason") is None:
        return
    if done["removed_messages"] or done["before_tokens"] != done["after_tokens"]:
        yield "skipped, yet something was removed"


_SCHEMA = closed(
    {"type": one_of("function"), "function": closed({"name": filled, "parameters": free}, {"description": text})}
)

_METADATA = closed(
    {
        "has_screenshot": flag,
        "has_memory": flag,
        "original_query": text,
        "context_type": filled,
        "injected_context": text,
        "active_window": filled,
    }
)

_TOKENS = closed(
    {
        "prompt_tokens": count,
        "visible_output_tokens": count,
        "thinking_tokens": nullable(count),
        "output_tokens_total": count,
        "total_tokens": count,
        "conversation_tokens": count,
        "usage_source": one_of("provider", "estimated"),
    },
    {"cached_tokens": nullable(count), "cache_hit": nullable(flag), "cache_status": one_of("hit", "miss", "unknown")},
)

_TOOL_CALL = closed(
    {
        "tool_name": filled,
        "parameters": free,
        "request_id": filled,
        "metadata": closed(
            {"tool_call_id": filled},
            {
                "model_facing_tool_call": closed({"id": filled, "name": filled, "arguments": anything}),
                "skip_local_execution": flag,
                "execution_owner": filled,
            },
        ),
    }
)

_TOOL_OUTPUT = closed(
    {"tool_name": filled, "success": flag},
    {
        "execution_time": nullable(seconds),
        "output": anything,
        "error": nullable(text),
        "screenshot_ref": nullable(filled),
        "screenshot": nullable(filled),
        "metadata": nullable(free),
        "request_id": filled,
    },
)

_SHORTENING = {"reason": filled, "strategy": filled}

_COMPACTED = closed(
    {**_SHORTENING, "before_tokens": count, "after_tokens": count, "removed_messages": count},
    {
        "summary_preview": nullable(text),
        "summary_text": nullable(text),
        "skipped_reason": nullable(filled),
        "replacement_history_entries": anything,
    },
)

_MODEL = closed({"id": filled, "provider": filled, "display_name": filled}, more=True)

_CONFIG = closed(
    {
        "model_mode": one_of("online", "local"),
        "model_provider": text,
        "selected_model_id": text,
        "interaction_mode": one_of("chat", "agent"),
        "speech_mode_enabled": flag,
        "wakeword_enabled": flag,
        "wakeword_stt_enabled": flag,
        "browser_automation_enabled": flag,
        "include_query_screenshot": flag,
        "provider_api_keys": mapping(closed({"enabled": flag, "api_key": _redacted})),
    }
)

_ACCEPTED = closed(
    {"name": filled, "description": filled, "execution_target": one_of("local_runtime", "backend")},
    {
        "model_schema": free,
        "execution_schema": free,
        "optional": flag,
        "argument_resolution": one_of("passthrough", "backend_grounding"),
    },
)

STREAM: Mapping[str, Check] = {
    "query-accepted": closed({"status": one_of("accepted")}),
    "system-prompt": closed({"content": text}),
    "user-message-full": closed({"content": text, "metadata": _METADATA}),
    "tool-schemas": closed({"tool_schemas": listing(_SCHEMA)}),
    "llm-thought": closed({"status": text}),
    "streaming-response": closed({"text": text}),
    "tool-call": _and(_TOOL_CALL, _opaque),
    "tool-bundle": closed(
        {"bundle_id": filled, "tools": listing(closed({"name": filled, "args": free}, more=True), least=1)}
    ),
    "tool-output": _TOOL_OUTPUT,
    "web-search-progress": closed(
        {"text": text},
        {
            "request_id": nullable(filled),
            "action_type": nullable(text),
            "query": nullable(text),
            "url": nullable(text),
            "pattern": nullable(text),
        },
    ),
    "assistant-message-full": closed({"content": text}),
    "token-count": _and(_TOKENS, _arithmetic),
    "streaming-complete": closed({}, {"final_response": text}),
    "context-compaction-started": closed({**_SHORTENING, "before_tokens": count, "projected_tokens": nullable(count)}),
    "context-compaction-completed": _and(_COMPACTED, _skipped),
    "context-compaction-failed": closed({**_SHORTENING, "error": filled}, {"before_tokens": nullable(count)}),
    "model-history-updated": closed(
        {
            "conversation_ref": filled,
            "revision_id": filled,
            "checkpoint_id": filled,
            "created_at": filled,
            "rows": listing(free),
        }
    ),
    "trace-event": free,
    "error": closed({"message": filled}, {"content": anything, "metadata": nullable(free)}),
}
"""Types that take a number of their turn (an ``error`` only where it ends one)."""

STARTUP: Mapping[str, Check] = {
    "client-tool-manifest": closed(
        {"accepted": listing(_ACCEPTED), "rejected": listing(closed({"name": text, "reason": filled}))}
    ),
    "remote-tool-catalog": closed(
        {
            "remote_tools": listing(
                _and(
                    closed(
                        {
                            "name": filled,
                            "description": text,
                            "enabled": flag,
                            "available": flag,
                            "reason_unavailable": nullable(filled),
                        }
                    ),
                    _remote,
                )
            )
        }
    ),
}
"""What comes right after the handshake, in this order, with neither id nor number."""

REPLY: Mapping[str, Check] = {
    "audio-chunk": closed({"audio": _pcm, "sample_rate": _rate}),
    "wakeword-activated": closed({"speech_mode_enabled": flag, "greeting": text, "status": one_of("listening")}),
    "wakeword-greeting": closed({"text": text}),
    "settings-loaded": closed({"config": _CONFIG}),
    "settings-updated": closed({"updated_keys": listing(filled)}),
    "models-listed": closed({"local": listing(_MODEL), "online": listing(_MODEL), "vision": listing(_MODEL)}),
    "stop-query-ack": _and(
        closed(
            {
                "status": one_of("stopped", "not-running"),
                "canceled": flag,
                "conversation_ref": nullable(filled),
                "turn_ref": nullable(filled),
            }
        ),
        _ack,
    ),
}
"""Types that never take a number, or the client would see a gap."""

ALL = {**STREAM, **STARTUP, **REPLY}


def faults(kind: str, payload: Any) -> list[str]:
    """What is wrong with the payload of such a message; ``kind`` is one of ``ALL``."""
    return list(ALL[kind](payload, "payload"))

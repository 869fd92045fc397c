"""The seed's server messages as tables: exact fields and types. Every frame of every test goes through ``check``."""

from __future__ import annotations

import base64
import binascii
from typing import Any

TEXT, FLAG, COUNT, NUMBER, LIST, ANY = "text", "flag", "count", "number", "list", "any"

SERVER_MESSAGES: dict[str, dict[str, str]] = {
    "output": {"data": "base64", "offset": COUNT},
    "screen": {
        "lines": "texts",
        "cols": COUNT,
        "rows": COUNT,
        "alt_screen": FLAG,
        "cursor": "cursor",
        "seq": COUNT,
    },
    "transition": {
        "prev": "state",
        "next": "state",
        "seq": COUNT,
        "prompt": "prompt?",
        "error_detail": "text?",
        "error_category": "text?",
        "cause": TEXT,
        "last_message": "text?",
    },
    "exit": {"code": "number?", "signal": "number?"},
    "nudge:result": {"delivered": FLAG, "state_before": "text?", "reason": "text?"},
    "respond:result": {"delivered": FLAG, "prompt_type": "text?", "reason": "text?"},
    "status": {
        "state": "life",
        "pid": "count?",
        "uptime_secs": COUNT,
        "exit_code": "number?",
        "screen_seq": COUNT,
        "bytes_read": COUNT,
        "bytes_written": COUNT,
        "ws_clients": COUNT,
    },
    "stop": {"type": TEXT, "signal": ANY, "error_detail": "text?", "seq": COUNT},
    "start": {"source": TEXT, "session_id": "text?", "injected": FLAG, "seq": COUNT},
    "error": {"code": "code", "message": TEXT},
    "resize": {"cols": COUNT, "rows": COUNT},
    "pong": {},
    "replay_result": {"data": "base64", "offset": COUNT, "next_offset": COUNT, "total_written": COUNT},
}

PROMPT = {
    "type": TEXT,
    "subtype": "text?",
    "tool": "text?",
    "input": "text?",
    "auth_url": "text?",
    "options": "texts",
    "options_fallback": FLAG,
    "questions": LIST,
    "question_current": COUNT,
    "ready": FLAG,
}
STATES = {"starting", "working", "idle", "prompt", "error", "exited", "unknown"}
CODES = {
    "UNAUTHORIZED",
    "BAD_REQUEST",
    "NO_DRIVER",
    "NOT_READY",
    "AGENT_BUSY",
    "NO_PROMPT",
    "EXITED",
    "INTERNAL",
}


def check(frame: Any) -> None:
    """Raise ``AssertionError`` unless ``frame`` is one of the seed's messages, to the letter."""
    assert isinstance(frame, dict), f"not an object: {frame!r}"
    event = frame.get("event")
    assert event in SERVER_MESSAGES, f"no server message of the contract: {frame!r}"
    check_fields({key: value for key, value in frame.items() if key != "event"}, SERVER_MESSAGES[event], event)
    if event == "output":
        assert frame["data"], "an output message without bytes"
    elif event == "replay_result":
        size = len(base64.b64decode(frame["data"]))
        assert frame["next_offset"] == frame["offset"] + size, f"next_offset does not follow: {brief(frame)}"
    elif event == "screen":
        check_screen(frame)


def check_screen(frame: dict[str, Any]) -> None:
    """What every picture owes: ``rows`` lines, trimmed at the right, a cursor inside."""
    assert len(frame["lines"]) == frame["rows"], f"{len(frame['lines'])} lines for {frame['rows']} rows"
    padded = [line for line in frame["lines"] if line != line.rstrip(" ")]
    assert not padded, f"lines not trimmed: {padded!r}"
    if frame["cursor"] is not None:
        assert 0 <= frame["cursor"]["row"] < frame["rows"], f"cursor outside: {frame!r}"
        assert 0 <= frame["cursor"]["col"] <= frame["cols"], f"cursor outside: {frame!r}"


def check_fields(value: dict[str, Any], fields: dict[str, str], where: str) -> None:
    """Exactly these fields, each of its type, nulls written out."""
    assert set(value) == set(fields), (
        f"{where}: missing {sorted(set(fields) - set(value))}, extra {sorted(set(value) - set(fields))}"
    )
    wrong = {key: value[key] for key, kind in fields.items() if not fits(value[key], kind)}
    assert not wrong, f"{where}: wrong type of {wrong!r}"


def fits(value: Any, kind: str) -> bool:
    """Whether a JSON value is of one of the kinds above; a trailing ``?`` allows null."""
    if kind.endswith("?"):
        return value is None or fits(value, kind[:-1])
    whole = isinstance(value, int) and not isinstance(value, bool)
    match kind:
        case "text":
            return isinstance(value, str)
        case "flag":
            return isinstance(value, bool)
        case "number":
            return whole
        case "count":
            return whole and value >= 0
        case "list":
            return isinstance(value, list)
        case "texts":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case "state":
            return isinstance(value, str) and value in STATES
        case "life":
            return value in ("starting", "running", "exited")
        case "code":
            return isinstance(value, str) and value in CODES
        case "base64":
            return isinstance(value, str) and is_base64(value)
        case "cursor":
            return isinstance(value, dict) and set(value) == {"row", "col"} and all(map(is_count, value.values()))
        case "prompt":
            return isinstance(value, dict) and set(value) == set(PROMPT)
        case "any":
            return True
    raise ValueError(kind)


def is_count(value: Any) -> bool:
    return fits(value, COUNT)


def is_base64(text: str) -> bool:
    """Standard alphabet, padded."""
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


def brief(frame: Any, width: int = 300) -> str:
    """A frame in one line that fits a transcript."""
    text = repr(frame)
    return text if len(text) <= width else f"{text[:width]}… ({len(text)} characters)"

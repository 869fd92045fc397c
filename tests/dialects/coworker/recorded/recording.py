"""A conversation as a list of entries, and the recordings of the original, read as such."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

FOLDER = Path(__file__).parents[4].parent / "shared" / "frames" / "coworker"
"""Where the recordings are, beside the repository; the tests do without where they are not."""

Frame: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Received:
    """What the server said."""

    frame: Frame


@dataclass(frozen=True)
class Sent:
    """What the client said: a message, or the text of what is none (``binary``: in a binary frame)."""

    message: Frame | str
    binary: bool = False

    @property
    def kind(self) -> str:
        """Its type, as far as it has one."""
        return str(self.message.get("type", "")) if isinstance(self.message, dict) else ""


@dataclass(frozen=True)
class Note:
    """What the recorder did or saw beside the wire."""

    text: str


Entry: TypeAlias = Received | Sent | Note

OPENING = ("server_hello", "session_settings", "observability_status", "provider_auth_methods")
"""What a link hears first, in this order (spec 1.1)."""

RACING = ("provider_catalog", "provider_status")
"""What it hears unasked soon after, in either order, and maybe after answers (spec 1.1)."""

CHUNK = "model_stream_chunk"

SCENARIOS = (
    "busy",
    "cancel_during_approval",
    "cancel_during_ask",
    "cancel_during_bash",
    "cancel_during_stream",
    "client_hello",
    "connect",
    "disconnect_pending_ask",
    "execute_command",
    "harness_context",
    "lists",
    "observability_disabled",
    "observability_enabled",
    "ping",
    "protocol_errors",
    "provider",
    "reset_cancel_idle",
    "session_backup",
    "session_backup_failed",
    "session_backup_home_is_workdir",
    "session_backup_matrix",
    "session_backup_real_w4_sub",
    "session_backup_real_w5",
    "set_enable_mcp",
    "set_model",
    "skills_toggle",
    "turn_approval_no",
    "turn_approval_yes",
    "turn_ask_free",
    "turn_ask_options",
    "turn_bad_tool_input",
    "turn_bash_safe",
    "turn_cat",
    "turn_control_op",
    "turn_dangerous_yes",
    "turn_empty_text",
    "turn_empty_user",
    "turn_failed",
    "turn_files",
    "turn_full",
    "turn_http401",
    "turn_http500",
    "turn_mcp",
    "turn_memory",
    "turn_missing_file",
    "turn_multi_text",
    "turn_outside_scope",
    "turn_outside_write",
    "turn_parallel",
    "turn_reasoning",
    "turn_skill",
    "turn_spawn_explore",
    "turn_spawn_general",
    "turn_text",
    "turn_todos",
    "turn_unknown_tool",
    "turn_whitespace_text",
    "turn_yolo",
    "two_messages_at_once",
    "two_turns_reset",
    "validation",
)
"""Every recording, by the name of its file."""


def load(name: str) -> list[Entry]:
    """One recording, as it stands in its file."""
    lines = (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [entry for line in lines if (entry := _entry(json.loads(line))) is not None]


def _entry(line: dict[str, Any]) -> Entry | None:
    match line["dir"]:
        case "recv":
            return Received(line["frame"])
        case "send":
            return Sent(line["frame"])
        case "send_raw" if isinstance(line["data"], dict):
            return Sent(line["data"]["binary_utf8"], binary=True)
        case "send_raw":
            return Sent(line["data"])
        case "note":
            return Note(line["note"])
        case "open" | "close":
            return None  # when it was written down says nothing: what was heard at once stands before it
    raise ValueError(f"unknown line {line['dir']!r}")


def frames(entries: Sequence[Entry]) -> list[Frame]:
    """What the server said, in order."""
    return [entry.frame for entry in entries if isinstance(entry, Received)]


def kind(frame: Frame) -> str:
    """What a frame is, in one line: its type, and of a chunk its part, and of a raw part the provider's word."""
    if frame["type"] != CHUNK:
        return str(frame["type"])
    sort, part = frame.get("partType"), frame.get("part")
    raw = part.get("raw") if sort == "raw" and isinstance(part, dict) else None
    return f"{CHUNK} {sort} {raw.get('type')}" if isinstance(raw, dict) else f"{CHUNK} {sort}"

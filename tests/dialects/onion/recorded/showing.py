"""Two conversations side by side, for a test that fails."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import SequenceMatcher

from .recording import Answered, Asked, Broken, Entry, Left, Opened, Quiet, Received, Refused, Sent

WIDTH = 100
"""Characters of each side."""

_DULL = frozenset({"type", "session_id", "signature", "from", "ts", "payload"})


def side_by_side(expected: Sequence[Entry], got: Sequence[Entry]) -> str:
    """One line for each entry, expected ones at the left. ``|`` differs, ``<`` is missing, ``>`` is too much."""
    left, right = [line(entry) for entry in expected], [line(entry) for entry in got]
    shown = [f"  {'expected':{WIDTH}}   got"]
    for tag, i, j, k, n in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        mark = {"equal": " ", "replace": "|", "delete": "<", "insert": ">"}[tag]
        one, other = left[i:j], right[k:n]
        for at in range(max(len(one), len(other))):
            first = one[at] if at < len(one) else ""
            second = other[at] if at < len(other) else ""
            shown.append(f"{mark} {_cut(first):{WIDTH}} {mark} {_cut(second)}".rstrip())
    return "\n".join(shown)


def line(entry: Entry) -> str:
    """An entry in one line."""
    match entry:
        case Opened(conn, path):
            return f"{conn} opened {path}"
        case Refused(path, status):
            return f"{path} refused: {status}"
        case Sent(conn, message):
            return f"{conn} -> {_said(message) if isinstance(message, dict) else repr(message)}"
        case Received(conn, frame):
            return f"{conn} <- {_said(frame)}"
        case Broken(conn):
            return f"{conn} broken by the server"
        case Left(conn):
            return f"{conn} left"
        case Quiet():
            return "silence"
        case Asked(method, path, body):
            return f"{method} {path} {json.dumps(body)}"
        case Answered(status, _, body):
            return f"{status} {json.dumps(body)}"


def _said(message: dict[str, object]) -> str:
    rest = {key: value for key, value in message.items() if key not in _DULL}
    return f"{message.get('type', '')} {json.dumps(rest, ensure_ascii=False)}"


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"

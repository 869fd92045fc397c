"""Two conversations side by side, for a test that fails."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import SequenceMatcher

from .recording import CHUNK, Entry, Note, Received, Sent, kind

WIDTH = 96
"""Characters of each side."""

_DULL = ("type", "sessionId", "turnId", "provider", "model", "partType", "rawPart", "index")


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
        case Note(text):
            return f"# {text}"
        case Sent(message, _):
            return f"-> {message if isinstance(message, str) else _said(message)}"
        case Received(frame):
            place = f"{frame.get('index')} " if frame["type"] == CHUNK else ""
            part = frame.get("part") if frame["type"] == CHUNK else {k: v for k, v in frame.items() if k not in _DULL}
            return f"<- {place}{kind(frame).removeprefix(CHUNK).strip()} {json.dumps(part, ensure_ascii=False)}"


def _said(message: dict[str, object]) -> str:
    rest = {key: value for key, value in message.items() if key not in _DULL}
    return f"{message.get('type', '')} {json.dumps(rest, ensure_ascii=False)}"


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"

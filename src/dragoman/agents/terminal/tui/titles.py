"""What an agent's window title says of its state."""

from __future__ import annotations

import re
from typing import Literal

TitleState = Literal["working", "idle", "prompt"]

_BUSY = re.compile(r"^[⠀-⣿◐◓◑◒✦]\s?")
_CODEX_PROMPT = re.compile(r"^\[ [!.] \] Action Required\b")


_GEMINI: dict[str, TitleState] = {"◇": "idle", "✦": "working", "⏲": "working", "✋": "prompt"}


def read_title(agent: str, title: str) -> TitleState | None:
    """The state, or None for a title that tells none, as every one of Qwen's and OpenCode's. Pure."""
    reader = _READERS.get(agent)
    return reader(title) if reader is not None else None


def _claude(title: str) -> TitleState | None:
    if title.startswith("✳"):
        return "idle"
    return "working" if _BUSY.match(title) else None


def _codex(title: str) -> TitleState | None:
    if _CODEX_PROMPT.match(title):
        return "prompt"
    if _BUSY.match(title):
        return "working"
    return "idle" if title.strip() else None


def _gemini(title: str) -> TitleState | None:
    return next((state for sign, state in _GEMINI.items() if title.startswith(sign)), None)


_READERS = {"claude": _claude, "codex": _codex, "gemini": _gemini}

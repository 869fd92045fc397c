# ruff: noqa: RUF001 - the signs are those that the agents draw
"""Claude Code's screen: the input box and what stands above it. Its dialogs are in ``claude_dialogs``."""

from __future__ import annotations

import re

from .claude_dialogs import read_dialog
from .lines import Line, is_rule, paragraph
from .reading import ScreenReading
from .screen import Picture, newest_block

_PROMPT = re.compile(r"^[❯!#&](\s|$)")
_NAMED_RULE = re.compile(r"^─{8,} [^─]{1,80} ─+$")
_SPINNER = re.compile(r"^[✻✶✳✢✽·∗*]\s+\S.*(…|retrying in|esc to interrupt)")
_TRACE = re.compile(r"^\s*⎿\s+Interrupted\b|\[Request interrupted by user")
_TURNED_DOWN = re.compile(r"^● (Declined to answer|User declined to answer|User rejected)|⎿  ?(Rejected Claude's plan)")
_ERROR = re.compile(
    r"^[●⎿]?\s*((API Error|Invalid API key|Credit balance is too low|OAuth token (has expired|revoked)"
    r"|Please run /login)\b.*)"
)
_DONE = re.compile(r"^[✻✶✳✢✽] \w+ for \d")
_SUGGESTIONS = ('Try "', "Press up to edit queued messages")

MAX_UNDER_BOX = 10
MAX_BOX = 60
"""Lines that the box, and what stands under it, can have."""


def read_claude(picture: Picture) -> ScreenReading:
    """What is on it. Pure."""
    box = _input_box(picture)
    if box is None:
        return ScreenReading(dialog=read_dialog(picture), working=_spins(picture.lines))
    top, bottom = box
    above = _conversation(picture.lines[:top])
    under = picture.lines[bottom + 1 :]
    working = _spins(above) or any("esc to interrupt" in line.text for line in under)
    newest = [] if working else newest_block(_without_time(above), lambda line: line.text[:1].strip() != "")
    return ScreenReading(
        input_box=_draft(picture, top, bottom),
        working=working,
        interrupted=_interrupted(newest),
        error=_error(newest),
    )


def _input_box(picture: Picture) -> tuple[int, int] | None:
    """The rules above and below the input box. A dialog takes its place, so there is never both."""
    rules = [line.at for line in picture.lines if _is_edge(line.text, picture.cols)]
    if len(rules) < 2 or rules[-1] - rules[-2] > MAX_BOX:
        return None
    top, bottom = rules[-2:]
    inside = picture.lines[top + 1 : bottom]
    if not inside or not _PROMPT.match(inside[0].text):
        return None
    if any(line.text and line.indent < 1 for line in inside[1:]):
        return None
    under = [line for line in picture.lines[bottom + 1 :] if line.text]
    if len(under) > MAX_UNDER_BOX or any(line.indent < 1 for line in under):
        return None
    return top, bottom


def _is_edge(text: str, cols: int) -> bool:
    return is_rule(text, "─", cols) or (len(text) >= cols - 1 and _NAMED_RULE.match(text) is not None)


def _draft(picture: Picture, top: int, bottom: int) -> str:
    draft = picture.draft(top + 1, bottom - 1, 2, _SUGGESTIONS)
    sign = picture.lines[top + 1].text[:1]
    return draft if sign == "❯" else f"{sign}{draft}"


def _conversation(lines: list[Line]) -> list[Line]:
    """Without the notes at the right edge just above the box."""
    said = list(lines)
    while said and (not said[-1].text or said[-1].indent > 40):
        said.pop()
    return said


def _without_time(lines: list[Line]) -> list[Line]:
    """Without the line that says how long the turn took."""
    said = list(lines)
    while said and (not said[-1].text or _DONE.match(said[-1].text)):
        said.pop()
    return said


def _spins(lines: list[Line]) -> bool:
    """Whether the last line at the edge is a spinner: hints and lists of tasks may hang under it."""
    last = next((line for line in reversed(lines) if line.text and not line.indent), None)
    return last is not None and _SPINNER.match(last.text) is not None


def _interrupted(newest: list[Line]) -> bool:
    if not newest:
        return False
    told = [line for line in newest if line.text]
    return _TRACE.search(told[-1].text) is not None or any(_TURNED_DOWN.search(line.text) for line in told)


def _error(newest: list[Line]) -> str | None:
    if not newest or (newest[0].text.startswith("❯") and len(newest) < 2):
        return None
    first = newest[0] if not newest[0].text.startswith("❯") else newest[1]
    found = _ERROR.match(first.text.strip())
    if found is None:
        return None
    rest = paragraph(line for line in newest if line.at > first.at)
    return f"{found[1]} {rest}".strip()

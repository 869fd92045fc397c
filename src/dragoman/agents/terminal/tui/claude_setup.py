"""The dialogs with which Claude Code starts: trust, keys, sign-in, settings, looks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.hub.events import DecisionKind

from .lines import Line, blank, paragraph
from .reading import Row, ScreenDialog, fixed_labels, identity_of
from .rows import has_box

_URL = re.compile(r"https://\S+")

_SETUPS: tuple[tuple[str, str, DecisionKind, str], ...] = (
    (r"Accessing workspace:|Do you trust the files in this folder", "", "permission", "trust"),
    (r"Detected a custom API key", "", "setup", "api_key"),
    (r"WARNING: Claude Code running in Bypass Permissions mode", "", "setup", "startup_bypass"),
    (r"Settings Error$|Found \d+ settings issue", "", "setup", "settings_error"),
    (r"Login$|Select login method|Claude Code can be used", r"oauth/authorize|Paste code here", "setup", "oauth_login"),
    (r"Login", r"Login successful|Logged in as", "setup", "login_success"),
    (r"Login$|Select login method|Claude Code can be used", r"Select login method", "setup", "login_method"),
    (r"Security notes:", "", "setup", "security_notes"),
    (r"Theme$|Choose the text style|Let's get started", r"Choose the text style", "setup", "theme_picker"),
    (r"Use Claude Code's terminal setup\?", "", "setup", "terminal_setup"),
    (r"New MCP servers? found|\d+ new MCP servers", "", "setup", "mcp_server"),
    (r"Auto mode can't check actions", "", "setup", "auto_mode"),
)
"""How a set-up dialog begins and what else it says, and coop's words for it where coop has one.

Only its beginning tells it for certain: the rest of a dialog may be text of a model's choosing, and some set-up
dialogs are answered without asking anyone.
"""

_ENTER_ONLY = frozenset({"login_success", "security_notes", "auto_mode"})


class Pane(NamedTuple):
    """The part of the screen that a dialog has.

    ``panel``: one that the person called up, or a plan. ``framed``: some rule from edge to edge belongs to it;
    ``whole``: that at its top is still on the screen.
    """

    lines: list[Line]
    panel: bool
    framed: bool
    whole: bool
    hints: str


def read_setup(pane: Pane, rows: Sequence[Row]) -> ScreenDialog | None:
    """The set-up dialog that this pane holds, if it holds one."""
    title = next((line.text.strip() for line in pane.lines if line.text), "")
    text = "\n".join(line.text for line in pane.lines)
    for begins, says, kind, subtype in _SETUPS:
        if re.match(begins, title) and re.search(says, text):
            return _setup(pane, rows, kind, subtype)
    return None


def read_onboarding(pane: Pane, rows: Sequence[Row]) -> ScreenDialog | None:
    """The first steps of a fresh installation have the whole screen, under a welcome; nothing was said yet."""
    welcome = next(
        (at for at, line in enumerate(pane.lines[:6]) if line.text.startswith("Welcome to Claude Code")), None
    )
    if welcome is None:
        return None
    for at, line in enumerate(pane.lines[welcome + 1 :], start=welcome + 1):
        found = read_setup(pane._replace(lines=pane.lines[at:]), rows) if line.text else None
        if found is not None:
            return found
    return None


def _setup(pane: Pane, rows: Sequence[Row], kind: DecisionKind, subtype: str) -> ScreenDialog | None:
    enter_only = not rows and (subtype in _ENTER_ONLY or "Press Enter" in pane.hints)
    if not rows and not enter_only and subtype != "oauth_login":
        return None
    if subtype == "oauth_login":
        rows = ()
    head = above_rows(pane.lines, rows)
    told = [paragraph(part) for part in paragraphs(head)]
    asked = _asked(told, subtype)
    rest = [said for at, said in enumerate(told) if at != asked and not (subtype == "oauth_login" and "://" in said)]
    text = told[asked].rstrip(" >") if told else subtype
    body = "\n".join(rest)
    return ScreenDialog(
        kind=kind,
        subtype=subtype,
        text=text,
        body=body,
        rows=tuple(rows),
        multiple=any(has_box(line) for line in pane.lines),
        auth_url=_auth_url(pane.lines) if subtype == "oauth_login" else None,
        enter_only=enter_only,
        identity=identity_of(kind, f"{subtype}:{text}", body, fixed_labels(rows)),
    )


def _asked(told: Sequence[str], subtype: str) -> int:
    """Which paragraph is the question, or the invitation, or else the title."""
    if subtype in _ENTER_ONLY:
        return 0
    sign = {"theme_picker": "Choose", "oauth_login": "Paste code", "trust": "?"}.get(subtype)
    if sign is not None:
        return next((at for at, said in enumerate(told) if sign in said), 0)
    return next((at for at in range(len(told) - 1, -1, -1) if "?" in told[at] or told[at].endswith(":")), 0)


def _auth_url(lines: Sequence[Line]) -> str | None:
    """The address, which is wrapped without any room at its left."""
    for at, line in enumerate(lines):
        found = _URL.search(line.text)
        if found is None or "oauth" not in line.text:
            continue
        url = found[0]
        if found.end() < len(line.text):
            return url
        for more in lines[at + 1 :]:
            if not more.text or more.indent > line.indent or " " in more.text.strip():
                break
            url += more.text.strip()
        return url
    return None


def above_rows(lines: Sequence[Line], rows: Sequence[Row]) -> list[Line]:
    """What stands over the options."""
    return [line for line in lines if not rows or line.at < rows[0].line]


def paragraphs(lines: Sequence[Line]) -> list[list[Line]]:
    """Text between blank and drawn lines."""
    parts: list[list[Line]] = [[]]
    for line in lines:
        if blank(line.text):
            parts.append([])
        else:
            parts[-1].append(line)
    return [part for part in parts if part]

# ruff: noqa: RUF001 - the signs are those that the agents draw
"""Codex's screen: a pane at the bottom holds either the composer or a dialog with a hint as its last line."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from dragoman.hub.events import DecisionKind

from .lines import Line, block, paragraph, without_blank_ends
from .reading import Row, ScreenDialog, ScreenReading, Tab, fixed_labels, identity_of
from .rows import numbered_rows
from .screen import Picture, newest_block

_COMPOSER = re.compile(r"^› ?")
_HINT = re.compile(
    r"^\s*(press enter to |enter (select|continue|confirm|to submit)|enter/esc "
    r"|tab (to add notes|or esc to clear notes)|esc (back|to )|↑/↓)",
    re.IGNORECASE,
)
_WORKING = re.compile(r"^[•◦·⠀-⣿]\s.*\(.*esc to interrupt\)")
_TITLE = re.compile(r"^  (Would you like to |Do you want to |Question \d+/\d+ \(|Implement this plan\?|Folder access$)")
_PAGE = re.compile(r"Question (\d+)/(\d+) \((\d+) unanswered\)")
_NOTES = re.compile(r"^\s+› (?!\d+\. )(.*)$")
_INTERRUPTED = "■ Conversation interrupted"
_URL = re.compile(r"https://\S+")
_TRUST = re.compile(r"Trust this folder\?|Do you trust the contents of this directory", re.IGNORECASE)
_SETUPS = (
    (r"Choose how you want to use Codex|Sign in with", "login_method"),
    (r"Update available", "update"),
    (r"Try new model", "model_upgrade"),
)

MAX_AT_START = 3
"""The line that a dialog begins on at the latest while nothing has been said yet."""

MAX_STATUS = 3
"""Lines under the composer."""


def read_codex(picture: Picture) -> ScreenReading:
    """What is on it. Pure."""
    lines = picture.lines[: picture.bottom + 1]
    dialog = _dialog(picture, lines)
    if dialog is not None:
        return ScreenReading(dialog=dialog)
    composer = _composer(lines)
    above = lines[: composer[0]] if composer is not None else lines
    working = any(_WORKING.match(line.text) for line in _last(above, 3))
    newest = [] if working or composer is None else newest_block(above, lambda line: line.text[:1].strip() != "")
    first = newest[0].text if newest else ""
    interrupted = first.startswith(_INTERRUPTED)
    return ScreenReading(
        input_box=None if composer is None else picture.draft(composer[0], composer[1], 2),
        working=working,
        interrupted=interrupted,
        error=paragraph(newest)[2:].strip() if first.startswith("■ ") and not interrupted else None,
    )


def _last(lines: Sequence[Line], count: int) -> list[Line]:
    return [line for line in lines if line.text][-count:]


def _composer(lines: Sequence[Line]) -> tuple[int, int] | None:
    """First and last line of the draft: what follows the last sign at the edge, but for the lines under a gap."""
    start = next((line.at for line in reversed(lines) if line.text and not line.indent), None)
    if start is None or not _COMPOSER.match(lines[start].text):
        return None
    gap = next((at for at in range(len(lines) - 1, start, -1) if not lines[at].text), None)
    if gap is None or not 0 < len(lines) - 1 - gap <= MAX_STATUS:
        return None
    # Two lines of status may have a gap between them.
    return start, max(start, gap - 1)


def _dialog(picture: Picture, lines: list[Line]) -> ScreenDialog | None:
    hint = next((line.at for line in reversed(lines) if _HINT.match(line.text)), None)
    if hint is None or not _nothing_below(lines, hint):
        return None
    notes = _notes(picture, lines, hint)
    rows = numbered_rows(lines[: notes.line if notes is not None else hint], picture.cols, columns=True)
    if not rows:
        return _without_options(lines, hint)
    head = _head(lines, rows[0].line)
    if notes is not None:
        rows = [*(msgspec.structs.replace(row, selected=False) for row in rows), notes]
    return _named(head, rows)


def _nothing_below(lines: Sequence[Line], hint: int) -> bool:
    """A dialog's hint is the last line; only while signing in an error may follow it, at the edge."""
    below = [line for line in lines[hint + 1 :] if line.text]
    if not below:
        return True
    welcome = any("Welcome to Codex" in line.text for line in lines[:3])
    return welcome and below[0].indent == 0 and not _COMPOSER.match(below[0].text)


def _notes(picture: Picture, lines: Sequence[Line], hint: int) -> Row | None:
    """The field for remarks to an answer; it takes the keys while it is open."""
    if "clear notes" not in lines[hint].text:
        return None
    found = next((line for line in reversed(lines[:hint]) if _NOTES.match(line.text)), None)
    if found is None:
        return None
    text = picture.draft(found.at, found.at, found.indent + 2, ("Add notes",))
    return Row(text, found.at, selected=True, free_text=True)


def _head(lines: Sequence[Line], first_row: int) -> list[Line]:
    """The dialog above its options: from its title, else the text just above them and the title over that."""
    above = lines[:first_row]
    edge = next((line.at for line in reversed(above) if line.text and not line.indent), -1)
    titles = [
        line.at
        for line in above[edge + 1 :]
        if _TITLE.match(line.text) and (line.at == 0 or not lines[line.at - 1].text)
    ]
    if titles:
        return without_blank_ends(above[titles[-1] :])
    start, gap = edge + 1, 0
    for line in reversed(above[edge + 1 :]):
        gap = 0 if line.text else gap + 1
        if gap > 1 and any(other.text for other in above[line.at :]):
            start = line.at
            break
    if edge >= 0 and start == edge + 1:
        start = edge
    return without_blank_ends(above[start:])


def _named(head: list[Line], rows: list[Row]) -> ScreenDialog:
    told = "\n".join(line.text for line in head)
    first = head[0].text.strip() if head else ""
    if (page := _PAGE.search(first)) is not None:
        return _question(page, head, rows)
    kind: DecisionKind = "setup"
    subtype: str | None = "menu"
    tool = None
    text, body = first, block(head[1:])
    if first == "Implement this plan?":
        kind, subtype = "plan", None
    elif head and head[0].at <= MAX_AT_START and _TRUST.search(told) and not first.startswith("Would you like"):
        kind, subtype = "permission", "trust"
        text = next((paragraph(part) for part in _parts(head) if _TRUST.search(paragraph(part))), first)
        body = "\n".join(line.text.strip() for line in head[1:2])
    elif first.startswith(("Would you like to ", "Do you want to ")):
        kind, subtype = "permission", "tool"
        tool = "Bash" if "command" in first else "apply_patch" if "edits" in first else None
        body = _subject(head[1:])
    else:
        choices = told + "\n" + "\n".join(row.label for row in rows)
        subtype = next((name for pattern, name in _SETUPS if re.search(pattern, choices)), "menu")
        if subtype == "login_method" and (parts := _parts(head)):
            text, body = paragraph(parts[-1]), ""
    return ScreenDialog(
        kind=kind,
        subtype=subtype,
        text=text,
        body=body,
        tool=tool,
        rows=tuple(rows),
        identity=identity_of(kind, text, body, fixed_labels(rows)),
    )


def _subject(lines: list[Line]) -> str:
    """The command alone where there is one, else everything that is said."""
    start = next((at for at, line in enumerate(lines) if line.text.startswith("  $ ")), None)
    if start is None:
        return block(lines)
    return block(lines[start:]).removeprefix("$ ")


def _question(page: re.Match[str], head: list[Line], rows: list[Row]) -> ScreenDialog:
    number, count = int(page[1]), min(int(page[2]), 99)
    text = paragraph(head[1:])
    # A remark is opened by a key while this answer is marked.
    rows = [msgspec.structs.replace(row, key="tab") if row.description.endswith("(tab)") else row for row in rows]
    tabs = tuple(Tab(str(at), at < number, at == number) for at in range(1, count + 1)) if count > 1 else ()
    return ScreenDialog(
        kind="question",
        text=text,
        tool="request_user_input",
        rows=tuple(rows),
        tabs=tabs,
        identity=identity_of("question", text, f"{number}/{count}", fixed_labels(rows)),
    )


def _without_options(lines: Sequence[Line], hint: int) -> ScreenDialog | None:
    """A page that only goes on, or waits for a sign-in elsewhere: only while the whole screen is the welcome's."""
    if not any("Welcome to Codex" in line.text for line in lines[:3]):
        return None
    told = [paragraph(part) for part in _parts(lines[:hint])]
    address = _URL.search("\n".join(line.text for line in lines[:hint]))
    text = told[1] if len(told) > 1 else told[0] if told else ""
    body = "\n".join(told[2:])
    return ScreenDialog(
        kind="setup",
        subtype="oauth_login" if address is not None else "welcome",
        text=text,
        body=body,
        auth_url=address[0] if address is not None else None,
        enter_only="press enter" in lines[hint].text.lower(),
        identity=identity_of("setup", text, body, ()),
    )


def _parts(lines: Sequence[Line]) -> list[list[Line]]:
    parts: list[list[Line]] = [[]]
    for line in lines:
        if line.text:
            parts[-1].append(line)
        else:
            parts.append([])
    return [part for part in parts if part]

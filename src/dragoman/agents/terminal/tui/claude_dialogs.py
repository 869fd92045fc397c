# ruff: noqa: RUF001 - the signs are those that the agents draw
"""Claude Code's dialogs, of the 2.1 line: they stand under a rule from edge to edge, in place of the input box.

What they ask differs by version, and so do number, order and default of their options: everything is read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from .claude_setup import Pane, above_rows, paragraphs, read_onboarding, read_setup
from .lines import Line, blank, block, is_rule, paragraph, without_blank_ends
from .reading import Row, ScreenDialog, Tab, fixed_labels, identity_of
from .rows import has_box, listed_rows, numbered_rows
from .screen import Picture

_HINT = re.compile(
    r"^\s*(Esc to|Enter to|Tab to|Space to|Press Enter|↑/↓|↓ to|←/→|ctrl\+\w+ to|s to use"
    r"|[↑↓] \d+ more lines)",
    re.IGNORECASE,
)
_MORE = re.compile(r"^\s*↑ \d+ more lines")
_CHAT = re.compile(r"^(❯\s|\s\s)?\s*(\d+\.\s+)?Chat about this$")
_READY = re.compile(r"^[^?]*\bplan\b[^?]*\. Would you like to proceed\?")
_TABS = re.compile(r"^\s?(←\s)?\s*[☐☒✔✓□]\s")
_TAB = re.compile(r"[☐☒✔✓□]\s(.*?)(?=\s{2,}|\s*→|$)")
_FREE = re.compile(r"^(Type something\.?|Tell Claude what to change|Type here to tell Claude .*)$")
_FEEDBACK = "shift+tab to approve with this feedback"
_TOOLS = {
    "Bash command": "Bash",
    "Create file": "Write",
    "Overwrite file": "Write",
    "Edit file": "Edit",
    "Edit notebook": "NotebookEdit",
    "Fetch": "WebFetch",
}
_SEARCH = re.compile(r"^\s*Web Search\(")


def read_dialog(picture: Picture) -> ScreenDialog | None:
    """The dialog at the bottom of the screen, if there is one."""
    pane = _pane(picture)
    if pane is None:
        return None
    rows = _rows(pane, picture.cols)
    if not pane.framed and not _stands_under_a_drawn_line(pane, rows, picture.cols):
        return read_onboarding(pane, rows)
    setup = read_setup(pane, rows) if pane.whole else None
    if setup is not None or not rows:
        return setup
    return _question(picture, pane, rows) or _plan(pane, rows) or _permission(picture, pane, rows) or _menu(pane, rows)


def _pane(picture: Picture) -> Pane | None:
    cols, lines = picture.cols, picture.lines[: picture.bottom + 1]
    top, panel, framed, whole = -1, False, False, False
    for line in reversed(lines):
        if is_rule(line.text, "▔", cols):
            top, panel, framed, whole = line.at, True, True, True
            break
        if is_rule(line.text, "─", cols):
            framed = True
            if not _is_inner(lines, line.at):
                top, whole = line.at, True
                break
    inside = lines[top + 1 :]
    hints: list[str] = []
    while inside and (not inside[-1].text or _HINT.match(inside[-1].text)):
        hints.append(inside.pop().text.strip())
    return Pane(inside, panel, framed, whole, "\n".join(hints)) if inside else None


def _is_inner(lines: Sequence[Line], at: int) -> bool:
    """A rule inside of a dialog: above the last row of a question, or below a plan."""
    below = [line for line in lines[at + 1 :] if line.text][:3]
    return bool(below) and (_CHAT.match(below[0].text) is not None or _READY.match(paragraph(below)) is not None)


def _rows(pane: Pane, cols: int) -> list[Row]:
    """The options, which stand under everything that is only shown; a preview may stand under them."""
    start = 0
    for at, line in enumerate(pane.lines):
        if is_rule(line.text, "╌", cols):
            start = at + 1
    for part in (pane.lines[start:], pane.lines):
        if not any(line.text.lstrip().startswith("❯ ") for line in part):
            continue
        # Numbers first: what is said of an option may begin with a marker of its own.
        rows = numbered_rows(part, cols, columns=True)
        if any(row.selected for row in rows):
            return _with_free_text(rows, pane)
        return listed_rows(part, cols)
    return []


def _with_free_text(rows: list[Row], pane: Pane) -> list[Row]:
    """Mark the rows that take text: by their words, or by their place once somebody has typed there."""
    texts = [line.text.strip() for line in pane.lines]
    typed: int | None = None
    if any(text == _FEEDBACK for text in texts):
        typed = max(at for at, row in enumerate(rows) if row.number is not None)
        rows = [msgspec.structs.replace(row, description="") if at == typed else row for at, row in enumerate(rows)]
    elif (chat := next((at for at, row in enumerate(rows) if row.label == "Chat about this"), None)) is not None:
        before = [at for at, row in enumerate(rows[:chat]) if row.number is not None]
        # With previews beside them, questions have no such row.
        if before and any(row.number is not None for row in rows[chat:]):
            typed = before[-1]
    return [
        msgspec.structs.replace(row, free_text=True) if at == typed or _FREE.match(row.label) else row
        for at, row in enumerate(rows)
    ]


def _stands_under_a_drawn_line(pane: Pane, rows: Sequence[Row], cols: int) -> bool:
    """A dialog that is taller than the screen has lost its upper edge; what it shows still ends with a drawn line."""
    if not rows:
        return False
    if any(_MORE.match(hint) for hint in pane.hints.split("\n")):
        return True
    return any(is_rule(line.text, "╌", cols) and 0 < rows[0].line - line.at <= 4 for line in pane.lines)


def _question(picture: Picture, pane: Pane, rows: list[Row]) -> ScreenDialog | None:
    head = without_blank_ends(above_rows(pane.lines, rows))
    if not head or not _TABS.match(head[0].text):
        return None
    paged = "→" in head[0].text
    review = any(line.text.strip() == "Review your answers" for line in head[1:])
    tabs = _tabs(picture, head[0], review=review) if paged else ()
    asked = without_blank_ends(head[1:])
    text, body = paragraph(asked), ""
    if review:
        text, body = "Review your answers", block(asked[1:])
    header = "" if paged else head[0].text.strip()
    return ScreenDialog(
        kind="question",
        text=text,
        body=body,
        tool="AskUserQuestion",
        rows=tuple(rows),
        tabs=tabs,
        review=review,
        multiple=any(has_box(line) for line in pane.lines),
        identity=identity_of("question", text, body or header.lstrip("☐☒ "), fixed_labels(rows)),
    )


def _tabs(picture: Picture, line: Line, *, review: bool) -> tuple[Tab, ...]:
    """The questions; the tab that submits is none. Which one is shown is told by its colour."""
    found = [entry for entry in _TAB.finditer(line.text) if entry[0][0] in "☐☒□"]
    answered = [entry[0][0] == "☒" for entry in found]
    shown = next((at for at, entry in enumerate(found) if picture.background(line.at, entry.start()) is not None), None)
    if shown is None and not review:
        shown = answered.index(False) if False in answered else len(found) - 1
    return tuple(Tab(entry[1].strip(), answered[at], at == shown) for at, entry in enumerate(found))


def _plan(pane: Pane, rows: list[Row]) -> ScreenDialog | None:
    head = without_blank_ends(above_rows(pane.lines, rows))
    title = next((line.text.strip() for line in head), "")
    asked = next((paragraph(part) for part in reversed(paragraphs(head))), "")
    ready = any(line.text.strip() == "Ready to code?" for line in head)
    proceed = _READY.search(asked) is not None
    if not ready and not proceed and title != "Exit plan mode?":
        return None
    drawn = [at for at, line in enumerate(head) if line.text and blank(line.text)]
    last = drawn[-1] if drawn and proceed else len(head)
    text = asked if proceed else title
    first = next((at + 1 for at, line in enumerate(head) if "Here is Claude's plan" in line.text), 1)
    body = block(head[first:last])
    return ScreenDialog(
        kind="plan",
        text=text,
        body=body,
        tool="ExitPlanMode",
        rows=tuple(rows),
        identity=identity_of("plan", text, body, fixed_labels(rows)),
    )


def _permission(picture: Picture, pane: Pane, rows: list[Row]) -> ScreenDialog | None:
    head = without_blank_ends(above_rows(pane.lines, rows))
    parts = paragraphs(head)
    text = paragraph(parts[-1]) if parts else ""
    labels = [row.label for row in rows]
    if not (re.match(r"Do you want to\b", text) or "needs your approval" in text) and not (
        any(label.split(",")[0] == "Yes" for label in labels) and any(label.split(",")[0] == "No" for label in labels)
    ):
        return None
    title = head[0].text.strip() if pane.framed and not is_rule(head[0].text, "╌", picture.cols) else ""
    shown = without_blank_ends(head[: -len(parts[-1])] if parts else [])
    body = _subject(picture, shown, title)
    tool = _TOOLS.get(title)
    if title == "Tool use" and any(_SEARCH.match(line.text) for line in shown):
        tool = "WebSearch"
    # Tab turns the plain yes or no, if it is marked, into a field for a remark: the dialog stays the same one.
    ends = (0, len(rows) - 1)
    words = [label.split(",")[0] if at in ends else label for at, label in enumerate(labels)]
    cursor = picture.cursor
    rows = [
        msgspec.structs.replace(row, free_text=True)
        if row.selected and row.line == cursor.row and cursor.col > picture.lines[row.line].indent + 2
        else row
        for row in rows
    ]
    return ScreenDialog(
        kind="permission",
        text=text or title,
        body=body,
        tool=tool,
        rows=tuple(rows),
        amendable="Tab to amend" in pane.hints,
        identity=identity_of("permission", text or title, f"{title}\n{body}", words),
    )


def _subject(picture: Picture, shown: Sequence[Line], title: str) -> str:
    """What is to be permitted: between the drawn lines, with what is said of it before; a command is told alone."""
    drawn = [at for at, line in enumerate(shown) if is_rule(line.text, "╌", picture.cols)]
    if not drawn:
        said = without_blank_ends([line for line in shown if line.text.strip() != title])
        if title == "Bash command" and len(said) > 1 and _is_grey(picture, said[-1]):
            said = said[:-1]
        return block(said)
    said = [line for line in shown[: drawn[0]] if line.text.strip() != title and not line.text.startswith(" Tip:")]
    if len(drawn) < 2 and not title:  # its upper edge has left the screen
        return block(shown[: drawn[0]])
    # Why it is asked may stand under the last line.
    end = drawn[-1] if len(drawn) > 1 else len(shown)
    inside = block(shown[drawn[0] + 1 : end])
    if title == "Bash command":
        return inside or block(said)
    return "\n".join(part for part in (block(said), inside) if part)


def _is_grey(picture: Picture, line: Line) -> bool:
    """Whether this is in a colour of its own: what a command is for, not a part of it."""
    runs = [run for run in picture.look(line.at) if run.text.strip()]
    return bool(runs) and all(run.style.fg is not None for run in runs)


def _menu(pane: Pane, rows: list[Row]) -> ScreenDialog | None:
    """Something else to choose from, such as what a slash command has called up."""
    if not pane.hints and not pane.panel:
        return None
    head = paragraphs(above_rows(pane.lines, rows))
    told = [paragraph(part) for part in head]
    title = head[0][0].text.strip() if head else rows[0].label
    text = next((said for said in told if "?" in said), title)
    body = "\n".join(rest for said in told if (rest := said.removeprefix(text).strip()))
    return ScreenDialog(
        kind="setup",
        subtype="menu",
        text=text,
        body=body,
        rows=tuple(rows),
        multiple=any(has_box(line) for line in pane.lines),
        identity=identity_of("setup", text, body, fixed_labels(rows)),
    )

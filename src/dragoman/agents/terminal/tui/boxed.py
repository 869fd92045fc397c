# ruff: noqa: RUF001 - the signs are those that the agents draw
"""The screens of Gemini CLI and of Qwen Code, which comes from it: a dialog is the last box on the screen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from dragoman.hub.events import DecisionKind

from .lines import Line, blank, block, is_rule, paragraph, without_blank_ends
from .reading import Row, ScreenDialog, ScreenReading, Tab, fixed_labels, identity_of
from .rows import has_box, listed_rows, numbered_rows
from .screen import Picture, newest_block

_TOP = re.compile(r"^\s{0,3}[╭┌]─+[╮┐]$")
_BOTTOM = re.compile(r"^\s{0,3}[╰└]─+[╯┘]$")
_SPINNER = re.compile(r"^(\s+)[⠀-⣿]\s.*esc to cancel")
_WAITING = re.compile(r"^\s*[⠀-⣿]\s+Waiting for user confirmation")
_INVITATION = "Type your message or @path/to/file"
_TOOL = re.compile(r"^\?\s+(\w+)")
_HINT = re.compile(r"^\(?(Use )?(Enter|Press Enter) to |^\(Use Enter", re.IGNORECASE)
_PAGES = re.compile(r"^←\s(.*?)\s*→$")
_PAGE = re.compile(r"([□✓✔≡]) (.+?)(?=\s+│|$)")
_FREE = "Enter a custom value"
_FIELD = re.compile(r"^>\s(.*)$")
_ERROR = re.compile(r"^✕\s+(.*)$")
_RETRY = re.compile(r"\s*\(Press Ctrl\+Y to retry\)$")

_TOOLS = {
    "Shell": "run_shell_command",
    "WriteFile": "write_file",
    "ReadFile": "read_file",
    "Edit": "replace",
    "WebFetch": "web_fetch",
    "ExitPlanMode": "exit_plan_mode",
}
"""The tools' names in their own hooks, by what the screen calls them."""


class _Look(NamedTuple):
    """Where the input box of one of them begins its text, the columns that text leaves free, where its spinner turns
    (one that stands elsewhere is quoted), and its tools."""

    column: int
    margin: int
    spinner: int
    tools: Mapping[str, str]


_GEMINI = _Look(3, 8, 1, _TOOLS)
_QWEN = _Look(2, 6, 2, {**_TOOLS, "Edit": "edit"})


def read_gemini(picture: Picture) -> ScreenReading:
    """What is on Gemini's screen. Pure."""
    return _read(picture, _GEMINI, _gemini_box(picture))


def read_qwen(picture: Picture) -> ScreenReading:
    """What is on Qwen's screen. Pure."""
    return _read(picture, _QWEN, _qwen_box(picture))


def _read(picture: Picture, look: _Look, box: tuple[int, int, int] | None) -> ScreenReading:
    if box is None:
        return ScreenReading(dialog=_dialog(picture, look), working=_spins(picture.lines, look))
    edge, first, last = box
    above = _conversation(picture.lines[:edge])
    working = _spins(picture.lines[:edge], look)
    newest = [] if working else newest_block(above, _begins)
    return ScreenReading(
        input_box=picture.draft(first, last, look.column, (_INVITATION,), picture.cols - look.margin),
        working=working,
        interrupted=_interrupted(newest),
        error=_error(above) if not working else None,
    )


def _gemini_box(picture: Picture) -> tuple[int, int, int] | None:
    """Top of what belongs to it, first and last line of the draft. Prompts already sent look alike but for the rule."""
    lines = picture.lines[: picture.bottom + 1]
    bottom = next((line.at for line in reversed(lines) if is_rule(line.text, "▀", picture.cols)), None)
    if bottom is None or sum(1 for line in lines[bottom + 1 :] if line.text) > 6:
        return None
    top = next((line.at for line in reversed(lines[:bottom]) if is_rule(line.text, "▄", picture.cols)), None)
    if top is None or not lines[top + 1].text.startswith((" > ", " >", " ! ", " * ")):
        return None
    rule = next(
        (line.at for line in reversed(lines[max(0, top - 3) : top]) if is_rule(line.text, "─", picture.cols)), None
    )
    return (rule, top + 1, bottom - 1) if rule is not None and bottom > top + 1 else None


def _qwen_box(picture: Picture) -> tuple[int, int, int] | None:
    lines = picture.lines[: picture.bottom + 1]
    rules = [line.at for line in lines if is_rule(line.text, "─", picture.cols)]
    if len(rules) < 2 or rules[-1] - rules[-2] < 2 or len(lines) - rules[-1] > 12:
        return None
    top, bottom = rules[-2:]
    if not re.match(r"^[>!*](\s|$)", lines[top + 1].text):
        return None
    return top, top + 1, bottom - 1


def _spins(lines: Sequence[Line], look: _Look) -> bool:
    said = [line for line in lines if line.text][-4:]
    found = [_SPINNER.match(line.text) for line in said]
    return any(spinner is not None and len(spinner[1]) == look.spinner for spinner in found)


def _conversation(lines: list[Line]) -> list[Line]:
    """Without the hint above the box."""
    said = list(lines)
    while said and (not said[-1].text or said[-1].indent > 20 or is_rule(said[-1].text, "─", len(said[-1].text))):
        said.pop()
    return said


def _begins(line: Line) -> bool:
    return re.match(r"^\s{0,3}[✦ℹ✕●>╭]\s?", line.text) is not None


def _interrupted(newest: list[Line]) -> bool:
    if not newest:
        return False
    first = newest[0].text.strip()
    if re.match(r"[ℹ●] Request cancelled\.", first):
        return True
    # A tool that was refused is shown in a box, with a dash.
    return first.startswith("╭") and len(newest) > 1 and re.match(r"│ -\s", newest[1].text.strip()) is not None


def _error(above: list[Line]) -> str | None:
    newest = newest_block(above, _begins)
    if newest and newest[0].text.strip().startswith("ℹ This request failed"):
        newest = newest_block(above[: newest[0].at - above[0].at], _begins)
    found = _ERROR.match(paragraph(newest)) if newest else None
    return _RETRY.sub("", found[1]).strip() if found is not None else None


# Dialogs


def _dialog(picture: Picture, look: _Look) -> ScreenDialog | None:
    inside, whole = _last_box(picture)
    if not inside:
        return None
    # When the top is off the screen, the first line may be anything.
    title = inside[0].text.strip() if whole else ""
    if title == "Answer Questions":
        return _question(picture, inside)
    rows = numbered_rows(inside, picture.cols) or listed_rows(inside, picture.cols)
    if not rows:
        return _key_entry(title)
    head = without_blank_ends([line for line in inside if line.at < rows[0].line])
    told = [line for line in head if not blank(line.text)]
    asked = next((line for line in reversed(told) if line.text.rstrip().endswith("?")), told[0] if told else inside[0])
    body = block(_subject(head, asked))
    text = asked.text.strip()
    tool_line = next((found for line in told[:2] if (found := _TOOL.match(line.text.strip()))), None)
    tool = look.tools.get(tool_line[1]) if tool_line is not None else None
    kind: DecisionKind = "permission"
    subtype: str | None = None
    if re.match(r"Do you trust (the files in )?this folder\?", title):
        text, subtype, tool = title, "trust", None
        body = block(head[1:])
    elif re.search(r"^\? Get started$|^Select Authentication Method$|· Provider$", title):
        kind, subtype, tool = "setup", "login_method", None
    elif tool == "exit_plan_mode" or text == "Ready to start implementation?":
        kind, tool = "plan", "exit_plan_mode"
        rows = [msgspec.structs.replace(row, free_text=True) if _is_feedback(inside, row) else row for row in rows]
    elif tool_line is None and not re.search(r"^(Allow|Apply|Do you want)\b", text):
        kind, subtype = "setup", "menu"
    else:
        subtype = "tool"
    return ScreenDialog(
        kind=kind,
        subtype=subtype,
        text=text,
        body=body,
        tool=tool,
        rows=tuple(rows),
        identity=identity_of(kind, text, f"{title}\n{body}", fixed_labels(rows)),
    )


def _last_box(picture: Picture) -> tuple[list[Line], bool]:
    """The inside of the box that nothing but a spinner follows, without its sides, and whether its top is there."""
    lines = picture.lines[: picture.bottom + 1]
    while lines and (not lines[-1].text or _WAITING.match(lines[-1].text)):
        lines.pop()
    if not lines or not _BOTTOM.match(lines[-1].text):
        return [], False
    left, right = lines[-1].indent, len(lines[-1].text) - 1
    top = next(
        (line.at for line in reversed(lines[:-1]) if _TOP.match(line.text) and line.indent == left),
        -1,
    )
    inside = []
    for line in lines[top + 1 : -1]:
        text = line.text
        if text[left : left + 1] != "│":
            return [], False
        inside.append(Line(line.at, _within(text, left, right)))
    return without_blank_ends(inside), top >= 0


def _within(text: str, left: int, right: int) -> str:
    """A line without the sides of its box; wide characters shift the right one."""
    end = right if text[right : right + 1] == "│" else text.rfind("│")
    return text[left + 2 : end].rstrip() if end > left else text[left + 2 :]


def _subject(head: list[Line], asked: Line) -> list[Line]:
    """What it is about: a box of its own if there is one, else what is said between title and question."""
    boxes = [at for at, line in enumerate(head) if re.match(r"^[╭┌]─+[╮┐]$", line.text.strip())]
    ends = [at for at, line in enumerate(head) if re.match(r"^[╰└]─+[╯┘]$", line.text.strip())]
    if boxes and ends and ends[-1] > boxes[0]:
        framed = head[boxes[0] + 1 : ends[-1]]
        return [Line(line.at, re.sub(r"\s*│$", "", re.sub(r"^│ ?", "", line.text))) for line in framed]
    return [line for line in head[1:] if line.at != asked.at and not _TOOL.match(line.text.strip())]


def _is_feedback(inside: list[Line], row: Row) -> bool:
    """Whether what is wrong with a plan is typed here, or has been: the hint is another one then."""
    typing = row.selected and any("Enter to submit" in line.text for line in inside[-2:])
    return row.label.startswith("Type your feedback") or typing


def _question(picture: Picture, inside: list[Line]) -> ScreenDialog:
    pages = next((line for line in inside[:4] if _PAGES.match(line.text.strip())), None)
    review = any(line.text.strip() == "Review your answers:" for line in inside)
    rows = [] if review else numbered_rows(inside, picture.cols)
    start = (pages.at if pages is not None else inside[0].at) + 1
    rows = _with_free_text(inside, rows)
    end = rows[0].line if rows else inside[-1].at
    said = [line for line in inside if start <= line.at < end and line.text.strip() not in {"▲", "▼"}]
    multiple = any("(Select all that apply)" in line.text for line in said) or any(has_box(line) for line in inside)
    said = without_blank_ends([line for line in said if "(Select all that apply)" not in line.text])
    text, body = paragraph(said), ""
    if review:
        text, body = "Review your answers:", block(said[1:])
    return ScreenDialog(
        kind="question",
        text=text,
        body=body,
        tool="ask_user",
        rows=tuple(rows),
        tabs=_tabs(picture, pages, review=review) if pages is not None else (),
        review=review,
        multiple=multiple,
        enter_only=review,
        identity=identity_of("question", text, body, fixed_labels(rows)),
    )


def _with_free_text(inside: list[Line], rows: list[Row]) -> list[Row]:
    """The last row takes text, also once something is typed there; a question without options is only a field."""
    if not rows:
        field = next((line for line in reversed(inside) if _FIELD.match(line.text)), None)
        if field is None or not any("Enter to submit" in line.text for line in inside):
            return []
        return [Row(field.text[2:].strip(), field.at, selected=True, free_text=True)]
    typing = rows[-1].selected and any("Enter to submit" in line.text for line in inside[-2:])
    return [
        msgspec.structs.replace(row, free_text=True) if row.label == _FREE or (typing and row is rows[-1]) else row
        for row in rows
    ]


def _tabs(picture: Picture, line: Line, *, review: bool) -> tuple[Tab, ...]:
    entries = [found for found in _PAGE.finditer(_PAGES.sub(r"\1", line.text.strip())) if found[1] != "≡"]
    answered = [found[1] != "□" for found in entries]
    shown = None if review else _shown_page(picture, line, [found[2] for found in entries])
    if shown is None and not review and entries:
        shown = answered.index(False) if False in answered else len(entries) - 1
    return tuple(Tab(found[2].strip(), answered[at], at == shown) for at, found in enumerate(entries))


def _shown_page(picture: Picture, line: Line, labels: list[str]) -> int | None:
    """The page whose name is drawn bold, or in a colour of its own."""
    runs = picture.look(line.at)
    for at, label in enumerate(labels):
        if any(label in run.text and (run.style.bold or run.style.underline or run.style.inverse) for run in runs):
            return at
    return None


def _key_entry(title: str) -> ScreenDialog | None:
    if title != "Enter Gemini API Key":
        return None
    return ScreenDialog(kind="setup", subtype="api_key", text=title, identity=identity_of("setup", title, "", ()))

"""OpenCode's screen: everything has a bar at its left, and what is marked is told by its colours only."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from .lines import Line, block, paragraph, unwrapped, without_blank_ends
from .reading import Row, ScreenDialog, ScreenReading, Tab, fixed_labels, identity_of
from .screen import Picture

_BAR = "┃"
_FOOT = re.compile(r"^\s*╹▀+$")
_OPTIONS = re.compile(r"^\s+(\S.*?)\s{2,}(?:ctrl\+f|⇆ select|enter confirm).*enter confirm\b")
_HINT = re.compile(r"^\s*(⇆ tab\s+)?(↑↓ select\s+)?enter (confirm|submit|toggle)\b.*esc dismiss")
_NUMBERED = re.compile(r"^(\s*)(\d{1,2})\.\s+(\[(.)\]\s+)?(\S.*)$")
_ALL = re.compile(r"\s*\(select all that apply\)$")
_FREE = "Type your own answer"
_INVITATION = "Ask anything"
_BUSY = re.compile(r"\besc (again to )?interrupt\b")
_FOOTER = re.compile(r"^\s*▣\s.*· interrupted$")
_TOOLS = {"# Shell command": "bash", "→ Edit": "edit"}


def read_opencode(picture: Picture) -> ScreenReading:
    """What is on it. Pure, but of little use without the styled lines."""
    dialog = _dialog(picture)
    if dialog is not None:
        return ScreenReading(dialog=dialog)
    foot = next((line.at for line in reversed(picture.lines) if _FOOT.match(line.text)), None)
    if foot is None:
        return ScreenReading()
    column = picture.lines[foot].indent
    first = foot
    while first > 0 and picture.lines[first - 1].text[column : column + 1] == _BAR:
        first -= 1
    working = any(_BUSY.search(line.text) for line in picture.lines[foot + 1 : foot + 3])
    above = [line for line in picture.lines[:first] if line.text]
    return ScreenReading(
        input_box=_draft(picture.lines[first : foot - 1], column, picture.cols),
        working=working,
        interrupted=not working and bool(above) and _FOOTER.match(above[-1].text) is not None,
    )


def _draft(lines: Sequence[Line], column: int, cols: int) -> str:
    """What stands between the empty first line and the line of the model, which the caller has left out."""
    texts = [line.text[column + 3 :].rstrip() for line in lines]
    while texts and not texts[0]:
        texts.pop(0)
    while texts and not texts[-1]:
        texts.pop()
    if not texts or texts[0].startswith(_INVITATION):
        return ""
    return unwrapped(texts, cols - 2 * column - 5)


def _dialog(picture: Picture) -> ScreenDialog | None:
    """The bar at the bottom of the screen with a line of hints as its last."""
    lines = picture.lines[: picture.bottom + 1]
    if not lines or not lines[-1].text.lstrip().startswith(_BAR):
        return None
    column = lines[-1].indent
    first = len(lines) - 1
    while first > 0 and lines[first - 1].text[column : column + 1] == _BAR:
        first -= 1
    inside = [Line(line.at, line.text[column + 1 :]) for line in lines[first:]]
    inside = without_blank_ends([line for line in inside if line.text.strip() or line is not inside[-1]])
    if not inside:
        return None
    if (options := _OPTIONS.match(inside[-1].text)) is not None and inside[0].text.strip().startswith("△"):
        return _permission(picture, inside, options, column + 1)
    if _HINT.match(inside[-1].text):
        return _question(picture, inside, column + 1)
    return None


def _permission(picture: Picture, inside: list[Line], options: re.Match[str], shift: int) -> ScreenDialog:
    line = inside[-1].at
    # The hints at the right have the colour that an option has which is not marked.
    plain = picture.background(line, shift + len(options[0]) - 1)
    rows = []
    for found in re.finditer(r"\S+(?: \S+)*", options[1]):
        colour = picture.background(line, shift + options.start(1) + found.start())
        rows.append(Row(found[0], line, selected=colour != plain))
    said = without_blank_ends(inside[1:-1])
    about = said[0].text.strip() if said else ""
    tool = next((name for words, name in _TOOLS.items() if about.startswith(words)), None)
    text = inside[0].text.strip().lstrip("△ ")
    always = text == "Always allow"
    body = block(said[1:])
    body = body.removeprefix("$ ") if tool == "bash" else f"{about}\n{body}".strip()
    return ScreenDialog(
        kind="permission",
        subtype="always" if always else "tool",
        text=text,
        body=body,
        tool=tool,
        rows=tuple(rows),
        horizontal=True,
        identity=identity_of("permission", text, body, fixed_labels(rows)),
    )


def _question(picture: Picture, inside: list[Line], shift: int) -> ScreenDialog | None:
    hint = inside[-1].text
    pages = inside[0] if "⇆ tab" in hint else None
    rest = without_blank_ends(inside[1:-1] if pages is not None else inside[:-1])
    if not rest:
        return None
    review = pages is not None and "↑↓" not in hint
    rows = [] if review else _rows(picture, rest, shift)
    if not review and not rows:
        return None
    head = rest[:1] if review else [line for line in rest if line.at < rows[0].line]
    text = paragraph(head)
    multiple = _ALL.search(text) is not None or "enter toggle" in hint
    text = _ALL.sub("", text)
    body = block(rest[1:]) if review else ""
    return ScreenDialog(
        kind="question",
        text=text,
        body=body,
        tool="question",
        rows=tuple(rows),
        tabs=_tabs(picture, pages, shift) if pages is not None else (),
        review=review,
        multiple=multiple,
        enter_only=review,
        identity=identity_of("question", text, body, fixed_labels(rows)),
    )


def _rows(picture: Picture, lines: Sequence[Line], shift: int) -> list[Row]:
    rows: list[Row] = []
    colours: list[object] = []
    column = 0
    for line in lines:
        found = _NUMBERED.match(line.text)
        # What is said of an option may begin with a number too, but stands deeper.
        if found is not None and int(found[2]) == len(rows) + 1 and (not rows or found.start(2) <= column + 1):
            column = found.start(2)
            label = found[5].removesuffix(" ✓").strip()
            checked = (found[4] or "").strip() != "" or found[5].endswith(" ✓")
            rows.append(Row(label, line.at, int(found[2]), checked=checked, free_text=label == _FREE))
            colours.append(_colour(picture, line.at, shift + found.start(5)))
        elif rows and line.text.strip():
            rows[-1] = msgspec.structs.replace(
                rows[-1], description=f"{rows[-1].description} {line.text.strip()}".strip()
            )
    marked = [at for at, colour in enumerate(colours) if colour is not None and colours.count(colour) == 1]
    if len(rows) > 2 and len(marked) == 1:
        rows[marked[0]] = msgspec.structs.replace(rows[marked[0]], selected=True)
    return rows


def _colour(picture: Picture, at: int, column: int) -> object:
    """How one cell of a line looks."""
    start = 0
    for run in picture.look(at):
        start += len(run.text)
        if column < start:
            return run.style.fg, run.style.bg, run.style.bold
    return None


def _tabs(picture: Picture, line: Line, shift: int) -> tuple[Tab, ...]:
    """The names of the questions, and the one that is shown by its colour; the last name is that of the review."""
    found = list(re.finditer(r"\S+(?: \S+)*", line.text))[:-1]
    colours = [picture.background(line.at, shift + entry.start()) for entry in found]
    plain = picture.background(line.at, shift)
    return tuple(Tab(entry[0], current=colours[at] != plain) for at, entry in enumerate(found))

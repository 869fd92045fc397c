# ruff: noqa: RUF001 - the signs are those that the agents draw
"""Options of a dialog, found from the bottom up: what stands above them may look like options too."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from .lines import Line, blank, was_wrapped
from .reading import Row

MARKERS = "❯›●>"

_NUMBERED = re.compile(rf"^(\s*)([{MARKERS}]\s)?(\s*)[↑↓]?\s?(\d{{1,2}})\.\s+(\S.*)$")
_MARKED = re.compile(r"^(\s*)[❯›●]\s+(\S.*)$")
_KEY = re.compile(r"\s+\((esc|tab|enter|shift\+tab|[a-z])\)$", re.IGNORECASE)
_BOX = re.compile(r"^\[(.)\]\s+")
_TICKED = re.compile(rf"^\s*(?:[{MARKERS}]\s)?\s*(?:\d{{1,2}}\.\s+)?\[.\]\s")
_TICK = re.compile(r"^[✔✓]\s+|\s+[✔✓]$")
_BESIDE = re.compile(r"\s{2,}[┌│└╭╰].*$")
_DRAWN = re.compile(r"^[┌│└╭╰├▲▼]|^Notes: ")
_STEPS = frozenset({"Submit", "Next", "Done", "Enable selected", "Chat about this"})
"""Rows without a number among or after numbered or ticked ones."""

MAX_BETWEEN = 12
"""Lines of description that one option may have."""


def numbered_rows(lines: Sequence[Line], width: int, *, columns: bool = False) -> list[Row]:
    """The last list of options with numbers, from number 1 or where it has been scrolled to.

    ``columns``: descriptions stand beside the labels. Empty without a marked row: what nobody can choose from is text.
    """
    # What is said of an option may look like an option itself, but stands deeper.
    columns_of_numbers = {found.start(4) for line in lines if (found := _NUMBERED.match(line.text)) is not None}
    for column in sorted(columns_of_numbers):
        rows = _rows_at(lines, column, width, columns=columns)
        if any(row.number is not None for row in rows) and any(row.selected for row in rows):
            return rows
    return []


def _rows_at(lines: Sequence[Line], column: int, width: int, *, columns: bool) -> list[Row]:
    """The last list whose numbers stand in this column."""
    rows: list[Row] = []
    below: list[Line] = []
    for line in reversed(lines):
        found = _NUMBERED.match(line.text)
        if found is not None and found.start(4) > column + 1:
            found = None
        if found is None:
            if (step := _step(line)) is not None:
                rows.append(step)
            elif rows and not blank(line.text) and (line.indent < column or len(below) >= MAX_BETWEEN):
                break
            else:
                below.append(line)
            continue
        number, at = int(found[4]), found.start(4)
        known = [row.number for row in rows if row.number is not None]
        if at < column - 1 or (known and number != known[-1] - 1):
            break
        if not known:
            below = below if _belongs(below, found.start(5)) else []
        if _holds_a_list(below[::-1]):
            return []
        rows.append(_numbered_row(line, found, below[::-1], width, columns=columns))
        below = []
        if number <= 1:
            break
    return rows[::-1]


def listed_rows(lines: Sequence[Line], width: int) -> list[Row]:
    """The options without numbers around the last marked one."""
    marked = next((at for at in range(len(lines) - 1, -1, -1) if _MARKED.match(lines[at].text)), None)
    if marked is None:
        return []
    column = lines[marked].indent + 2
    first, last = marked, marked
    while first > 0 and _in_list(lines[first - 1], column):
        first -= 1
    while last + 1 < len(lines) and _in_list(lines[last + 1], column):
        last += 1
    while not lines[first].text.strip():
        first += 1
    while not lines[last].text.strip():
        last -= 1
    return _list(lines, marked, first, last, width)


def _list(lines: Sequence[Line], marked: int, first: int, last: int, width: int) -> list[Row]:
    column = lines[marked].indent + 2
    chosen = lines[first : last + 1]
    ticks = any(line.text[column:].startswith(("✔ ", "✓ ")) for line in chosen)
    starts = {column, column + 2} if ticks or lines[marked].text[column : column + 2] == "  " else {column}
    # Between blank lines, what follows an option's first line is said of it, wherever it begins.
    spaced = any(not line.text.strip() for line in chosen)
    rows: list[Row] = []
    for at, line in enumerate(chosen, start=first):
        text = line.text[column:] if line is lines[marked] else line.text
        said = text.strip()
        start = len(line.text) - len(text.lstrip())
        if not said:
            continue
        under = spaced and at > first and bool(lines[at - 1].text.strip())
        if line is lines[marked] or said in _STEPS or (start in starts and not under):
            label, key, checked = _label(said)
            rows.append(Row(label, line.at, None, key, selected=line is lines[marked], checked=checked))
        elif rows:
            rows[-1] = _continued(rows[-1], lines[at - 1].text, said, width)
    return rows


def _in_list(line: Line, column: int) -> bool:
    return not line.text.strip() or (not blank(line.text) and line.indent >= column)


def _numbered_row(line: Line, found: re.Match[str], below: Sequence[Line], width: int, *, columns: bool) -> Row:
    said = _BESIDE.sub("", found[5])
    description = ""
    if columns and (parts := re.split(r"\s{2,}", said, maxsplit=1)) and len(parts) == 2:
        said, description = parts
    label, key, checked = _label(said)
    row = Row(label, line.at, int(found[4]), key, bool(found[2]), description, checked)
    before = line.text
    for line_below in below:
        said = line_below.text.strip()
        if blank(line_below.text) or _DRAWN.match(said):
            break
        row = _continued(row, before, said, width)
        before = line_below.text
    return row


def _continued(row: Row, before: str, said: str, width: int) -> Row:
    """The row with a line that stands under it: more of its label if that did not fit, else of its description."""
    if not row.description and row.key is None and was_wrapped(before, said, width):
        label, key, _ = _label(f"{row.label} {said}")
        return msgspec.structs.replace(row, label=label, key=key)
    return msgspec.structs.replace(row, description=f"{row.description} {said}".strip())


def plain_label(said: str) -> str:
    """A label as a row of the screen would have it."""
    return _label(said)[0]


def _label(said: str) -> tuple[str, str | None, bool]:
    """The label alone, the key that is shown with it, and whether it is ticked."""
    box = _BOX.match(said)
    checked = box is not None and bool(box[1].strip())
    said = said[box.end() :] if box is not None else said
    if box is None and _TICK.search(said):
        checked, said = True, _TICK.sub("", said)
    key = _KEY.search(said)
    if key is not None:
        said = said[: key.start()]
    return said.strip(), key[1].lower() if key is not None else None, checked


def _holds_a_list(below: Sequence[Line]) -> bool:
    """Whether a list of its own stands here: between an option and what is said of it there is no room."""
    gap = next((at for at, line in enumerate(below) if blank(line.text)), len(below))
    return any(_NUMBERED.match(line.text) for line in below[gap:])


def _belongs(below: Sequence[Line], column: int) -> bool:
    """Whether what stands under the last row is said of it. ``below`` is from the bottom up."""
    return bool(below) and not blank(below[-1].text) and below[-1].indent >= column - 3


def _step(line: Line) -> Row | None:
    said = line.text.strip()
    marked = said.startswith("❯ ")
    label = said[1:].strip() if marked else said
    return Row(label, line.at, selected=marked) if label in _STEPS else None


def has_box(line: Line) -> bool:
    """Whether this is an option that can be ticked."""
    return _TICKED.match(line.text) is not None

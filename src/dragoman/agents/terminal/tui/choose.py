# ruff: noqa: RUF001 - the signs are those that the agents draw
"""Which row of a dialog is meant, and how the marker gets there. Pure; the labels decide, never a fixed place."""

from __future__ import annotations

import re

from .reading import Row, ScreenDialog
from .rows import plain_label

_YES = re.compile(
    r"^(yes|allow|accept|approve|trust|proceed|ok|continue|confirm|submit|use this|i trust|try new|update now)\b",
    re.IGNORECASE,
)
_NO = re.compile(
    r"^(no|don['’]t|do not|cancel|reject|deny|decline|exit|quit|skip|back|keep planning|dismiss|continue without using"
    r"|use existing)\b",
    re.IGNORECASE,
)
_WIDER = re.compile(
    r"\balways\b|auto[- ]?(mode|accept|approve)|\bbypass\b|don['’]t ask|do not ask|(this|entire|rest of the) session\b"
    r"|automatically|accept edits|all edits|switch to|all future|parent folder|clear context"
    r"|\bfor these files\b|external editor",
    re.IGNORECASE,
)
"""More than this once, or another way of working."""

_ASKS_ON = (
    re.compile(r"manually (approve|accept)", re.IGNORECASE),
    re.compile(r"ask each time|previous mode \(default\)", re.IGNORECASE),
)
"""A plan's plain yes names the mode that work goes on in: best first."""

_KEEPS_PLANNING = re.compile(r"keep planning|stay in plan|tell claude|what to change", re.IGNORECASE)


def marked_row(dialog: ScreenDialog) -> int | None:
    """The row at which the marker stands."""
    return next((at for at, row in enumerate(dialog.rows) if row.selected), None)


def keys_to(dialog: ScreenDialog, row: int) -> list[str]:
    """The arrow keys that move the marker to this row: empty when it is there, or when no row is marked."""
    marked = marked_row(dialog)
    if marked is None or not 0 <= row < len(dialog.rows):
        return []
    back, on = ("left", "right") if dialog.horizontal else ("up", "down")
    return [on] * (row - marked) if row > marked else [back] * (marked - row)


def find_row(dialog: ScreenDialog, *, label: str | None, number: int | None, accept: bool | None) -> int | None:
    """The row with this label, else this number, else the one that means yes or no; None if there is none.

    Yes is the plain yes: once, and nothing beside it. No for a plan is to go on planning.
    """
    rows = dialog.rows
    if label is not None:
        return _by_label(rows, label)
    if number is not None:
        return next((at for at, row in enumerate(rows) if row.number == number), None)
    if accept is None:
        return None
    return _plain_yes(dialog) if accept else _no(dialog)


def _by_label(rows: tuple[Row, ...], label: str) -> int | None:
    for said in (label, plain_label(label)):
        same = [at for at, row in enumerate(rows) if row.label == said]
        if same:
            return same[0]
    wanted = _folded(label)
    alike = [at for at, row in enumerate(rows) if _folded(row.label) == wanted]
    if alike:
        return alike[0] if len(alike) == 1 else None
    # A label that was cut, or that has got a remark since.
    begun = [at for at, row in enumerate(rows) if wanted and _folded(row.label).startswith(wanted)]
    return begun[0] if len(begun) == 1 else None


def _folded(label: str) -> str:
    return " ".join(label.split()).casefold().rstrip(".…")


def _plain_yes(dialog: ScreenDialog) -> int | None:
    if dialog.subtype == "always":  # a second question, whose yes is for ever
        return None
    rows = dialog.rows
    yes = [at for at, row in enumerate(rows) if _YES.match(row.label) and not _NO.match(row.label)]
    for asks_on in _ASKS_ON:
        if named := [at for at in yes if asks_on.search(rows[at].label)]:
            return named[0]
    plain = [at for at in yes if not _WIDER.search(rows[at].label)]
    return plain[0] if plain else None


def _no(dialog: ScreenDialog) -> int | None:
    rows = dialog.rows
    if dialog.kind == "plan":
        planning = [at for at, row in enumerate(rows) if row.free_text or _KEEPS_PLANNING.search(row.label)]
        if planning:
            return planning[0]
    no = [at for at, row in enumerate(rows) if _NO.match(row.label)]
    return no[0] if no else None

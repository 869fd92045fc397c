# ruff: noqa: RUF001 - the signs are those that the agents draw
"""Markers and numbers count only where the dialog puts its own: what a model writes of an option may hold some too."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.agents.terminal.tui import Row, ScreenDialog, read_screen

from .screens import dialog, recorded, screen


def rows(shown: ScreenDialog) -> list[Row]:
    """The rows without what is said of them."""
    return [msgspec.structs.replace(row, description="") for row in shown.rows]


SAID = [
    "❯ SQLite",
    "❯ Type something",
    "❯ and more",
    "1. Back up first",
    "2. Delete all",
    "3. Delete all",
    "12. is a dozen",
    "❯ 1. Delete all",
    "❯ 2. Delete all",
    "❯ 4. Chat about this",
]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize(
    ("agent", "moment"),
    [
        ("claude", "question-page-1"),
        ("claude", "question-single"),
        ("claude", "question-multiple"),
        ("claude", "question-multiple-submit-row"),
        ("gemini", "question-page-1"),
        ("gemini", "question-multiple"),
        ("opencode", "question-page-1"),
        ("opencode", "question-page-2"),
    ],
)
def test_what_is_said_of_an_option_is_no_option_and_marks_none(agent: str, moment: str, said: str, which: int) -> None:
    plain = dialog(agent, moment)
    described = [row for row in plain.rows if row.description][which]
    snapshot, styled = recorded(agent, moment)
    lines = [
        line.replace(described.description, said) if at > described.line else line
        for at, line in enumerate(snapshot.lines)
    ]
    assert lines != list(snapshot.lines)
    looks = (
        ()
        if styled is None
        else tuple(
            tuple(msgspec.structs.replace(run, text=run.text.replace(described.description, said)) for run in runs)
            if at > described.line
            else runs
            for at, runs in enumerate(styled())
        )
    )
    shown = screen(lines, row=snapshot.cursor.row, col=snapshot.cursor.col)
    read = read_screen(agent, shown, (lambda: looks) if looks else None).dialog
    assert read is not None
    assert rows(read) == rows(plain)


def test_the_rows_are_the_same_wherever_the_marker_stands() -> None:
    on_a_row, on_submit = dialog("claude", "question-multiple"), dialog("claude", "question-multiple-submit-row")
    assert [(row.number, row.label) for row in on_submit.rows] == [(row.number, row.label) for row in on_a_row.rows]

# ruff: noqa: RUF001 - the signs are those that the agents draw
"""A marker counts only where the dialog puts its own: what a model writes of an option may hold one too."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.agents.terminal.tui import Row, ScreenDialog, read_screen

from .screens import dialog, recorded, screen


def rows(shown: ScreenDialog) -> list[Row]:
    """The rows without what is said of them."""
    return [msgspec.structs.replace(row, description="") for row in shown.rows]


@pytest.mark.parametrize("said", ["❯ SQLite", "❯ Type something", "❯ and more"])
@pytest.mark.parametrize("moment", ["question-page-1", "question-single"])
def test_a_marker_in_what_is_said_of_an_option_marks_no_row(moment: str, said: str) -> None:
    plain = dialog("claude", moment)
    described = next(row for row in plain.rows if row.description)
    snapshot, _ = recorded("claude", moment)
    lines = [
        line.replace(described.description, said) if at > described.line else line
        for at, line in enumerate(snapshot.lines)
    ]
    assert lines != list(snapshot.lines)
    read = read_screen("claude", screen(lines, row=snapshot.cursor.row, col=snapshot.cursor.col)).dialog
    assert read is not None
    assert rows(read) == rows(plain)

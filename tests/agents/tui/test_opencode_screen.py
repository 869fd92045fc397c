"""OpenCode 1.18: what is marked is told by colours."""

from __future__ import annotations

import pytest

from dragoman.agents.terminal.tui import read_screen

from .screens import dialog, labels, marked, read, recorded


@pytest.mark.parametrize(
    ("moment", "row"),
    [
        ("permission-shell", "Allow once"),
        ("permission-shell-second", "Allow always"),
        ("permission-shell-third", "Reject"),
        ("permission-always", "Confirm"),
    ],
)
def test_the_marked_option_has_a_colour_of_its_own(moment: str, row: str) -> None:
    shown = dialog("opencode", moment)
    assert shown.horizontal
    assert marked(shown) == row


def test_without_colours_nothing_is_marked() -> None:
    snapshot, _ = recorded("opencode", "permission-shell")
    found = read_screen("opencode", snapshot).dialog
    assert found is not None
    assert labels(found) == ["Allow once", "Allow always", "Reject"]
    assert not any(row.selected for row in found.rows)


def test_what_is_to_be_permitted() -> None:
    shell, write = dialog("opencode", "permission-shell"), dialog("opencode", "permission-write")
    assert (shell.tool, shell.body) == ("bash", "touch made.txt")
    assert (write.tool, write.body) == ("edit", "→ Edit hello.txt\n1 + hello")
    assert dialog("opencode", "permission-always").subtype == "always"


def test_questions() -> None:
    assert marked(dialog("opencode", "question-single-second-row")) == "Safe"
    first, second = dialog("opencode", "question-page-1"), dialog("opencode", "question-page-2-checked")
    assert [(tab.label, tab.current) for tab in first.tabs] == [("Database", True), ("Parts", False)]
    assert [(tab.label, tab.current) for tab in second.tabs] == [("Database", False), ("Parts", True)]
    assert second.multiple
    assert [row.checked for row in second.rows] == [True, False, False]
    assert second.identity == dialog("opencode", "question-page-2").identity
    assert second.rows[2].free_text
    review = dialog("opencode", "question-review")
    assert (review.review, review.enter_only, review.rows) == (True, True, ())


def test_retries_are_work() -> None:
    assert read("opencode", "retrying").working
    assert read("opencode", "working-esc-once").working

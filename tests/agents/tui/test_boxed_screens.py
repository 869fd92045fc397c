"""Gemini CLI 0.61 and Qwen Code 0.15."""

from __future__ import annotations

import pytest

from dragoman.agents.terminal.tui import Row, read_screen

from .screens import dialog, labels, marked, read, recorded, screen


@pytest.mark.parametrize(
    ("agent", "moment", "tool", "text", "body"),
    [
        ("gemini", "permission-shell", "run_shell_command", "Allow execution of [Shell]?", "touch made.txt"),
        ("gemini", "permission-write", "write_file", "Apply this change?", "1 hello"),
        ("gemini", "permission-edit", "replace", "Apply this change?", "1   some\n2 - old\n2 + new\n3   text"),
        (
            "gemini",
            "permission-fetch",
            "web_fetch",
            "Do you want to proceed?",
            "Summarize https://example.com/page\n\nURLs to fetch:\n - https://example.com/page",
        ),
        ("qwen", "permission-shell", "run_shell_command", "Allow execution of: 'touch'?", "touch made.txt"),
    ],
)
def test_a_permission(agent: str, moment: str, tool: str, text: str, body: str) -> None:
    shown = dialog(agent, moment)
    assert (shown.kind, shown.subtype, shown.tool, shown.text, shown.body) == ("permission", "tool", tool, text, body)


def test_rows_in_a_box() -> None:
    assert dialog("gemini", "permission-shell").rows == (
        Row("Allow once", 23, 1, selected=True),
        Row("Allow for this session", 24, 2),
        Row("No, suggest changes", 25, 3, key="esc"),
    )
    assert marked(dialog("qwen", "permission-shell-second-row")).startswith("Always allow run 'touch *'")


def test_a_box_with_text_under_it_waits_for_nobody() -> None:
    assert read("gemini", "start-trust-accepted").dialog is None


def test_questions() -> None:
    single = dialog("gemini", "question-single")
    assert (single.text, labels(single)) == ("Proceed how?", ["Fast", "Safe", "Enter a custom value"])
    assert [row.free_text for row in single.rows] == [False, False, True]
    typed = dialog("gemini", "question-typed")
    assert (marked(typed), typed.rows[2].free_text, typed.identity) == ("My own way", True, single.identity)
    second = dialog("gemini", "question-page-2")
    assert [(tab.label, tab.answered, tab.current) for tab in second.tabs] == [
        ("Database", True, False),
        ("Cache", False, True),
    ]
    review = dialog("gemini", "question-review")
    assert (review.review, review.enter_only, review.rows) == (True, True, ())
    assert review.body == "Database → PostgreSQL\nCache → None"


def test_other_kinds_of_questions() -> None:
    ticked = dialog("gemini", "question-multiple-checked")
    assert ticked.multiple
    assert [(row.label, row.description, row.checked) for row in ticked.rows] == [
        ("Server", "The hub", True),
        ("Client", "The library", False),
        ("All of the above", "Select all options", False),
    ]
    assert labels(dialog("gemini", "question-yes-no"))[:2] == ["Yes", "No"]
    field = dialog("gemini", "question-text")
    assert (field.text, len(field.rows), field.rows[0].free_text) == ("What is its name?", 1, True)


def test_plans() -> None:
    gemini, qwen = dialog("gemini", "plan"), dialog("qwen", "plan")
    for shown in (gemini, qwen):
        assert (shown.kind, shown.tool) == ("plan", "exit_plan_mode")
        assert "1. Write hello.txt" in shown.body
    assert gemini.rows[2].free_text
    assert labels(qwen)[-1] == "No, keep planning"


def test_dialogs_of_a_start() -> None:
    trust = dialog("gemini", "start-trust")
    assert (trust.text, trust.subtype) == ("Do you trust the files in this folder?", "trust")
    assert dialog("qwen", "start-trust").subtype == "trust"
    assert labels(dialog("gemini", "start-auth")) == ["Sign in with Google", "Use Gemini API Key", "Vertex AI"]
    assert dialog("gemini", "start-auth-key").subtype == "api_key"
    auth = dialog("qwen", "start-auth-second-row")
    assert (marked(auth), len(auth.rows)) == ("Third-party Providers", 4)
    assert auth.rows[1].description == "Choose a built-in provider and connect with an API key"


def test_words_of_a_command_do_not_make_a_dialog_of_trust() -> None:
    snapshot, _ = recorded("gemini", "permission-shell")
    asked = "Do you trust this folder?"
    lines = [line.replace("touch made.txt", asked.ljust(14)[:14]) for line in snapshot.lines]
    lines = [line.replace("touch made.txt", "").replace("│ │ Do you trust  ", f"│ │ {asked}") for line in lines]
    shown = read_screen("gemini", screen(lines)).dialog
    assert shown is not None
    assert shown.subtype == "tool"


def test_errors_are_told() -> None:
    assert '"message":"scripted failure"' in (read("gemini", "error").error or "")
    assert read("qwen", "error").error == "[API Error: 400 scripted failure]"

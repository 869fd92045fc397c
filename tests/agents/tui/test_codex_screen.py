# ruff: noqa: RUF001 - the signs are those that the agents draw
"""Codex 0.171."""

from __future__ import annotations

from dragoman.agents.terminal.tui import Row, read_screen

from .screens import dialog, labels, marked, read, screen


def test_a_command_to_permit() -> None:
    shown = dialog("codex", "permission-exec")
    assert (shown.kind, shown.tool, shown.body) == ("permission", "Bash", "touch made.txt")
    assert shown.text == "Would you like to run the following command?"
    assert [(row.label, row.key) for row in shown.rows] == [
        ("Yes, proceed", "y"),
        ("Yes, and don't ask again for commands that start with `touch made.txt`", "p"),
        ("No, and tell Codex what to do differently", "esc"),
    ]
    assert marked(dialog("codex", "permission-exec-second-row")).startswith("Yes, and don't ask again")


def test_edits_to_permit() -> None:
    shown = dialog("codex", "permission-patch")
    assert (shown.tool, [row.key for row in shown.rows]) == ("apply_patch", ["y", "a", "esc"])
    assert "Destination: /tmp/project/hello.txt" in shown.body


def test_questions() -> None:
    single = dialog("codex", "question-single")
    assert (single.text, single.tabs) == ("Proceed how?", ())
    assert single.rows[0] == Row("Fast", 34, 1, selected=True, description="Quick")
    # That row takes no text; a remark is opened by its key.
    assert (single.rows[2].label, single.rows[2].key, single.rows[2].free_text) == ("None of the above", "tab", False)
    second = dialog("codex", "question-page-2")
    assert [(tab.answered, tab.current) for tab in second.tabs] == [(True, False), (False, True)]


def test_a_remark_to_an_answer() -> None:
    opened, typed = dialog("codex", "question-notes"), dialog("codex", "question-notes-typed")
    assert opened.rows[-1] == Row("", 36, selected=True, free_text=True)
    assert typed.rows[-1].label == "My own way"
    assert opened.identity == typed.identity == dialog("codex", "question-single").identity


def test_a_plan_to_implement() -> None:
    shown = dialog("codex", "plan")
    assert (shown.kind, shown.text) == ("plan", "Implement this plan?")
    assert labels(shown) == ["Yes, implement this plan", "Yes, clear context and implement", "No, stay in Plan mode"]


def test_dialogs_of_a_start() -> None:
    assert {
        moment: dialog("codex", moment).subtype
        for moment in ("start-trust", "start-sign-in", "start-sign-in-failed", "start-update", "start-model-upgrade")
    } == {
        "start-trust": "trust",
        "start-sign-in": "login_method",
        "start-sign-in-failed": "login_method",
        "start-update": "update",
        "start-model-upgrade": "model_upgrade",
    }
    assert dialog("codex", "start-trust").body == "/tmp/project"
    assert dialog("codex", "start-sign-in").rows[1].description.startswith("Sign in from another device")


def test_a_wrapped_description() -> None:
    assert dialog("codex", "menu-permissions").rows[0].description.endswith("edits outside the workspace")


def test_words_of_a_command_do_not_make_a_dialog_of_trust() -> None:
    lines = ["• Running cat", "", "", "  Would you like to run the following command?", ""]
    lines += ["  $ cat <<E", "", "  Folder access", "    Trust this folder?", "    E", "", ""]
    lines += ["› 1. Yes, proceed (y)", "  2. No (esc)", "", "  Press enter to confirm or esc to cancel"]
    found = read_screen("codex", screen(lines)).dialog
    assert found is not None
    assert found.subtype != "trust"


def test_the_error_is_told_and_an_escape_is_none() -> None:
    assert (read("codex", "error").error or "").startswith("We’re currently experiencing high demand")
    assert read("codex", "after-esc").error is None

"""Which row is meant, by its words."""

from __future__ import annotations

import pytest

from dragoman.agents.terminal.tui import AGENTS, Row, ScreenDialog
from dragoman.agents.terminal.tui.choose import find_row, keys_to

from .screens import dialog, moments, read

YES_AND_NO = {
    ("claude", "permission-bash"): ("Yes", "No"),
    ("claude", "permission-bash-last-row"): ("Yes", "No"),
    ("claude", "permission-write-2.1.197"): ("Yes", "No"),
    ("claude", "permission-auto-mode"): ("Yes", "No"),
    ("claude", "permission-fetch"): ("Yes", "No, and tell Claude what to do differently"),
    ("claude", "start-trust"): ("Yes, I trust this folder", "No, exit"),
    ("claude", "start-trust-2.1.197"): ("Yes, I trust this folder", "No, exit"),
    ("claude", "start-api-key"): ("Yes", "No (recommended)"),
    ("claude", "start-bypass"): ("Yes, I accept", "No, exit"),
    ("claude", "start-mcp-server"): ("Use this MCP server", "Continue without using this MCP server"),
    ("claude", "start-settings-error"): ("Continue without these settings", "Exit and fix manually"),
    ("claude", "plan"): ("Yes, manually approve edits", "Tell Claude what to change"),
    ("claude", "plan-feedback-typed"): ("Yes, manually approve edits", "Be quicker"),
    ("claude", "plan-empty"): ("Yes, and switch to default (ask each time) for this session", "No"),
    ("claude", "question-review"): ("Submit answers", "Cancel"),
    ("codex", "permission-exec"): ("Yes, proceed", "No, and tell Codex what to do differently"),
    ("codex", "permission-patch"): ("Yes, proceed", "No, and tell Codex what to do differently"),
    ("codex", "plan"): ("Yes, implement this plan", "No, stay in Plan mode"),
    ("codex", "start-trust"): ("Trust and continue", "Back to Agent Command Center"),
    ("codex", "start-update"): ("Update now (runs `npm install -g @openai/codex`)", "Skip"),
    ("gemini", "permission-shell"): ("Allow once", "No, suggest changes"),
    ("gemini", "permission-write"): ("Allow once", "No, suggest changes"),
    ("gemini", "start-trust"): ("Trust folder (project)", "Don't trust"),
    ("gemini", "plan"): ("Yes, manually accept edits", "Type your feedback..."),
    ("qwen", "permission-shell"): ("Yes, allow once", "No, suggest changes"),
    ("qwen", "plan"): ("Yes, and manually approve edits", "No, keep planning"),
    ("qwen", "start-trust"): ("Trust folder (project)", "Don't trust"),
    ("opencode", "permission-shell"): ("Allow once", "Reject"),
    ("opencode", "permission-always"): (None, "Cancel"),
}


@pytest.mark.parametrize(("agent", "moment"), sorted(YES_AND_NO))
def test_the_plain_yes_and_the_no(agent: str, moment: str) -> None:
    shown = dialog(agent, moment)
    found = [find_row(shown, label=None, number=None, accept=accept) for accept in (True, False)]
    assert tuple(None if row is None else shown.rows[row].label for row in found) == YES_AND_NO[agent, moment]


@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_no_yes_of_any_recorded_permission_is_for_more_than_once(agent: str) -> None:
    for moment in moments(agent):
        shown = read(agent, moment).dialog
        if shown is None or shown.kind != "permission":
            continue
        row = find_row(shown, label=None, number=None, accept=True)
        assert row is not None or shown.subtype == "always", moment
        said = shown.rows[row].label.lower() if row is not None else ""
        assert not any(word in said for word in ("always", "session", "auto", "again", "edits")), moment


def test_the_order_does_not_matter() -> None:
    rows = tuple(Row(label, at) for at, label in enumerate(["No", "Yes, and don't ask again for ls", "Yes"]))
    shown = ScreenDialog(kind="permission", text="?", rows=rows, identity="x")
    assert find_row(shown, label=None, number=None, accept=True) == 2
    assert find_row(shown, label=None, number=None, accept=False) == 0


def test_where_there_is_no_plain_yes_none_is_made_up() -> None:
    rows = (Row("Yes, always", 0, selected=True), Row("Maybe", 1))
    shown = ScreenDialog(kind="permission", text="?", rows=rows, identity="x")
    assert find_row(shown, label=None, number=None, accept=True) is None
    assert find_row(shown, label=None, number=None, accept=False) is None
    assert find_row(shown, label=None, number=None, accept=None) is None


def test_by_label_and_by_number() -> None:
    shown = dialog("claude", "permission-bash")
    assert find_row(shown, label="no", number=None, accept=None) == 3
    assert find_row(shown, label="Yes, and switch to auto mode", number=None, accept=None) == 2
    assert find_row(shown, label="Yes, and", number=None, accept=None) is None
    assert find_row(shown, label="Nothing", number=1, accept=True) is None
    assert find_row(shown, label=None, number=4, accept=True) == 3
    assert find_row(shown, label=None, number=9, accept=True) is None


def test_keys_that_move_the_marker() -> None:
    shown = dialog("claude", "permission-bash-second-row")
    assert [keys_to(shown, row) for row in range(4)] == [["up"], [], ["down"], ["down", "down"]]
    beside = dialog("opencode", "permission-shell-third")
    assert keys_to(beside, 0) == ["left", "left"]
    assert keys_to(shown, 9) == []
    nowhere = ScreenDialog(kind="permission", text="?", rows=(Row("Yes", 0),), identity="x")
    assert keys_to(nowhere, 0) == []

"""Every recorded screen is read, and means what its name says."""

from __future__ import annotations

import pytest

from dragoman.agents.terminal.tui.titles import read_title

from .screens import AGENTS, moments, read, recorded

ALL = [(agent, moment) for agent in AGENTS for moment in moments(agent)]

NOT_OVER = {("gemini", "start-trust-accepted"), ("claude", "start-after"), ("claude", "start-offline")}
"""Screens of a start on which nothing is asked, or no longer."""

ELSEWHERE = {("codex", "start-command-center"), ("claude", "menu-resume")}
"""Neither a dialog nor a conversation: nothing is known of them."""

KINDS = {"permission": "permission", "question": "question", "plan": "plan", "menu": "setup"}


def named(*words: str):
    return [
        pytest.param(*screen, id="/".join(screen)) for screen in ALL if screen[1].split("-", maxsplit=1)[0] in words
    ]


@pytest.mark.parametrize(("agent", "moment"), named("idle", "after", "error", "quoted"))
def test_after_a_turn_an_empty_box_waits(agent: str, moment: str) -> None:
    reading = read(agent, moment)
    assert (reading.dialog, reading.input_box, reading.working) == (None, "", False)


@pytest.mark.parametrize(("agent", "moment"), named("permission", "question", "plan", "menu"))
def test_a_dialog_is_seen_with_its_kind_and_exactly_one_marker(agent: str, moment: str) -> None:
    reading = read(agent, moment)
    if (agent, moment) in ELSEWHERE:
        assert (reading.dialog, reading.input_box) == (None, None)
        return
    assert reading.dialog is not None
    assert reading.dialog.kind == KINDS[moment.split("-", maxsplit=1)[0]]
    assert reading.dialog.text
    assert (reading.input_box, reading.working, reading.interrupted) == (None, False, False)
    rows = reading.dialog.rows
    assert sum(row.selected for row in rows) == (1 if rows else 0)
    assert all(row.label for row in rows if not row.free_text)


@pytest.mark.parametrize(("agent", "moment"), named("start"))
def test_the_dialogs_of_a_start_are_seen(agent: str, moment: str) -> None:
    found = read(agent, moment).dialog
    if (agent, moment) in NOT_OVER | ELSEWHERE:
        assert found is None
        return
    assert found is not None
    assert found.kind == ("permission" if moment.startswith("start-trust") else "setup")
    assert (found.subtype == "trust") == moment.startswith("start-trust")


@pytest.mark.parametrize(("agent", "moment"), named("working", "retrying"))
def test_work_is_seen_on_the_screen_or_in_the_title(agent: str, moment: str) -> None:
    reading = read(agent, moment)
    title = recorded(agent, moment)[0].title or ""
    # Claude says nothing of it while somebody is typing, and its title nothing once it reports its status.
    typing = (agent, moment) == ("claude", "working-draft")
    assert reading.working or read_title(agent, title) == "working" or typing
    assert reading.dialog is None
    assert reading.input_box is not None
    assert not reading.interrupted
    assert reading.error is None


@pytest.mark.parametrize(("agent", "moment"), named("exited"))
def test_after_the_end_there_is_neither_box_nor_dialog(agent: str, moment: str) -> None:
    reading = read(agent, moment)
    assert (reading.dialog, reading.input_box) == (None, None)


@pytest.mark.parametrize(
    ("agent", "moment"),
    [screen for screen in ALL if screen[1].startswith(("after-esc", "after-denied", "after-question-esc"))],
)
def test_an_escape_leaves_its_trace(agent: str, moment: str) -> None:
    # OpenCode shows nothing of a refusal, and where a prompt was queued it is the newest thing.
    silent = {("opencode", "after-denied"), ("claude", "after-esc-with-queued")}
    assert read(agent, moment).interrupted == ((agent, moment) not in silent)


@pytest.mark.parametrize(("agent", "moment"), named("error"))
def test_an_error_is_told(agent: str, moment: str) -> None:
    assert read(agent, moment).error
    assert not read(agent, moment).interrupted


@pytest.mark.parametrize(("agent", "moment"), named("idle"))
def test_an_idle_screen_tells_of_no_error_and_no_escape(agent: str, moment: str) -> None:
    reading = read(agent, moment)
    assert (reading.error, reading.interrupted) == (None, False)


MULTILINE = "first line\nsecond line\n\n  indented fourth"

DRAFTS = {
    ("claude", "draft-lines"): "[Pasted text #1 +3 lines]",
    ("claude", "draft-pasted"): "[Pasted text #2 +19 lines]",
    ("claude", "draft-bash"): "!ls",
    ("claude", "slash-menu"): "/",
    ("claude", "shortcuts"): "",
    ("codex", "draft-lines"): MULTILINE,
    ("codex", "draft-pasted"): "[Pasted Content 1500 chars]",
    ("codex", "slash-menu"): "/",
    ("gemini", "draft-lines"): MULTILINE,
    ("gemini", "draft-pasted"): "[Pasted Text: 20 lines]",
    ("qwen", "draft-lines"): MULTILINE,
    ("opencode", "draft-lines"): "first line\nsecond line",
    ("claude", "working-draft"): "typed while working",
    ("codex", "working-draft"): "typed while working",
    ("gemini", "working-draft"): "typed while working",
    ("claude", "working-queued"): "",
    ("gemini", "working-queued"): "",
} | {(agent, "draft-one-line"): "hello there" for agent in AGENTS}


@pytest.mark.parametrize(("agent", "moment"), sorted(DRAFTS))
def test_the_draft_in_the_box_is_read(agent: str, moment: str) -> None:
    assert read(agent, moment).input_box == DRAFTS[agent, moment]


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_a_wrapped_draft_is_one_line(agent: str) -> None:
    assert read(agent, "draft-wrapped").input_box == ("word " * 60).strip()
    for size in ("80x24", "200x50"):
        assert read(agent, f"draft-{size}").input_box == ("word " * 80).strip()


@pytest.mark.parametrize("agent", ["codex", "gemini"])
def test_a_draft_that_looks_like_a_dialog_is_a_draft(agent: str) -> None:
    reading = read(agent, "draft-dialog")
    assert reading.dialog is None
    assert reading.input_box is not None
    assert "1. " in reading.input_box

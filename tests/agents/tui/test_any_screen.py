# ruff: noqa: RUF001 - the signs are those that the agents draw
"""What holds for every screen: nothing raises, and what is quoted is no dialog."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents.terminal.tui import read_screen
from dragoman.agents.terminal.tui.choose import find_row, keys_to
from dragoman.agents.terminal.tui.titles import read_title
from dragoman.hub.ports import Style, StyledRun

from .screens import AGENTS, moments, read, recorded, screen

agents = st.sampled_from(AGENTS)

SIGNS = "❯›●>┃│╭╮╰╯─╌▔▀▄╹△⎿☐☒✔□≡←→■•✦ℹ✕✻⠋… \N{NO-BREAK SPACE}\u200b1234.?([]xyz"
WORDS = (
    "❯ 1. Yes",
    "  2. No",
    "› 1. Yes, proceed (y)",
    "● 1. Allow once",
    "Do you want to proceed?",
    "Would you like to run the following command?",
    "Press enter to confirm or esc to cancel",
    "Esc to cancel · Tab to amend",
    "←  ☐ A  ☐ B  ✔ Submit  →",
    "← □ A │ □ B │ ≡ Review →",
    "Question 1/999999999 (2 unanswered)",
    "Answer Questions",
    "Chat about this",
    "Welcome to Claude Code",
    "Welcome to Codex",
    "https://claude.ai/oauth/authorize?a=b",
    "△ Permission required",
    "⇆ tab  ↑↓ select  enter confirm  esc dismiss",
    "Ready to code?",
    "↑ 3 more lines",
)

edges = st.sampled_from([sign * 40 for sign in "─╌▔▀▄"] + ["╭" + "─" * 38 + "╮", "╰" + "─" * 38 + "╯", "╹" + "▀" * 39])
lines = st.one_of(
    st.just(""),
    edges,
    st.text(alphabet=SIGNS, max_size=40),
    st.text(max_size=20),
    st.builds(
        lambda room, side, words: f"{side}{' ' * room}{words}",
        st.integers(0, 6),
        st.sampled_from(["", "│", "┃"]),
        st.sampled_from(WORDS),
    ),
)
styles = st.builds(Style, bg=st.sampled_from([None, 1, "#ffffff"]), faint=st.booleans(), inverse=st.booleans())


@settings(max_examples=400, deadline=None)
@given(
    agent=agents,
    shown=st.lists(lines, max_size=24),
    row=st.integers(0, 30),
    col=st.integers(0, 50),
    cols=st.sampled_from([1, 20, 40, 120]),
    style=st.none() | styles,
)
def test_no_screen_is_too_strange(agent, shown, row, col, cols, style) -> None:
    styled = None if style is None else lambda: tuple((StyledRun(line, style),) for line in shown)
    reading = read_screen(agent, screen(shown, cols=cols, row=row, col=col), styled)
    assert reading == read_screen(agent, screen(shown, cols=cols, row=row, col=col), styled)
    if reading.dialog is not None:
        rows = reading.dialog.rows
        assert all(0 <= row.line < len(shown) for row in rows)
        for accept in (True, False):
            find_row(reading.dialog, label=None, number=None, accept=accept)
        marked = [at for at, row in enumerate(rows) if row.selected]
        for at in range(len(rows)):
            keys = keys_to(reading.dialog, at)
            assert not marked or len(keys) == abs(at - marked[0])


@given(agent=st.one_of(agents, st.text(max_size=5)), title=st.text(max_size=20))
def test_no_title_is_too_strange(agent: str, title: str) -> None:
    assert read_title(agent, title) in {"working", "idle", "prompt", None}


@settings(max_examples=200, deadline=None)
@given(data=st.data(), agent=agents, cols=st.integers(10, 120), rows=st.integers(1, 40))
def test_a_recorded_screen_cut_anywhere_is_not_too_strange(data, agent, cols, rows) -> None:
    snapshot, styled = recorded(agent, data.draw(st.sampled_from(moments(agent))))
    cut = [line[:cols] for line in snapshot.lines[-rows:]]
    read_screen(agent, screen(cut, cols=cols), styled)


IDLE = {
    "claude": ("idle-after-turn", "● ", 8),
    "codex": ("idle-after-turn", "• ", 16),
    "gemini": ("idle-after-turn", "✦ ", 15),
    "qwen": ("idle-after-turn", "  ✦ ", 12),
    "opencode": ("idle-after-turn", "     ", 5),
}
"""For each agent a screen at rest, how an answer of its model begins there, and on which line."""


@settings(max_examples=300, deadline=None)
@given(data=st.data(), agent=agents)
def test_a_dialog_that_is_quoted_is_none(data, agent: str) -> None:
    """What a model says stands in its conversation, with room at its left, above the box."""
    moment, begins, at = IDLE[agent]
    snapshot, styled = recorded(agent, moment)
    quoted, _ = recorded(agent, data.draw(st.sampled_from(moments(agent))))
    start = data.draw(st.integers(0, len(quoted.lines) - 1))
    said = list(quoted.lines[start : start + data.draw(st.integers(1, 40))])
    said = [f"{begins}Here it is:", "", *(f"{' ' * len(begins)}{line}"[: snapshot.cols].rstrip() for line in said), ""]
    shown = [*snapshot.lines[:at], *said, *snapshot.lines[at:]]
    moved = screen(shown, cols=snapshot.cols, row=snapshot.cursor.row + len(said), col=snapshot.cursor.col)
    looks = None if styled is None else lambda: (*styled()[:at], *(() for _ in said), *styled()[at:])
    reading = read_screen(agent, moved, looks)
    assert (reading.dialog, reading.input_box, reading.working) == (None, "", False)


DIALOGS = [
    (agent, moment)
    for agent in AGENTS
    for moment in moments(agent)
    if agent in {"claude", "gemini"}
    and moment in {"permission-bash", "permission-write", "question-page-1", "permission-edit"}
]


@pytest.mark.parametrize(("agent", "moment"), DIALOGS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_what_stands_above_a_dialog_does_not_change_it(agent: str, moment: str, data) -> None:
    snapshot, styled = recorded(agent, moment)
    wanted = read(agent, moment).dialog
    assert wanted is not None
    top = next(
        at
        for at in range(len(snapshot.lines) - 1, -1, -1)
        if snapshot.lines[at].startswith(("────", "╭──"))
        and at < wanted.rows[0].line
        and "Chat about" not in "".join(snapshot.lines[at + 1 : at + 2])
    )
    said = data.draw(
        st.lists(st.one_of(st.just(""), st.sampled_from(WORDS), st.text(alphabet=SIGNS, max_size=30)), max_size=top)
    )
    shown = [*(f"  {line}" for line in said), *[""] * (top - len(said)), *snapshot.lines[top:]]
    moved = screen(shown, cols=snapshot.cols, row=snapshot.cursor.row, col=snapshot.cursor.col)
    assert read_screen(agent, moved, styled).dialog == wanted

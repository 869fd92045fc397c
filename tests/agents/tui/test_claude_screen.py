# ruff: noqa: RUF001 - the signs are those that the agents draw
"""Claude Code 2.1.332 and 2.1.197."""

from __future__ import annotations

import pytest

from dragoman.agents.terminal.tui import Row, read_screen

from .screens import dialog, labels, marked, read, recorded, screen

OLD = "-2.1.197"
RULE = "─" * 120
DASHES = "╌" * 120


def on_screen(*lines: str):
    """A dialog of these lines under a rule, at the end of a conversation."""
    return read_screen("claude", screen(["❯ do it", "", "● I will.", "", RULE, *lines])).dialog


@pytest.mark.parametrize(
    ("moment", "tool", "text", "body"),
    [
        ("permission-bash", "Bash", "Do you want to proceed?", "touch made.txt"),
        (f"permission-bash{OLD}", "Bash", "Do you want to proceed?", "touch made.txt"),
        ("permission-write", "Write", "Do you want to create hello.txt?", "hello.txt\n1 hello"),
        (f"permission-write{OLD}", "Write", "Do you want to create hello.txt?", "hello.txt\n1 hello"),
        (
            "permission-edit",
            "Edit",
            "Do you want to make this edit to there.txt?",
            "there.txt\n1  some\n2 -old\n2 +new\n3  text",
        ),
        (
            "permission-fetch",
            "WebFetch",
            "Do you want to allow Claude to fetch this content?",
            "Claude wants to fetch content from example.com\nurl: https://example.com/page\nprompt: What is there?",
        ),
        (
            "permission-search",
            "WebSearch",
            "Do you want to proceed?",
            'Claude wants to search the web for: dragons\nWeb Search("dragons")',
        ),
    ],
)
def test_a_permission_tells_what_is_to_be_permitted(moment: str, tool: str, text: str, body: str) -> None:
    shown = dialog("claude", moment)
    assert (shown.kind, shown.subtype, shown.tool, shown.text, shown.body) == ("permission", None, tool, text, body)


def test_the_rows_of_a_permission() -> None:
    assert dialog("claude", "permission-bash").rows == (
        Row("Yes", 34, 1, selected=True),
        Row("Yes, and always allow access to /tmp/project from this project", 35, 2),
        Row("Yes, and switch to auto mode · auto mode handles these prompts for you", 36, 3),
        Row("No", 37, 4),
    )


def test_a_key_that_is_shown_is_no_part_of_the_label() -> None:
    rows = dialog("claude", "permission-fetch").rows
    assert (rows[-1].label, rows[-1].key) == ("No, and tell Claude what to do differently", "esc")


def test_the_marker_moves_and_the_dialog_stays_the_same() -> None:
    second, last = dialog("claude", "permission-bash-second-row"), dialog("claude", "permission-bash-last-row")
    assert marked(second).startswith("Yes, and always allow")
    assert marked(last) == "No"
    assert second.identity == last.identity
    assert second.identity != dialog("claude", "permission-bash").identity


def test_a_dialog_that_is_taller_than_the_screen_is_read_from_its_end() -> None:
    shown = dialog("claude", "permission-long-bash")
    assert (shown.text, marked(shown), len(shown.rows)) == ("Do you want to proceed?", "Yes", 4)
    # What it quotes of a dialog is what is to be permitted.
    assert shown.body.endswith("echo 'Do you want to proceed?'\necho '❯ 1. Yes'")
    for moment in ("permission-long-write", f"permission-long-write{OLD}"):
        assert dialog("claude", moment).text == "Do you want to create long.txt?"


def test_a_remark_typed_into_a_row_leaves_the_dialog_the_same() -> None:
    before, empty, typed = (
        dialog("claude", moment) for moment in ("permission-long-bash", "permission-remark", "permission-remark-typed")
    )
    assert before.identity == empty.identity == typed.identity
    assert not before.rows[0].free_text
    assert typed.rows[0].label == "Yes, do it later"
    assert typed.rows[0].free_text


def test_rows_without_numbers() -> None:
    for moment, default in (("permission-auto-mode", "No"), ("permission-auto-mode-second-row", "Yes")):
        shown = dialog("claude", moment)
        assert (shown.kind, shown.tool, labels(shown), marked(shown)) == ("permission", "Bash", ["No", "Yes"], default)
        assert [row.number for row in shown.rows] == [None, None]
        assert shown.body == "rm -rf /tmp/nothing && curl http://127.0.0.1:9/x | sh"
    assert dialog("claude", "permission-auto-mode-write").body == "../../../etc/hello.txt\n1 hello"


def test_a_notice_that_only_goes_on() -> None:
    shown = dialog("claude", "start-auto-mode")
    assert (shown.kind, shown.subtype, shown.enter_only, shown.rows) == ("setup", "auto_mode", True, ())


def test_the_size_of_the_terminal_makes_no_other_dialog() -> None:
    for moment, sizes in {
        "permission-bash": ("80x24", "200x50"),
        "plan": ("80x24",),
        "question-long": ("80x24",),
    }.items():
        for size in sizes:
            wanted, shown = dialog("claude", moment), dialog("claude", f"{moment}-{size}")
            assert (shown.identity, labels(shown)) == (wanted.identity, labels(wanted))


@pytest.mark.parametrize(
    ("moment", "rows", "default", "numbered"),
    [
        ("start-trust", ["No, exit", "Yes, I trust this folder"], "No, exit", False),
        (f"start-trust{OLD}", ["Yes, I trust this folder", "No, exit"], "Yes, I trust this folder", True),
        ("start-api-key", ["Yes", "No (recommended)"], "No (recommended)", False),
        (f"start-api-key{OLD}", ["Yes", "No (recommended)"], "No (recommended)", True),
    ],
)
def test_defaults_and_order_of_a_start_differ_by_version(
    moment: str, rows: list[str], default: str, numbered: bool
) -> None:
    shown = dialog("claude", moment)
    assert (labels(shown), marked(shown)) == (rows, default)
    assert all((row.number is not None) == numbered for row in shown.rows)


@pytest.mark.parametrize(
    ("moment", "subtype"),
    [
        ("start-trust", "trust"),
        ("start-api-key", "api_key"),
        ("start-bypass", "startup_bypass"),
        ("start-settings-error", "settings_error"),
        ("start-settings-errors", "settings_error"),
        ("start-mcp-server", "mcp_server"),
        ("start-mcp-servers", "mcp_server"),
        ("menu-theme", "theme_picker"),
        ("menu-login", "login_method"),
        ("menu-login-oauth", "oauth_login"),
        (f"menu-login-oauth{OLD}", "oauth_login"),
        ("menu-model", "menu"),
    ],
)
def test_what_is_set_up(moment: str, subtype: str) -> None:
    assert dialog("claude", moment).subtype == subtype


@pytest.mark.parametrize(
    ("lines", "subtype"),
    [
        (["Security notes:", "", "1. Claude can make mistakes", "", "Press Enter to continue…"], "security_notes"),
        (["Login successful. Press Enter to continue…", "", "Press Enter to continue…"], "login_success"),
    ],
)
def test_pages_of_a_first_start_that_only_go_on(lines: list[str], subtype: str) -> None:
    welcome = ["Welcome to Claude Code v2.1.197", "…" * 58, "", *(f" {line}" for line in lines)]
    for framed in (welcome, [RULE, *(f" {line}" for line in lines)]):
        reading = read_screen("claude", screen(framed))
        assert reading.dialog is not None
        assert (reading.dialog.kind, reading.dialog.subtype) == ("setup", subtype)
        assert reading.dialog.enter_only
        assert reading.dialog.rows == ()


def test_a_check_mark_is_no_part_of_the_label() -> None:
    rows = dialog("claude", "menu-theme").rows
    assert len(rows) == 8
    assert rows[1] == Row("Dark mode", 23, selected=True, checked=True)
    assert dialog("claude", "menu-model").rows[0].label == "Default (recommended)"


@pytest.mark.parametrize(
    ("shown", "label", "checked"),
    [
        ("Always ✔", "Always", True),
        ("✔ Always", "Always", True),
        ("Always ✓", "Always", True),
        ("Tick ✔ in every row", "Tick ✔ in every row", False),
        ("✓✗ for each test", "✓✗ for each test", False),
        ("Write ✔, then go on", "Write ✔, then go on", False),
        ("Say it is done✔", "Say it is done✔", False),
        ("Keep ✔ and mark ✔", "Keep ✔ and mark", True),
    ],
)
def test_only_a_check_mark_at_an_edge_of_its_own_is_cut_off(shown: str, label: str, checked: bool) -> None:
    rows = (" ❯ 1. Yes", f"   2. {shown}", "   3. No")
    found = on_screen("Bash command", "", "  touch made.txt", "", "Do you want to proceed?", *rows)
    assert found is not None
    assert [(row.label, row.checked) for row in found.rows] == [("Yes", False), (label, checked), ("No", False)]


SPINNER = ("✶ Spelunking…", "  ⎿  Tip: Start small, ask Claude for a plan")
WORKS, RESTS = "  ⏸ manual mode on · esc to interrupt", "  ⏸ manual mode on · ? for shortcuts"


@pytest.mark.parametrize(
    ("above", "below", "working"),
    [
        (SPINNER, (WORKS,), True),
        (SPINNER[:1], (WORKS,), True),
        (SPINNER, (RESTS,), True),
        (SPINNER, (), True),
        (SPINNER, ("  main* · 45% of 200k", RESTS), True),
        ((), (WORKS,), True),
        ((), ("  main* · 45% of 200k", WORKS), True),
        ((), (RESTS,), False),
        ((), (), False),
        ((), ("  main* · 45% of 200k",), False),
        ((), ("  main* · 45% of 200k", RESTS, "  working tree clean"), False),
        (("● Press esc to interrupt me.",), (RESTS,), False),
        (("● ✶ Spelunking…",), (RESTS,), False),
        ((*SPINNER, "● Done."), (RESTS,), False),
    ],
)
def test_an_input_box_beside_work_and_above_a_status_line(
    above: tuple[str, ...], below: tuple[str, ...], working: bool
) -> None:
    lines = ["❯ do it", "", "● I will.", "", *above, "", RULE, "❯ ", RULE, *below]
    box = lines.index(RULE) + 1
    reading = read_screen("claude", screen(lines, row=box, col=2))
    assert (reading.dialog, reading.input_box, reading.working) == (None, "", working)


def test_servers_to_tick() -> None:
    shown = dialog("claude", "start-mcp-servers")
    assert shown.multiple
    assert [(row.label, row.checked) for row in shown.rows] == [
        ("demo", True),
        ("other", True),
        ("Enable selected", False),
    ]


def test_the_address_to_sign_in_at_may_be_wrapped() -> None:
    url = dialog("claude", f"menu-login-oauth{OLD}").auth_url
    assert url is not None
    assert url.startswith("https://claude.com/cai/oauth/authorize?code=true&client_id=")
    assert "&code_challenge_method=S256&state=" in url
    assert len(url) > 400
    assert dialog("claude", "menu-login-oauth").rows == ()


def test_one_question() -> None:
    shown = dialog("claude", "question-single")
    assert (shown.text, shown.tabs, shown.multiple, shown.review) == ("Proceed how?", (), False, False)
    assert [(row.label, row.description, row.free_text) for row in shown.rows] == [
        ("Fast", "Quick", False),
        ("Safe", "Careful", False),
        ("Type something.", "", True),
        ("Chat about this", "", False),
    ]


def test_typing_into_a_question_leaves_it_the_same() -> None:
    typed = dialog("claude", "question-typed")
    assert (marked(typed), typed.rows[2].free_text) == ("My own way", True)
    assert typed.identity == dialog("claude", "question-single").identity


@pytest.mark.parametrize("version", ["", OLD])
def test_pages_of_questions(version: str) -> None:
    second = dialog("claude", f"question-page-2{version}")
    assert [(tab.label, tab.answered, tab.current) for tab in second.tabs] == [
        ("Database", True, False),
        ("Cache", False, True),
    ]
    review = dialog("claude", f"question-review{version}")
    assert (review.review, labels(review)) == (True, ["Submit answers", "Cancel"])
    assert not any(tab.current for tab in review.tabs)
    assert "Which cache?" in review.body


def test_the_page_is_told_by_its_colour() -> None:
    snapshot, styled = recorded("claude", "question-two-kinds-page-2")
    lines = list(snapshot.lines)
    at = next(at for at, line in enumerate(lines) if "☒ Parts" in line)
    shown = dialog("claude", "question-two-kinds-page-2")
    assert [tab.current for tab in shown.tabs] == [False, True]
    assert styled is not None
    # Back on the first page, the second is still the first that is open.
    runs = list(styled()[at])
    runs[0], runs[1] = _painted(runs[0], runs[1]), _painted(runs[1], runs[0])
    back = read_screen("claude", snapshot, lambda: (*styled()[:at], tuple(runs), *styled()[at + 1 :])).dialog
    assert back is not None
    assert [tab.current for tab in back.tabs] == [True, False]


def _painted(run, other):
    return type(run)(run.text, other.style)


@pytest.mark.parametrize("moment", ["question-multiple", f"question-multiple{OLD}"])
def test_a_question_with_several_answers(moment: str) -> None:
    shown = dialog("claude", moment)
    assert shown.multiple
    assert labels(shown) == ["Server", "Client", "Docs", "Type something", "Submit", "Chat about this"]
    assert [row.description for row in shown.rows[:3]] == ["The hub", "The library", "The words"]
    assert not any(row.checked for row in shown.rows)
    assert shown.rows[3].free_text


def test_a_ticked_row_and_the_row_that_submits() -> None:
    ticked = dialog("claude", "question-multiple-checked")
    assert [row.checked for row in ticked.rows] == [True, False, False, False, False, False]
    assert ticked.identity == dialog("claude", "question-multiple").identity
    assert marked(dialog("claude", "question-multiple-submit-row")) == "Submit"


def test_wrapped_labels_and_descriptions_are_told_apart() -> None:
    shown = dialog("claude", "question-long")
    assert shown.text.startswith("Which of the following")
    assert shown.text.endswith("now and later?")
    assert shown.rows[0].label.endswith("only one hundred and twenty columns wide")
    assert shown.rows[0].description.startswith("And a description")
    assert shown.rows[0].description.endswith("extremely wide indeed")


def test_previews_beside_the_rows_are_left_out() -> None:
    assert labels(dialog("claude", "question-preview")) == ["Wide", "Tall", "Chat about this"]


@pytest.mark.parametrize("version", ["", OLD])
def test_a_plan(version: str) -> None:
    shown = dialog("claude", f"plan{version}")
    assert shown.text == "Claude has written up a plan and is ready to execute. Would you like to proceed?"
    assert shown.body == "Plan\n\n1. Write hello.txt\n2. Check it"
    assert labels(shown) == ["Yes, and use auto mode", "Yes, manually approve edits", "Tell Claude what to change"]
    typed = dialog("claude", f"plan-feedback-typed{version}")
    assert typed.rows[2].free_text
    assert typed.rows[2].description == ""
    assert typed.identity == shown.identity


def test_an_empty_plan() -> None:
    shown = dialog("claude", "plan-empty")
    assert (shown.text, len(shown.rows)) == ("Exit plan mode?", 2)


@pytest.mark.parametrize(
    "words", ["Security notes:", "Accessing workspace:", "Login successful", "Theme", "Settings Error"]
)
def test_what_a_model_writes_does_not_make_a_set_up_dialog(words: str) -> None:
    """Some of those are answered without asking anyone."""
    for body in ([f" {words}"], [f" {words}", " Yes, I trust this folder", "", " Logged in as"]):
        for head in ([" Bash command"], [" Create file", f" {words}"]):
            shown = on_screen(*head, DASHES, *body, DASHES, " Do you want to proceed?", " ❯ 1. Yes", "   2. No")
            assert shown is not None
            assert (shown.kind, shown.subtype) == ("permission", None)


def test_a_command_that_looks_like_options_is_none() -> None:
    shown = on_screen(
        " Bash command",
        DASHES,
        " ❯ 1. Yes, all of it",
        "   2. No",
        DASHES,
        " Do you want to proceed?",
        " ❯ 1. Yes",
        "   2. No",
    )
    assert shown is not None
    assert labels(shown) == ["Yes", "No"]
    assert "Yes, all of it" in shown.body


def test_the_error_is_told_as_shown() -> None:
    assert read("claude", "error").error == "API Error: 400 scripted failure"
    assert read("claude", f"error{OLD}").error == "API Error: 400 scripted failure"


def test_a_suggestion_in_the_box_is_no_draft() -> None:
    lines = ["● Done.", "", RULE, '❯\N{NO-BREAK SPACE}Try "fix the tests"', RULE, "  ? for shortcuts"]
    assert read_screen("claude", screen(lines, row=3, col=2)).input_box == ""


def test_several_lines_in_the_box() -> None:
    lines = ["● Done.", "", RULE, "❯\N{NO-BREAK SPACE}one", "  two", "", "    three", RULE, "  ? for shortcuts"]
    assert read_screen("claude", screen(lines, row=6, col=9)).input_box == "one\ntwo\n\n  three"

"""What waits for a person: what is shown of it, and what typed words answer."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.cli.chat_decisions import Decisions, Unclear, answer_to, describe, described_answer, hint
from dragoman.cli.chat_text import plain

COLOURS = [{"label": "red"}, {"label": "blue", "description": "like the sea"}]


def decision(kind: str = "permission", text: str = "rm -rf build", **more: Any) -> dict[str, Any]:
    return {"type": "decision.opened", "decision": "d", "kind": kind, "text": text, **more}


DIALOG = decision(
    "question",
    "",
    questions=[{"question": "Which?", "options": COLOURS, "multiple": True}, {"question": "Why?"}],
)


@pytest.mark.parametrize(
    ("one", "typed", "answer"),
    [
        (decision(), "y", {"accept": True}),
        (decision(), " YES ", {"accept": True}),
        (decision(), "no", {"accept": False}),
        (decision(), "s", {"accept": True, "scope": "session"}),
        (decision(), "use trash instead", {"accept": False, "text": "use trash instead"}),
        (decision(), "1", {"accept": False, "text": "1"}),
        (decision(options=COLOURS), "2", {"option": 2}),
        (decision(options=COLOURS), "y", {"accept": True}),
        (
            decision(options=[{"label": "Yes", "value": "once"}, {"label": "Always", "value": "session"}]),
            "s",
            {"option": 2},
        ),
        (decision("plan", "1. do it"), "y", {"accept": True}),
        (decision("plan", "1. do it"), "do less", {"accept": False, "text": "do less"}),
        (decision("setup", "sign in", secret=True), "code-1", {"text": "code-1"}),
        (decision("setup", "sign in"), "n", {"accept": False}),
        (decision("question", "Which?", options=COLOURS), "2", {"option": 2}),
        (decision("question", "Which?", options=COLOURS), "green", {"text": "green"}),
        (decision("question", "How many?"), "42", {"text": "42"}),
        (DIALOG, "1", {"answers": [{"option": 1}]}),
        (DIALOG, "1, 2", {"answers": [{"choices": ["red", "blue"]}]}),
        ({**DIALOG, "question_current": 1}, "because", {"answers": [{"text": "because"}]}),
        (decision("form", "Fill in"), "a=1, b = two", {"values": {"a": "1", "b": "two"}}),
        (decision("form", "Fill in"), '{"a": 1}', {"values": {"a": 1}}),
        (decision("form", "Fill in"), "n", {"accept": False}),
    ],
)
def test_typed_words_are_an_answer(one: dict[str, Any], typed: str, answer: dict[str, Any]) -> None:
    assert answer_to(one, typed) == answer


@pytest.mark.parametrize(
    ("one", "typed"),
    [
        (decision(), "  "),
        (decision(options=COLOURS), "3"),
        (decision(options=COLOURS), "0"),
        (decision("question", "Which?", options=COLOURS), "7"),
        (decision(dangerous=True), "s"),
        (decision("form", "Fill in"), "just words"),
        (decision("form", "Fill in"), "{no json"),
    ],
)
def test_what_is_no_answer_is_said(one: dict[str, Any], typed: str) -> None:
    with pytest.raises(Unclear):
        answer_to(one, typed)


@pytest.mark.parametrize(
    ("one", "lines"),
    [
        (decision(tool="bash"), ["? permission: bash", "  rm -rf build"]),
        (
            decision(dangerous=True, reason="matches_dangerous_pattern"),
            ["? permission  DANGEROUS", "  matches dangerous pattern", "  rm -rf build"],
        ),
        (decision(text="ls\x1b[8m; rm x"), ["? permission", "  ls␛[8m; rm x"]),
        (
            decision(tool="edit", text="a.py", input={"oldString": "one\ntwo", "newString": "three"}),
            ["? permission: edit", "  a.py", "  - one", "  - two", "  + three"],
        ),
        (
            decision("question", "Which?", options=COLOURS),
            ["? a question", "  Which?", "  1 red", "  2 blue  like the sea"],
        ),
        (DIALOG, ["? a question", "  Which? (1 of 2)", "  1 red", "  2 blue  like the sea"]),
        ({**DIALOG, "question_current": 1}, ["? a question", "  Why? (2 of 2)"]),
        (
            decision("setup", "Sign in", auth_url="https://x.test/\x1b[1m"),
            ["? set-up", "  Sign in", "  https://x.test/␛[1m"],
        ),
        (decision(ready=False), ["? permission", "  rm -rf build", "  its options are still being read"]),
    ],
)
def test_a_decision_is_put_in_lines(one: dict[str, Any], lines: list[str]) -> None:
    assert [plain(line) for line in describe(one)] == lines


def test_of_a_long_command_it_is_said_how_much_is_not_shown() -> None:
    lines = describe(decision(text="\n".join(f"line {n}" for n in range(100))))
    assert plain(lines[-1]) == "  … and 40 more lines that are not shown here"


def test_a_dangerous_one_is_not_offered_for_the_session() -> None:
    assert "[s]ession" in hint(decision())
    assert "[s]ession" not in hint(decision(dangerous=True))


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        ({"outcome": "answered", "answer": {"accept": True}}, "yes"),
        ({"outcome": "answered", "answer": {"accept": True, "scope": "session"}}, "yes, for the session"),
        ({"outcome": "answered", "answer": {"accept": False, "text": "no, use trash"}}, "no, no, use trash"),
        ({"outcome": "answered", "answer": {"option": 2}}, "2 blue"),
        ({"outcome": "answered", "answer": {"withheld": True}}, "answered"),
        ({"outcome": "cancelled"}, "cancelled"),
    ],
)
def test_an_outcome_is_put_in_words(fact: dict[str, Any], words: str) -> None:
    assert described_answer(fact, decision(options=COLOURS)) == words


def test_several_are_asked_one_after_the_other() -> None:
    waiting = Decisions()
    waiting.open({**decision(), "decision": "one"})
    waiting.open({**decision(), "decision": "two"})
    assert waiting.current is not None
    assert waiting.current["decision"] == "one"
    waiting.answering("one")
    assert waiting.current["decision"] == "two", "the answer to the first is on its way"
    waiting.refused("one")
    assert waiting.current["decision"] == "one", "it was none"
    waiting.answering("one")
    assert waiting.resolve("one")[1], "answered here"
    assert not waiting.resolve("two")[1], "answered elsewhere"
    assert waiting.current is None


def test_a_dialog_that_moves_on_is_asked_again() -> None:
    waiting = Decisions()
    waiting.open(DIALOG)
    waiting.answering("d")
    assert waiting.current is None
    waiting.revise({"type": "decision.revised", "decision": "d", "question_current": 1, "answered": [{"option": 1}]})
    assert waiting.current is not None
    assert plain(describe(waiting.current)[1]) == "  Why? (2 of 2)"

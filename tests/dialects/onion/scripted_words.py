"""What the scripted host's model calls, by the words of its prompt; and what is said in it again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Wanted = tuple[str, dict[str, Any]]
"""A tool, and what it is given."""

ASK_ANEW = "What would you like me to do?"
"""The result of a turn in which a person refused the rest of what the model wanted."""

SUMMARY = (
    "## Previous Conversation Summary\n\nSUMMARY of earlier messages\n\n---\n"
    "*The conversation continues below. Use the summary above for context.*"
)

THOUGHT = "SUMMARY of earlier messages"

PLANNING = (
    "Entered plan mode. Write your plan with write_plan(), then call exit_plan_and_implement() when ready for user"
    " approval."
)
NOT_WHILE_PLANNING = (
    "Tool 'bash' is blocked in Plan Mode. Use read-only tools to explore, write your plan with write_plan(), then call"
    " exit_plan_and_implement() when ready for approval."
)

_ZZZ = {"command": "rm -f zzz", "description": "remove zzz"}

PLAN: tuple[Wanted, ...] = (
    ("enter_plan_mode", {}),
    ("write_plan", {"content": "# Plan\n1. do it"}),
    ("bash", {"command": "rm -f zzz"}),
    ("exit_plan_and_implement", {}),
)

_WORDS: tuple[tuple[Callable[[str], bool], tuple[Wanted, ...]], ...] = (
    (lambda prompt: prompt == "tool please", (("search", {"q": "cats"}),)),
    (lambda prompt: prompt.startswith("two tools"), (("search", {"q": "a"}), ("fail", {"x": 1}))),
    (lambda prompt: prompt.startswith("missing"), (("nosuch", {"x": 1}),)),
    (lambda prompt: prompt.startswith("bash2"), (("bash", _ZZZ), ("bash", {"command": "rm -f yyy"}))),
    (lambda prompt: prompt.startswith("bash "), (("bash", _ZZZ),)),
    (lambda prompt: prompt.startswith("write "), (("write", {"path": "a.txt", "content": "x"}),)),
    (
        lambda prompt: prompt.startswith("ask "),
        (("ask_user", {"question": "Which language?", "options": ["Python 3", "Rust"], "multi_select": False}),),
    ),
)


def first(prompt: str) -> tuple[Wanted, ...]:
    """The calls of the first answer to most prompts."""
    return next((calls for said, calls in _WORDS if said(prompt)), ())

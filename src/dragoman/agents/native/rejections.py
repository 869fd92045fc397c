"""What becomes of a call that a person refuses: what is said of it, what the model is told, whether the turn goes on.

The answer may say how the refusal is meant, in ``values["mode"]``:

=====================  =============================================================================================
without one            the call is refused, the model is told so and goes on
``reject_hard``        nothing more is done: what else the model called and has not begun is refused too, and the turn
                       ends with ``WHAT_NEXT``
``reject_soft``        the call is refused; the model is told to offer something else instead
``reject_explain``     the call is refused; the model is told to explain it first
=====================  =============================================================================================
"""

from __future__ import annotations

from dragoman.hub.events import Answer, Json

from .tools.tool import ToolDenied

HARD, SOFT, EXPLAIN = "reject_hard", "reject_soft", "reject_explain"

WHAT_NEXT = "What would you like me to do?"
"""The result of a turn that a person broke off by refusing a call."""

REJECTED = "User rejected this command."
REJECTED_CALL = "User rejected this call."
UNANSWERED = "Nobody answered whether this may be done, so it was not."
BROKEN_OFF = "Not done: the user rejected another call, and will say how to go on."
"""What is said of calls that had not begun when the person refused one of them, and all of it."""

_SOFT = (
    "Do not try it again. Think of what it was for, and ask the user how to go on, with the tool `ask` if you have it: "
    "offer two to four other ways, each in concrete words, and one to leave it out altogether."
)
_EXPLAIN = (
    "The user wants to understand it before it is done, and may know little of computers. Explain it in plain words, "
    "with an everyday comparison where one helps: what you want to reach, what kind of action this is, what exactly it "
    "would do and why that is needed, what is different afterwards, and whether it can be undone. Then ask whether to "
    "go on."
)
_TOLD = {SOFT: _SOFT, EXPLAIN: _EXPLAIN}


def is_hard(answer: Answer | None) -> bool:
    """Whether it refuses everything that is going on."""
    return answer is not None and not answer.accept and answer.values.get("mode") == HARD


def refusal(answer: Answer | None, rejected: str = REJECTED) -> str:
    """What is said of a refusal; with what the person wants instead, if they said so."""
    if answer is None:
        return UNANSWERED
    if not answer.text:
        return rejected
    return f"{rejected} They said: {answer.text}"


def denied(answer: Answer | None, rejected: str = REJECTED, *, output: Json = None) -> ToolDenied:
    """The end of a call that was refused by this answer; None is nobody's."""
    said = refusal(answer, rejected)
    mode = answer.values.get("mode") if answer is not None else None
    more = _TOLD.get(mode) if isinstance(mode, str) else None
    return ToolDenied(said, output, told=None if more is None else f"{said}\n\n{more}")

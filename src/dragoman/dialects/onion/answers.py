"""A client's answers as the hub takes them (spec §9)."""

from __future__ import annotations

import re

from dragoman.hub.events import Answer

from .asking import Ask
from .client_messages import ApprovalResponse

_YES = re.compile(r"\s*(?:plan approved|approved?|yes|ok|okay|lgtm|looks good)\b", re.IGNORECASE)
"""How a message about a plan begins that accepts it; this protocol has nothing but words for that. Whole words: what
begins with *yesterday* is no yes."""


def question_answer(ask: Ask, given: str | tuple[str, ...]) -> Answer:
    """An answer in words: also the option whose label they are, and for a list the choices."""
    said = Answer(choices=given) if isinstance(given, tuple) else _in_words(ask, given)
    return Answer(answers=(said,)) if ask.opened.questions else said


def _in_words(ask: Ask, text: str) -> Answer:
    labels = [option.label for option in ask.asked.options]
    return Answer(text=text, option=labels.index(text) + 1 if text in labels else None)


def approval_answer(message: ApprovalResponse) -> Answer:
    """A yes, for this once or (the protocol's ``session``) for the tool; or a no, of one of three kinds."""
    if message.approved:
        return Answer(accept=True, scope="tool" if message.scope == "session" else "once")
    return Answer(accept=False, text=message.feedback or None, values={"mode": message.mode})


def plan_answer(message: str) -> Answer:
    """A yes to the plan, or what is to be thought of again."""
    return Answer(accept=_YES.match(message) is not None, text=message or None)

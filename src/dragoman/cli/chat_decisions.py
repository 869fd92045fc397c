"""What waits for a person: how it is shown, and what typed words mean as an answer to it."""

from __future__ import annotations

import json
from typing import Any

from .chat_text import Line, clean, one_line, visible

Decision = dict[str, Any]
Answer = dict[str, Any]

SHOWN_LINES = 60
"""Lines of a command or an edit that are shown; of a longer one it is said how much is not."""

ANSWER_COLUMNS = 80

YES = frozenset({"y", "yes"})
NO = frozenset({"n", "no"})
SESSION = frozenset({"s", "session"})

_TITLES = {
    "permission": "permission",
    "plan": "a plan to approve",
    "setup": "set-up",
    "question": "a question",
    "form": "a form",
}


class Unclear(Exception):
    """What was typed is no answer to this; the message says what would be."""


class Decisions:
    """Those that are open, in the order in which they came, without those whose answer is on its way."""

    def __init__(self) -> None:
        self._open: dict[str, Decision] = {}
        self._answering: set[str] = set()

    @property
    def current(self) -> Decision | None:
        """The one to be asked now."""
        return next((one for name, one in self._open.items() if name not in self._answering), None)

    def open(self, decision: Decision) -> None:
        """Take one in, from a ``decision.opened``."""
        self._open[decision["decision"]] = decision

    def revise(self, fact: dict[str, Any]) -> None:
        """More is known of one, or it moved on to its next question: then it is to be asked again."""
        name = fact["decision"]
        if name not in self._open:
            return
        changes = {field: value for field, value in fact.items() if field not in ("type", "by", "cause", "origin")}
        self._open[name] = {**self._open[name], **changes}
        if "question_current" in changes:
            self._answering.discard(name)

    def answering(self, name: str) -> None:
        """The answer to it is on its way."""
        self._answering.add(name)

    def refused(self, name: str) -> None:
        """That answer was none."""
        self._answering.discard(name)

    def resolve(self, name: str) -> tuple[Decision | None, bool]:
        """It is over: the decision, and whether the answer came from here."""
        mine = name in self._answering
        self._answering.discard(name)
        return self._open.pop(name, None), mine


def describe(decision: Decision) -> list[Line]:
    """The lines that put it before a person."""
    kind, danger = decision["kind"], bool(decision.get("dangerous"))
    title = str(_TITLES.get(kind, kind)) + (f": {clean(decision['tool'])}" if decision.get("tool") else "")
    head: Line = [("warn", f"? {title}")]
    if danger:
        head.append(("danger", "  DANGEROUS"))
    lines = [head]
    if decision.get("reason"):
        lines.append([("dim", f"  {one_line(str(decision['reason']).replace('_', ' '), ANSWER_COLUMNS)}")])
    lines += [[("danger" if danger else "bold", f"  {line}")] for line in _shown(_asked(decision))]
    lines += _edit(decision.get("input"))
    if decision.get("auth_url"):
        lines.append([("bold", f"  {visible(str(decision['auth_url']))}")])
    return lines + _options(decision)


def hint(decision: Decision) -> str:
    """What can be typed now."""
    options, kind = _choices(decision), decision["kind"]
    numbers = f"1-{len(options)}" if len(options) > 1 else "1"
    if kind == "question":
        several = ", several with commas" if _question(decision).get("multiple") else ""
        return f"{numbers}{several} or your own words" if options else "your answer"
    if kind == "form":
        return "name=value, … or JSON, [n]o declines"
    if kind == "setup" and decision.get("secret"):
        return "the code (it is not shown), [n]o declines"
    if options:
        return f"{numbers} / [y]es / [n]o / or what to do instead"
    session = " / [s]ession" if _offers_session(decision) else ""
    return f"[y]es / [n]o{session} / or what to do instead"


def answer_to(decision: Decision, typed: str) -> Answer:
    """What was typed, as the hub takes it. Raises ``Unclear``."""
    words = typed.strip()
    if not words:
        raise Unclear(hint(decision))
    kind = decision["kind"]
    if kind == "question":
        return _answer_question(decision, words)
    if kind == "form":
        return {"accept": False} if words.lower() in NO else {"values": _values(words)}
    return _answer_permission(decision, words)


def described_answer(fact: dict[str, Any], decision: Decision | None) -> str:
    """The outcome in a ``decision.resolved``, in words."""
    if fact["outcome"] != "answered":
        return str(fact["outcome"])
    answer = fact.get("answer") or {}
    if answer.get("withheld"):
        return "answered"
    return _said(answer, decision or {}) or "answered"


def _said(answer: Answer, decision: Decision) -> str:
    if answer.get("option") is not None:
        options = _choices(decision)
        place = int(answer["option"])
        label = options[place - 1].get("label", "") if 0 < place <= len(options) else ""
        return one_line(f"{place} {label}", ANSWER_COLUMNS)
    words = []
    if answer.get("accept") is not None:
        words.append("yes" if answer["accept"] else "no")
    if answer.get("scope"):
        words.append(f"for the {answer['scope']}")
    if answer.get("text"):
        words.append(str(answer["text"]))
    words += [str(choice) for choice in answer.get("choices", ())]
    words += [_said(given, {}) for given in answer.get("answers", ())]
    return one_line(", ".join(word for word in words if word), ANSWER_COLUMNS)


def _question(decision: Decision) -> dict[str, Any]:
    """The question of a dialog that it stands at; of one without questions, nothing."""
    questions = decision.get("questions") or ()
    place = decision.get("question_current", 0)
    return dict(questions[place]) if place < len(questions) else {}


def _choices(decision: Decision) -> list[dict[str, Any]]:
    return list(_question(decision).get("options") or decision.get("options") or ())


def _offers_session(decision: Decision) -> bool:
    return decision["kind"] == "permission" and not decision.get("dangerous")


def _asked(decision: Decision) -> str:
    question = _question(decision)
    if not question:
        return str(decision["text"])
    number, count = decision.get("question_current", 0) + 1, len(decision["questions"])
    return f"{question['question']}" + (f" ({number} of {count})" if count > 1 else "")


def _shown(text: str) -> list[str]:
    """All lines of it, or as many as are shown and how many are not. Nothing in them is hidden."""
    lines = visible(text).rstrip("\n").split("\n")
    left = len(lines) - SHOWN_LINES
    return lines if left <= 0 else [*lines[:SHOWN_LINES], f"… and {left} more lines that are not shown here"]


def _edit(given: Any) -> list[Line]:
    """What a file would lose and gain, where the input of a tool says so."""
    if not isinstance(given, dict):
        return []
    lost, gained = given.get("oldString"), given.get("newString", given.get("newSource", given.get("content")))
    lines: list[Line] = []
    if isinstance(lost, str) and lost:
        lines += [[("bad", f"  - {line}")] for line in _shown(lost)]
    if isinstance(gained, str):
        lines += [[("good", f"  + {line}")] for line in _shown(gained)]
    return lines


def _options(decision: Decision) -> list[Line]:
    if not decision.get("ready", True):
        return [[("dim", "  its options are still being read")]]
    lines: list[Line] = []
    for number, option in enumerate(_choices(decision), 1):
        line: Line = [("bold", f"  {number} "), ("", visible(str(option["label"])).replace("\n", " "))]
        if option.get("description"):
            line.append(("dim", f"  {one_line(str(option['description']), ANSWER_COLUMNS)}"))
        lines.append(line)
    return lines


def _answer_permission(decision: Decision, words: str) -> Answer:
    lower = words.lower()
    if (number := _number(decision, words)) is not None:
        return {"option": number}
    if lower in YES:
        return {"accept": True}
    if lower in NO:
        return {"accept": False}
    if decision["kind"] == "setup":
        return {"text": words}
    if lower in SESSION and decision["kind"] == "permission":
        return _for_the_session(decision)
    return {"accept": False, "text": words}


def _for_the_session(decision: Decision) -> Answer:
    """What permits it until the session ends. Raises ``Unclear`` where it is not offered."""
    for number, option in enumerate(_choices(decision), 1):
        if option.get("value") == "session":
            return {"option": number}
    if not _offers_session(decision):
        raise Unclear(f"this is asked every time: {hint(decision)}")
    return {"accept": True, "scope": "session"}


def _answer_question(decision: Decision, words: str) -> Answer:
    question = _question(decision)
    one = _one_answer(decision, words, multiple=bool(question.get("multiple")))
    return {"answers": [one]} if decision.get("questions") else one


def _one_answer(decision: Decision, words: str, *, multiple: bool) -> Answer:
    if multiple and "," in words:
        numbers = [_number(decision, part.strip()) for part in words.split(",")]
        options = _choices(decision)
        if all(number is not None for number in numbers):
            return {"choices": [options[number - 1]["label"] for number in numbers if number is not None]}
    if (number := _number(decision, words)) is not None:
        return {"option": number}
    return {"text": words}


def _number(decision: Decision, words: str) -> int | None:
    """The option that was typed; None when it is no number, or there are no options. Raises ``Unclear``."""
    options = _choices(decision)
    if not options or not (words.isascii() and words.isdigit()):
        return None
    number = int(words)
    if not 1 <= number <= len(options):
        raise Unclear(f"there is no option {number}: {hint(decision)}")
    return number


def _values(words: str) -> dict[str, Any]:
    if words.startswith("{"):
        try:
            given = json.loads(words)
        except ValueError:
            raise Unclear("that is not JSON") from None
        return dict(given)
    pairs = [part.partition("=") for part in words.replace("\n", ",").split(",") if part.strip()]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise Unclear("write name=value, with commas between several")
    return {name.strip(): value.strip() for name, _, value in pairs}

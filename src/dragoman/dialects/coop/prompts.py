"""A decision as the wire shows it (seed: ``PromptContext``), and a client's ``respond`` as the answer to one."""

from __future__ import annotations

from typing import Protocol

import msgspec

from dragoman.hub.errors import InvalidAnswer
from dragoman.hub.events import Answer, DecisionOpened, Json, Option

from . import messages as wire
from .binding import wire_type

INPUT_BYTES = 200
"""UTF-8 bytes of a tool's input that are shown."""


class Said(Protocol):
    """The fields of ``respond``, from a WebSocket or from HTTP."""

    @property
    def accept(self) -> bool | None: ...
    @property
    def option(self) -> int | None: ...
    @property
    def text(self) -> str | None: ...
    @property
    def answers(self) -> list[wire.QuestionAnswer] | None: ...


def prompt_context(opened: DecisionOpened | None) -> wire.PromptContext | None:
    """The prompt of a state; None when it is in none."""
    if opened is None:
        return None
    kind = wire_type(opened)
    questions = tuple(wire.QuestionContext(each.question, _labels(each.options)) for each in opened.questions)
    if kind == "question" and not questions:
        questions = (wire.QuestionContext(opened.text, _labels(opened.options)),)
    return wire.PromptContext(
        type=kind,
        subtype=opened.subtype,
        tool=opened.tool,
        input=None if opened.input is None else brief(opened.input),
        auth_url=opened.auth_url,
        options=_labels(opened.options),
        options_fallback=opened.options_fallback,
        questions=questions,
        question_current=opened.question_current,
        ready=opened.ready,
    )


def brief(value: Json) -> str:
    """Compact JSON, cut at ``INPUT_BYTES`` on a character boundary."""
    data = msgspec.json.encode(value)
    if len(data) <= INPUT_BYTES:
        return data.decode()
    return data[:INPUT_BYTES].decode(errors="ignore") + "..."


def as_answer(opened: DecisionOpened, said: Said) -> Answer:
    """What the client means, by the kind of the prompt. Raises ``InvalidAnswer`` for what can mean nothing."""
    if opened.kind in ("permission", "plan"):
        if said.option is not None:
            return Answer(option=said.option, text=said.text)
        return Answer(accept=bool(said.accept), text=said.text)
    if opened.kind == "setup":
        if said.option is not None or said.text is not None:
            return Answer(option=said.option, text=said.text)
        if said.accept is False:
            raise InvalidAnswer("a setup prompt is answered with an option")
        return Answer(option=1)
    if opened.kind == "form":
        return Answer(accept=said.accept)
    return _as_answers(opened, said)


def _as_answers(opened: DecisionOpened, said: Said) -> Answer:
    given = said.answers or []
    if not given and (said.option is not None or said.text is not None):
        given = [wire.QuestionAnswer(said.option, said.text)]
    for number, each in enumerate(given, 1):
        if each.option is None and each.text is None:
            raise InvalidAnswer(f"answer {number} has neither an option nor a text")
    answers = tuple(Answer(option=each.option, text=each.text) for each in given)
    if len(answers) == 1 and not opened.questions:
        return answers[0]
    return Answer(answers=answers) if answers else Answer(accept=said.accept)


def _labels(options: tuple[Option, ...]) -> tuple[str, ...]:
    return tuple(option.label for option in options)

"""What an agent asks with one of its tools: a question, leave to carry out a plan, or a permission."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dragoman.hub.events import DecisionKind, Json, Option, Question

from .fields import dicts_of, text_of
from .observation import Dialog

_QUESTION_TOOLS = frozenset({"AskUserQuestion", "ask_user", "ask_user_question", "request_user_input"})
_PLAN_TOOLS = frozenset({"ExitPlanMode", "exit_plan_mode"})

_TELLING = ("command", "cmd", "file_path", "path", "notebook_path", "url", "query", "pattern", "description")
"""Fields of a tool's input that say what it is about, the best first."""


def asks(tool: str | None) -> DecisionKind | None:
    """What calling this tool means to ask of a human, before any permission."""
    if tool in _QUESTION_TOOLS:
        return "question"
    return "plan" if tool in _PLAN_TOOLS else None


def dialog_about(tool: str | None, input_: Json, call: str | None = None) -> Dialog:
    """The dialog that this tool call brings up."""
    kind = asks(tool) or "permission"
    questions = tuple(_questions(input_)) if kind == "question" else ()
    return Dialog(
        kind=kind, text=_text(kind, tool, input_, questions), tool=tool, input=input_, call=call, questions=questions
    )


def _text(kind: DecisionKind, tool: str | None, input_: Json, questions: tuple[Question, ...]) -> str:
    if questions:
        return questions[0].question
    if not isinstance(input_, dict):
        return tool or ""
    if kind == "plan":
        return text_of(input_, "plan", "plan_filename") or tool or ""
    command = input_.get("command")
    if isinstance(command, list):  # Codex's shell takes its arguments one by one
        return " ".join(str(word) for word in command)
    return text_of(input_, *_TELLING) or tool or ""


def _questions(input_: Json) -> Iterator[Question]:
    asked: dict[str, Any] = input_ if isinstance(input_, dict) else {}
    for entry in dicts_of(asked.get("questions") or ([asked] if "question" in asked else [])):
        question = text_of(entry, "question", "text")
        if question is not None:
            yield Question(
                question,
                tuple(_options(entry.get("options"))),
                header=text_of(entry, "header"),
                multiple=entry.get("multiSelect") is True or entry.get("multiple") is True,
            )


def _options(listed: Json) -> Iterator[Option]:
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, str) and entry.strip():
            yield Option(entry)
        elif isinstance(entry, dict) and (label := text_of(entry, "label", "value")) is not None:
            yield Option(label, description=text_of(entry, "description"))


_INJECTED = re.compile(r"\s*<(task-notification|system-reminder|agent-notification|teammate-message)\b")


def is_injected(prompt: str) -> bool:
    """Whether the agent's own machinery gave itself this prompt: a finished background task does."""
    return _INJECTED.match(prompt) is not None

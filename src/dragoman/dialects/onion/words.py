"""This protocol's words for what the hub knows: modes, results, what is asked (spec §6, §9)."""

from __future__ import annotations

import msgspec

from dragoman.hub.events import Json, ToolEnded

from . import messages as wire
from .asking import Ask

MODES: dict[str, wire.Mode] = {"ask": "safe", "plan": "plan", "accept_edits": "accept_edits", "all": "ulw"}
"""The hub's mode -> this protocol's."""

OUR_MODES: dict[str, str] = {word: mode for mode, word in MODES.items()}
"""This protocol's mode -> the hub's."""


def mode_word(mode: Json) -> wire.Mode:
    """A session's mode in this protocol's word; what it has none for is the one that asks."""
    return MODES.get(mode, "safe") if isinstance(mode, str) else "safe"


def result_text(fact: ToolEnded) -> str:
    """A tool's result as text: what the model was given, where the log says so."""
    given = fact.detail.get("model_text")
    if isinstance(given, str):
        return given
    if isinstance(fact.output, str):
        return fact.output
    if fact.output is None:
        return fact.problem.message if fact.problem is not None else ""
    return msgspec.json.encode(fact.output).decode()


def question_shown(name: str, at: float, ask: Ask) -> wire.AskUser:
    """The event that asks a question."""
    asked = ask.asked
    options = tuple(option.label for option in asked.options)
    fields = ask.opened.detail.get("fields") if ask.opened.kind == "form" else None
    return wire.AskUser(
        id=name,
        ts=at,
        question=asked.question,
        options=options or None,
        multi_select=asked.multiple,
        fields=fields if fields is not None else msgspec.UNSET,
    )

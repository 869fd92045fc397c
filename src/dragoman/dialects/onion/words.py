"""This protocol's words for what the hub knows: modes, results, what is asked (spec §6, §9)."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from dragoman.hub.events import DecisionOpened, Json, ToolEnded

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
    if fact.problem is not None and (fact.output is None or fact.status == "denied"):
        return fact.problem.message
    if isinstance(fact.output, str):
        return fact.output
    if fact.output is None:
        return ""
    return msgspec.json.encode(fact.output).decode()


def question_shown(name: str, at: float, ask: Ask) -> wire.StreamEvent:
    """The event that asks it, with this ``id`` and ``ts``."""
    opened = ask.opened
    if ask.kind == "plan_review":
        return wire.PlanReview(id=name, ts=at, plan_content=opened.text)
    if ask.kind == "ask_user":
        return _question(name, at, ask)
    return wire.ApprovalNeeded(
        id=name,
        ts=at,
        tool=opened.tool or "",
        arguments=arguments(opened.input),
        description=_description(opened),
        batch_remaining=_batch(opened.detail.get("batch")) or UNSET,
    )


def _question(name: str, at: float, ask: Ask) -> wire.AskUser:
    asked = ask.asked
    options = tuple(option.label for option in asked.options)
    fields = ask.opened.detail.get("fields") if ask.opened.kind == "form" else None
    return wire.AskUser(
        id=name,
        ts=at,
        question=asked.question,
        options=options or None,
        multi_select=asked.multiple,
        fields=fields if fields is not None else UNSET,
    )


def arguments(given: Json) -> Json:
    """A tool's input as clients take it: an object."""
    if given is None:
        return {}
    return given if isinstance(given, dict) else {"input": given}


def _description(opened: DecisionOpened) -> str:
    """What the agent says of it; the command itself stands among the arguments, if there are any."""
    said = opened.detail.get("description")
    if isinstance(said, str):
        return said
    return opened.text if opened.input is None else ""


def _batch(batch: Json) -> tuple[wire.BatchCall, ...]:
    if not isinstance(batch, list):
        return ()
    try:
        return tuple(msgspec.convert(batch, list[wire.BatchCall]))
    except msgspec.ValidationError:
        return ()

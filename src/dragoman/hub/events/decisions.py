"""Decisions: what a human must answer. The first valid answer wins (invariant 4)."""

from __future__ import annotations

from typing import Literal

import msgspec

from .base import Fact, Json

DecisionKind = Literal["permission", "question", "plan", "setup", "form"]
DecisionOutcome = Literal["answered", "cancelled", "expired"]


class Option(msgspec.Struct, frozen=True, omit_defaults=True):
    """One choice. ``label`` is what is shown, ``value`` what it means where that differs."""

    label: str
    value: str | None = None
    description: str | None = None


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question of a dialog that may hold several."""

    question: str
    options: tuple[Option, ...] = ()
    header: str | None = None
    multiple: bool = False


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a human said. ``option`` counts from 1. ``answers`` holds one entry per question of a dialog.

    ``scope`` widens a permission beyond this once (``session``: what the agent asked for; ``tool``: every call of the
    tool that asks; or a rule in the agent's own words). ``choices`` is an answer that is a list. ``withheld`` marks the
    answer to a secret decision: it reached the agent, not the log.
    """

    accept: bool | None = None
    option: int | None = None
    text: str | None = None
    answers: tuple[Answer, ...] = ()
    scope: str | None = None
    values: dict[str, Json] = {}
    choices: tuple[str, ...] = ()
    withheld: bool = False


class DecisionOpened(Fact, frozen=True, tag="decision.opened"):
    """Something waits for a human.

    ``text`` is the question, or the command to be permitted. ``call`` binds it to a tool call, so that however
    many detectors see the same dialog there is one decision. ``ready`` is false while options are still being read.
    ``secret`` keeps what is typed as an answer (a sign-in code, a key) out of the log.
    """

    decision: str
    kind: DecisionKind
    text: str
    turn: str | None = None
    call: str | None = None
    tool: str | None = None
    input: Json = None
    options: tuple[Option, ...] = ()
    options_fallback: bool = False
    questions: tuple[Question, ...] = ()
    question_current: int = 0
    ready: bool = True
    subtype: str | None = None
    dangerous: bool = False
    secret: bool = False
    reason: str | None = None
    auth_url: str | None = None
    expires_at: int | None = None
    detail: dict[str, Json] = {}


class DecisionRevised(Fact, frozen=True, tag="decision.revised"):
    """More is known of an open decision, or its dialog moved on. Only the given fields change.

    ``answered`` are the answers given so far to a dialog that takes them one by one.
    """

    decision: str
    kind: DecisionKind | None = None
    text: str | None = None
    tool: str | None = None
    input: Json = None
    call: str | None = None
    subtype: str | None = None
    auth_url: str | None = None
    options: tuple[Option, ...] | None = None
    options_fallback: bool | None = None
    questions: tuple[Question, ...] | None = None
    question_current: int | None = None
    ready: bool | None = None
    secret: bool | None = None
    answered: tuple[Answer, ...] | None = None
    by: str | None = None
    cause: str | None = None


class DecisionResolved(Fact, frozen=True, tag="decision.resolved"):
    """The one outcome. Durable before whatever it sets off."""

    decision: str
    outcome: DecisionOutcome
    answer: Answer | None = None
    by: str | None = None
    via: str | None = None
    reason: str | None = None

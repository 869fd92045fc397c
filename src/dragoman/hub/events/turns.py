"""Prompts and turns. A turn is one prompt and everything until its outcome."""

from __future__ import annotations

from typing import Literal

import msgspec

from .base import Fact, Json, Problem

Outcome = Literal["completed", "cancelled", "failed", "interrupted"]


class Attachment(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that came with a prompt. The bytes lie in the artifact store, never in the log."""

    kind: Literal["image", "file", "screenshot"]
    name: str
    artifact: str
    media_type: str | None = None
    size: int | None = None


class PromptSubmitted(Fact, frozen=True, tag="prompt.submitted"):
    """A prompt was accepted. It is acknowledged only after this fact is durable (invariant 3).

    ``text`` is what the person wrote, ``content`` what the client wants the model to see instead, when it says so.
    ``steer`` marks one that a running turn may take in before it ends. ``client`` is the link whose tools, and no other
    client's, its turn may call; where none is named, all are.
    """

    prompt: str
    text: str
    by: str
    via: str
    client_message_id: str | None = None
    content: str | None = None
    attachments: tuple[Attachment, ...] = ()
    steer: bool = False
    detail: dict[str, Json] = {}
    client: str | None = None


class PromptTaken(Fact, frozen=True, tag="prompt.taken"):
    """A waiting prompt entered a turn that already ran (steering)."""

    prompt: str
    turn: str


class PromptWithdrawn(Fact, frozen=True, tag="prompt.withdrawn"):
    """A waiting prompt will not run: taken back, or its session closed."""

    prompt: str
    reason: str
    by: str | None = None


class TurnStarted(Fact, frozen=True, tag="turn.started"):
    """A turn began with ``prompt``. At most one turn is open in a session."""

    turn: str
    prompt: str


class CancelRequested(Fact, frozen=True, tag="turn.cancel_requested"):
    """Someone asked to end this turn; ``turn.ended`` follows once it is true."""

    turn: str
    by: str
    via: str


class TurnSettled(Fact, frozen=True, tag="turn.settled"):
    """What came of a turn is known, and nothing of it runs; its session is busy until its workspace is saved."""

    turn: str
    outcome: Outcome
    problem: Problem | None = None


class TurnEnded(Fact, frozen=True, tag="turn.ended"):
    """The turn has its outcome. ``interrupted`` means that the server was lost while it ran (invariant 6)."""

    turn: str
    outcome: Outcome
    result: str | None = None
    problem: Problem | None = None
    duration_ms: int | None = None

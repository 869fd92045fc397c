"""The scripted agent's little language: one step per line.

====================  ==========================================================================
``say TEXT``          stream TEXT word by word, then add it as the assistant's message
``think TEXT``        the same as reasoning
``burst N``           N text deltas as fast as they go
``pace N MS``         N text deltas, one every MS milliseconds
``tool NAME JSON``    a tool call with that input that succeeds and echoes it
``open NAME JSON``    a tool call that never gets its result (what a crash or a cancel leaves behind)
``permit COMMAND``    open a permission for COMMAND and wait; says what was decided
``ask QUESTION``      open a question (``ask Which? | red | blue`` gives options) and wait
``sleep MS``          wait
``wait``              wait until the turn is cancelled
``steer``             say every prompt that came in for this turn meanwhile
``fact JSON``         record any fact as it stands on disk
``fail TEXT``         fail the turn with TEXT
``crash``             raise what nobody expects
====================  ==========================================================================

A prompt whose first word is none of these is answered with an echo of it, so that a plain greeting gets an answer.
"""

from __future__ import annotations

import msgspec

STEPS = frozenset({"say", "think", "burst", "pace", "tool", "open", "permit", "ask", "sleep", "wait", "steer"}) | {
    "fact",
    "fail",
    "crash",
}
"""Every step's name."""


class Step(msgspec.Struct, frozen=True):
    """One line of a script."""

    name: str
    argument: str


def parse(prompt: str) -> list[Step]:
    """The steps of a prompt; a prompt that is no script becomes one ``say``."""
    lines = [line.strip() for line in prompt.splitlines() if line.strip()]
    steps = [_step(line) for line in lines]
    if not steps or any(step is None for step in steps):
        return [Step("say", f"You said: {prompt}")]
    return [step for step in steps if step is not None]


def _step(line: str) -> Step | None:
    name, _, argument = line.partition(" ")
    return Step(name, argument.strip()) if name in STEPS else None

"""What one source tells of an agent at one moment: evidence of its state, and things that happened.

A normaliser reads a hook's payload or a line of a session log into an ``Observation`` and decides nothing: which
evidence counts is the fusion's business, what is new the ledger's.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from dragoman.hub.events import AnyFact, DecisionKind, Json, Option, Question

Source = Literal["hook", "status", "title", "log", "stream", "process", "screen"]
"""Where evidence comes from: the agent's hooks, its program status reports (OSC 7501), its window title, its session
log, its headless stream, the process itself, its screen. Also the first word of a state's cause."""

Activity = Literal["working", "idle", "prompt", "error", "exited"]


class Dialog(msgspec.Struct, frozen=True, kw_only=True):
    """A dialog that waits for a human, as far as one source knows it.

    ``call`` is the tool call that it is about. ``input`` is the tool's input as given. ``options`` are the rows as
    read from the screen; hooks know none. ``current`` counts the questions already answered.
    """

    kind: DecisionKind
    text: str = ""
    subtype: str | None = None
    tool: str | None = None
    input: Json = None
    call: str | None = None
    auth_url: str | None = None
    questions: tuple[Question, ...] = ()
    options: tuple[Option, ...] = ()
    current: int = 0


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence that the agent is in a state. ``cause`` is the word for the wire (``hook:idle``).

    ``dialog`` comes with ``prompt`` (None: it is known that something is asked, not what), ``error`` with ``error``.
    """

    source: Source
    state: Activity
    cause: str
    dialog: Dialog | None = None
    error: str | None = None


def seen(source: Source, state: Activity, cause: str | None = None, *, error: str | None = None) -> Sighting:
    """Evidence of a state. Its cause is ``source:state`` unless there is a better word."""
    return Sighting(source=source, state=state, cause=cause or f"{source}:{state}", error=error)


def asked(source: Source, dialog: Dialog, cause: str | None = None) -> Sighting:
    """Evidence of a dialog."""
    return Sighting(source=source, state="prompt", cause=cause or f"{source}:prompt({dialog.kind})", dialog=dialog)


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one payload or line says.

    ``facts`` are what happened (messages, tool calls, sub-agents, usage, notes), to be recorded unless known already.
    ``prompt`` is the text of a prompt that the agent took (also a fact among ``facts``). ``interrupted``: the person
    broke the turn off, or rejected what the agent wanted. ``compacted``: the agent's context shrank. ``agent_session``
    and ``transcript`` are the agent's id for its session and the path of its log. ``at`` is when it happened by the
    source's own clock, in milliseconds since 1970.

    A message or a tool call whose source gives it no id has the empty one: the ledger names it.
    """

    facts: tuple[AnyFact, ...] = ()
    sighting: Sighting | None = None
    prompt: str | None = None
    interrupted: bool = False
    compacted: bool = False
    agent_session: str | None = None
    transcript: str | None = None
    at: int | None = None

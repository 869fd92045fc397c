"""A session's life: made, started, changed, ended; and the history it was given."""

from __future__ import annotations

from typing import Literal

import msgspec

from .base import Fact, Json

ErrorCategory = Literal["unauthorized", "out_of_credits", "rate_limited", "no_internet", "server_error", "other"]
"""Why an agent stands in ``error``, in the words of coop's seed."""


class SessionCreated(Fact, frozen=True, tag="session.created"):
    """The first fact of every log.

    ``kind`` says what runs turns (``terminal``, ``scripted``, ``native``, ``hooked``), ``agent`` which
    one (``claude``, ``openai``, ``unknown``…). ``owner`` is the id of the principal that made it.
    ``options`` is what that agent needs to be started again (a terminal's command and size; never its environment,
    which may hold keys). ``settings`` are the first values of what ``settings.changed`` changes.
    """

    kind: str
    agent: str
    cwd: str
    title: str
    owner: str
    options: dict[str, Json] = {}
    settings: dict[str, Json] = {}


class SettingsChanged(Fact, frozen=True, tag="settings.changed"):
    """Session settings that clients can see changed (``title``, ``model``, ``mode``, ``enable_mcp``…).

    Only the changed keys are given; a null value removes the key. Never holds a secret.
    """

    changes: dict[str, Json]
    by: str | None = None


class SessionClosed(Fact, frozen=True, tag="session.closed"):
    """No more turns will run here. The log stays until retention or a delete drops it."""

    reason: str
    by: str | None = None


class AgentStarted(Fact, frozen=True, tag="agent.started"):
    """An executor is live: from here to ``agent.exited`` the session may be running.

    For a terminal: ``pid`` (which is also its process group and session), the clock tick it was started
    at (``pid_start``, so that a reused pid is told apart), its size, the tape offset of its first byte, and the
    offset below which all its bytes lie until more is reserved (``terminal.reserved``).
    """

    pid: int | None = None
    pid_start: int | None = None
    cols: int | None = None
    rows: int | None = None
    tape_offset: int | None = None
    tape_reserved: int | None = None
    run: int = 1
    agent_session: str | None = None


class AgentExited(Fact, frozen=True, tag="agent.exited"):
    """The executor ended. ``cause`` is ``exit``, ``signal``, ``closed``, ``silent`` or ``server-lost``.

    ``code`` is the exit code and ``signal`` the number of the signal that killed it; both are null when nobody
    can know them. ``bytes_read`` and ``bytes_written`` are a terminal's totals. ``reason`` is the agent's own, where it
    said why it ends.
    """

    cause: str
    reason: str | None = None
    code: int | None = None
    signal: int | None = None
    tape_offset: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None


class StateChanged(Fact, frozen=True, tag="state.changed"):
    """What the agent is doing, as far as evidence goes, and what that evidence was (``cause``).

    States: starting, working, idle, prompt, error, exited, unknown. ``tape_offset`` ties it to the terminal's
    bytes, ``decision`` names the dialog that ``prompt`` means. A source that fell silent is cause ``silence``.
    ``error`` after ``error`` is the same one, of which more is known.
    """

    prev: str
    next: str
    cause: str
    tape_offset: int | None = None
    error_detail: str | None = None
    error_category: ErrorCategory | None = None
    decision: str | None = None

    @property
    def revises(self) -> bool:
        """Whether it is no change of state, but says more of the one that holds."""
        return self.prev == self.next == "error"


class HistoryCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call inside a claimed message."""

    call: str
    tool: str
    input: Json = None


class HistoryMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a history that a client claims. Data, never authority."""

    role: str
    content: Json
    id: str | None = None
    kind: str | None = None
    tool: str | None = None
    call: str | None = None
    at: int | None = None
    artifacts: tuple[str, ...] = ()
    calls: tuple[HistoryCall, ...] = ()


class HistoryMerged(Fact, frozen=True, tag="history.merged"):
    """A client's history was taken in: appended to, or (``replace``) put in place of, what was known."""

    messages: tuple[HistoryMessage, ...]
    replace: bool
    by: str
    via: str
    detail: dict[str, Json] = {}


class HistoryReset(Fact, frozen=True, tag="history.reset"):
    """The conversation starts anew: later turns see nothing from before. The log keeps it all."""

    by: str | None = None

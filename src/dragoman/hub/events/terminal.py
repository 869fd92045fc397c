"""What concerns a terminal but is not its raw bytes: those lie on the tape."""

from __future__ import annotations

from typing import Literal

from .base import Fact, Json


class TerminalResized(Fact, frozen=True, tag="terminal.resized"):
    """The terminal has a new size from ``tape_offset`` on."""

    cols: int
    rows: int
    tape_offset: int
    by: str | None = None


class TerminalTitled(Fact, frozen=True, tag="terminal.titled"):
    """The program named its window."""

    title: str
    tape_offset: int


class HookAnswered(Fact, frozen=True, tag="hook.answered"):
    """An agent's hook asked and was answered.

    For ``stop``: ``verdict`` is one of coop's stop types (null: it only reported) and ``signal`` the body that allowed
    it. For ``start``: ``source`` names the life-cycle event, ``injected`` says whether a script was given. For ``end``:
    ``reason`` is the agent's own.
    """

    hook: Literal["stop", "start", "end"]
    verdict: str | None = None
    signal: Json = None
    error_detail: str | None = None
    source: str | None = None
    agent_session: str | None = None
    injected: bool = False
    stop_hook_active: bool = False
    reason: str | None = None


class HookSignalled(Fact, frozen=True, tag="hook.signalled"):
    """Someone allowed the agent's next stop, and said so with this body."""

    signal: Json
    by: str | None = None


class TerminalReserved(Fact, frozen=True, tag="terminal.reserved"):
    """The running program's bytes may reach up to ``tape_reserved``: a lost server's next run starts there.

    So no offset is ever given to two bytes (invariant 7), although the tape itself is not in the log.
    """

    tape_reserved: int

"""What stands in a session now, as far as commands and snapshots need it: the plain structs of ``SessionState``."""

from __future__ import annotations

from typing import Literal

import msgspec

from .events import Json, Outcome, Problem, PromptSubmitted


class OpenTurn(msgspec.Struct):
    """The turn that runs now; ``seq`` is the place of its ``turn.started``, ``submitted`` its prompt.

    ``outcome`` and ``problem`` are known once only its workspace is left to save.
    """

    turn: str
    prompt: str
    seq: int
    started_at: int
    cancelling: bool = False
    outcome: Outcome | None = None
    problem: Problem | None = None
    submitted: PromptSubmitted | None = None

    @property
    def client(self) -> str | None:
        """The link whose tools it may call; None: all."""
        return self.submitted.client if self.submitted is not None else None


class OpenCall(msgspec.Struct):
    """A tool call without a result yet. ``client``, ``bundle`` and its two numbers are said of one that a client runs;
    ``subagent`` names whose call it is, where it is not the agent's own."""

    call: str
    tool: str
    seq: int
    at: int
    turn: str | None = None
    input: Json = None
    client: str | None = None
    bundle: str | None = None
    position: int | None = None
    bundle_size: int | None = None
    subagent: str | None = None


class Executor(msgspec.Struct):
    """The live executor, as ``agent.started`` described it."""

    pid: int | None = None
    pid_start: int | None = None
    cols: int | None = None
    rows: int | None = None
    started_at: int = 0


class Exit(msgspec.Struct):
    """How the last executor ended."""

    cause: str
    code: int | None = None
    signal: int | None = None
    at: int = 0


class AgentStatus(msgspec.Struct):
    """What the agent is doing. ``seq`` counts the changes: 0 is ``starting``, before any of them.

    ``decision`` is the dialog that ``prompt`` means, whether or not it is still open.
    """

    state: str = "starting"
    seq: int = 0
    cause: str = ""
    error_detail: str | None = None
    error_category: str | None = None
    last_message: str | None = None
    since: int = 0
    decision: str | None = None


class StopSignal(msgspec.Struct, frozen=True):
    """The agent's next stop is allowed, and ``body`` is what is said of it. Used up by the stop that it allows."""

    body: Json = None


class SavedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint of the workspace, or (``problem``) that it could not be taken. ``number`` is that of its id.

    ``cwd`` is the folder that it is of: the session's own when it was taken.
    """

    checkpoint: str
    number: int
    trigger: Literal["initial", "auto", "manual", "safety"]
    at: int
    changed: bool
    size: int
    problem: str | None = None
    cwd: str = ""

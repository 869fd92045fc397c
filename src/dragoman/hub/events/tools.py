"""Tool calls, sub-agents, and the tools that clients bring along."""

from __future__ import annotations

from typing import Literal

from .base import Fact, Json, Problem

Executor = Literal["server", "client", "provider", "agent"]
"""Who runs the tool: us, a client that offered it, the model's provider, or the agent's own program."""

ToolStatus = Literal["ok", "error", "denied", "interrupted"]


class ToolCalled(Fact, frozen=True, tag="tool.called"):
    """A tool call begins. ``call`` is its id, the same for every detector that sees it.

    Calls that a client must run as one carry the same ``bundle``, in ``position`` order, from 0; ``bundle_size`` says
    how many there are. ``client`` is the client link that runs it, where ``executor`` is ``client``. ``dynamic`` marks
    a tool that was found at run time (MCP).
    """

    call: str
    tool: str
    input: Json = None
    turn: str | None = None
    executor: Executor = "server"
    title: str | None = None
    parent: str | None = None
    bundle: str | None = None
    position: int | None = None
    bundle_size: int | None = None
    dynamic: bool = False
    invalid: bool = False
    problem: Problem | None = None
    provider_metadata: Json = None
    client: str | None = None


class ToolProgressed(Fact, frozen=True, tag="tool.progressed"):
    """Something a running tool showed before its end."""

    call: str
    output: Json
    turn: str | None = None


class ToolEnded(Fact, frozen=True, tag="tool.ended"):
    """A tool call has its one result. ``interrupted`` marks one that was given to a dangling call.

    ``input`` is given when whoever reported the end also reported what the call was given.
    """

    call: str
    tool: str
    status: ToolStatus
    input: Json = None
    output: Json = None
    problem: Problem | None = None
    turn: str | None = None
    duration_ms: int | None = None
    artifacts: tuple[str, ...] = ()
    detail: dict[str, Json] = {}
    provider_metadata: Json = None


class SubagentStarted(Fact, frozen=True, tag="subagent.started"):
    """The agent handed part of its work to another one."""

    subagent: str
    name: str | None = None
    task: str | None = None
    call: str | None = None
    turn: str | None = None


class SubagentEnded(Fact, frozen=True, tag="subagent.ended"):
    """That other one is done."""

    subagent: str
    status: str | None = None
    result: str | None = None
    turn: str | None = None


class ClientToolsDeclared(Fact, frozen=True, tag="client_tools.declared"):
    """A client offered tools of its own; what was taken and what was refused, and why.

    They can be called while the link ``client`` lives, and take the place of what it offered before.
    """

    by: str
    accepted: tuple[Json, ...]
    rejected: tuple[Json, ...] = ()
    client: str | None = None

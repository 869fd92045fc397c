"""What a tool is, and what it may use of the turn that calls it.

A tool is a name, a description, a typed input and one function. The input type is the contract: the JSON schema for the
model is made of it, and what the model sends is checked against it before the tool is run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar

import msgspec

from dragoman.agents.native.path_guard import PathGuard
from dragoman.agents.native.permissions import Verdict
from dragoman.agents.native.settings import NativeSettings
from dragoman.hub.events import AnyFact, Json

P = ParamSpec("P")
T = TypeVar("T")


class ToolInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of every tool's input: camelCase on the wire, unknown fields ignored."""


class ToolFailed(Exception):
    """The tool could not do it. ``str()`` is what the model and the clients see."""


class ToolDenied(Exception):
    """A person, or the session's mode, did not allow it. ``output`` is the result instead, and what the model is told.

    ``told`` is what it is told where that is more.
    """

    def __init__(self, message: str, output: Json = None, *, told: str | None = None) -> None:
        super().__init__(message)
        self.output = output if output is not None else message
        self.told = told


class Result(msgspec.Struct, frozen=True):
    """What a tool gave. ``output`` goes into the log; ``text`` to the model, where that is to be something else.

    Text that is longer than the model should see is cut by the tool itself, to its own named limit.
    """

    output: Json
    text: str | None = None
    detail: dict[str, Json] = {}


class ForeignCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool that is not ours, for whoever permits it. ``owner`` and ``text`` are for the person asked.

    ``grant`` stands for this tool, ``rule`` for every tool of its owner. ``trusted``: the owner's word is taken, also
    that this tool only reads.
    """

    tool: str
    owner: str
    text: str
    given: Json
    grant: str
    rule: str
    trusted: bool
    read_only: bool


class ToolContext(Protocol):
    """One call's view of its turn."""

    session: str
    turn: str
    call: str
    cwd: Path
    """Where relative paths start, and commands run."""
    roots: tuple[Path, ...]
    """Folders that the tools may touch."""
    guard: PathGuard
    settings: NativeSettings
    subagent: str | None
    """The kind of sub-agent that makes the call, or None: the session's own agent."""

    def record(self, fact: AnyFact) -> None:
        """Append a fact to the session's log."""

    async def progress(self, output: Json) -> None:
        """Show something before the end (``tool.progressed``)."""

    async def permit_command(self, command: str, verdict: Verdict) -> None:
        """Return once the command may run. Raises ``ToolDenied``: by a person, by the mode, by being a sub-agent."""

    async def permit_edit(self, path: str, given: Json) -> None:
        """Return once this file may be changed. ``path`` is for the person asked. Raises ``ToolDenied``."""

    async def permit_foreign(self, wanted: ForeignCall) -> None:
        """Return once this call of a tool that is not ours may be made. Raises ``ToolDenied``."""

    async def ask(self, question: str, options: Sequence[str]) -> str:
        """Ask the person, and wait. Raises ``ToolFailed`` when nobody will answer."""


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what blocks (files, mostly) beside the loop."""
    return await asyncio.to_thread(function, *args, **kwargs)


class Tool(Protocol):
    """One tool. Implementations are stateless: what they need comes with the context."""

    name: ClassVar[str]
    description: ClassVar[str]
    input: ClassVar[type[ToolInput]]

    async def run(self, given: Any, context: ToolContext) -> Result:
        """Do it. ``given`` is an ``input``. Raises ``ToolFailed`` or ``ToolDenied``.

        When cancelled it stops what it started, to the last process, before it lets the cancellation propagate.
        """

"""A turn as tools see it, for tests: a real folder, a real guard, and a person whose answers are written down."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.agents.native.path_guard import PathGuard
from dragoman.agents.native.permissions import Verdict
from dragoman.agents.native.settings import NativeSettings
from dragoman.agents.native.tools.tool import Result, Tool, ToolDenied, ToolFailed
from dragoman.hub.events import AnyFact, Json


class FakeTurn:
    """A ``ToolContext`` that permits everything it is not told to deny.

    ``answers`` maps a question to its answer; a question that is not among them is one that nobody answers.
    ``denied`` maps a command, or a path as it was asked, to the output of the denial. ``meanwhile`` is called with the
    command, path or question while the person is thinking, and may be async.
    """

    def __init__(
        self,
        cwd: Path,
        *,
        roots: Sequence[Path] = (),
        settings: NativeSettings | None = None,
        answers: Mapping[str, str] | None = None,
        denied: Mapping[str, Json] | None = None,
        meanwhile: Callable[[str], Awaitable[None] | None] | None = None,
        subagent: str | None = None,
    ) -> None:
        self.session, self.turn, self.call = "session", "turn", "call"
        self.cwd = cwd
        self.roots = tuple(roots) or (cwd,)
        self.guard = PathGuard(cwd, self.roots)
        self.settings = settings or NativeSettings()
        self.subagent = subagent
        self.facts: list[AnyFact] = []
        self.progressed: list[Json] = []
        self.commands: list[tuple[str, Verdict]] = []
        """Commands that were asked about, denied ones too."""
        self.edits: list[tuple[str, Json]] = []
        """Edits that were asked about: path and input."""
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self._answers = dict(answers or {})
        self._denied = dict(denied or {})
        self._meanwhile = meanwhile

    def record(self, fact: AnyFact) -> None:
        self.facts.append(fact)

    async def progress(self, output: Json) -> None:
        self.progressed.append(output)

    async def permit_command(self, command: str, verdict: Verdict) -> None:
        self.commands.append((command, verdict))
        await self._decide(command)

    async def permit_edit(self, path: str, given: Json) -> None:
        self.edits.append((path, given))
        await self._decide(path)

    async def ask(self, question: str, options: Sequence[str]) -> str:
        self.asked.append((question, tuple(options)))
        await self._wait(question)
        if question not in self._answers:
            raise ToolFailed("nobody answers")
        return self._answers[question]

    async def _decide(self, what: str) -> None:
        await self._wait(what)
        if what in self._denied:
            raise ToolDenied(f"denied: {what}", self._denied[what])

    async def _wait(self, what: str) -> None:
        waited = self._meanwhile(what) if self._meanwhile else None
        if inspect.isawaitable(waited):
            await waited


async def run(tool: Tool, context: FakeTurn, **given: Any) -> Result:
    """Run a tool with an input of these fields (their Python names)."""
    return await tool.run(tool.input(**given), context)

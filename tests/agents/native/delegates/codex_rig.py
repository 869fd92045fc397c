"""A session whose turns Codex runs: the real delegate, on a Codex that does what a test says."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.common.ending import KillSchedule
from dragoman.agents.native.calls import Place
from dragoman.agents.native.delegates.codex import Codex
from dragoman.agents.native.delegates.port import Assignment, ConversationLost
from dragoman.agents.native.path_guard import PathGuard
from dragoman.agents.native.permits import Permits
from dragoman.agents.native.providers.port import ProviderFailed
from dragoman.agents.native.settings import DelegateSettings, NativeSettings
from dragoman.agents.native.step import problem_of
from dragoman.hub.events import Answer, DecisionOpened, Problem
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.turns import TurnContext, TurnFailed
from tests.agents.native.native_rig import NativeHub
from tests.hub.rig import InMemory, proven

LIMITS = DelegateSettings(
    start_seconds=20.0,
    end_seconds=1.0,
    ending=KillSchedule(terminate=0.1, kill=0.2, give_up=5.0),
    line_bytes=256 * 1024,
)
"""Settings under which nothing waits for long."""


class CodexHub(NativeHub):
    """A hub of which each session is run by Codex; ``codex`` is how. ``reports`` are those of the rounds."""

    def __init__(self, folder: Path, codex: Codex, settings: NativeSettings, **assignment: Any) -> None:
        super().__init__(InMemory(), folder)
        self.settings = settings
        self.codex = codex
        self.assignment = assignment
        self.reports: list[Any] = []
        self.puppets.behave = self._run

    async def session(self, **settings: Any) -> Session:
        return await self.create("puppet", settings=settings)

    async def answer(self, session: Session, opened: DecisionOpened, **said: Any) -> None:
        """Answer a decision."""
        await session.answer(LOCAL, opened.decision, Answer(**said), via="test")

    async def _run(self, turn: TurnContext) -> str | None:
        cwd = Path(turn.session.state.cwd)
        permits = Permits(turn, self.settings.mode)
        assignment = Assignment(
            turn=turn,
            place=Place(cwd, (cwd,), PathGuard(cwd, (cwd,)), self.settings),
            permits=permits,
            model="gpt-test",
            mode=permits.mode,
            text=turn.prompt.text,
            step=1,
        )
        assignment = msgspec.structs.replace(assignment, **self.assignment)
        try:
            report = await self.codex.run(assignment)
        except ProviderFailed as failure:
            raise TurnFailed(problem_of(failure)) from failure
        except ConversationLost as lost:
            raise TurnFailed(Problem(code="lost", message=str(lost))) from lost
        self.reports.append(report)
        return report.text


class Script:
    """What the fake does, and what it noted."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._script, self._journal = folder / "script.json", folder / "journal.jsonl"
        self.program = folder / "codex"
        fake = Path(__file__).with_name("fake_codex.py")
        words = " ".join(map(str, (sys.executable, "-S", fake, self._script, self._journal)))
        self.program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        self.program.chmod(0o755)
        self.does()

    def does(self, *turns: list[dict[str, Any]], **more: Any) -> None:
        """Set what it does in each turn."""
        self._script.write_text(json.dumps({"turns": turns, **more}))

    @property
    def notes(self) -> list[dict[str, Any]]:
        """All that it noted so far, in whole lines."""
        text = self._journal.read_text() if self._journal.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def heard(self, method: str) -> list[dict[str, Any]]:
        """The parameters of what it was sent by this method."""
        messages = [note["heard"] for note in self.notes if "heard" in note]
        return [message.get("params", {}) for message in messages if message.get("method") == method]

    @property
    def answers(self) -> list[Any]:
        """What its requests were answered: results, or errors."""
        messages = [note["heard"] for note in self.notes if "heard" in note and "method" not in note["heard"]]
        return [message.get("result", message.get("error")) for message in messages]


@asynccontextmanager
async def codex_hub(
    folder: Path,
    script: Script | None = None,
    *,
    settings: NativeSettings | None = None,
    environment: dict[str, str] | None = None,
    **assignment: Any,
) -> AsyncIterator[CodexHub]:
    """A hub, opened; its logs are held to the grammar afterwards."""
    if settings is None:
        assert script is not None
        limits = msgspec.structs.replace(LIMITS, codex=str(script.program))
        settings = NativeSettings(delegates=limits)
    codex = Codex(settings, environment=environment)
    async with proven(CodexHub(folder, codex, settings, **assignment)) as hub:
        assert isinstance(hub, CodexHub)
        yield hub

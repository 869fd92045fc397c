"""A turn as far as the ``bash`` tool sees it, and an independent look at what runs on this machine."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.common.ending import KillSchedule
from dragoman.agents.native.path_guard import PathGuard
from dragoman.agents.native.permissions import Verdict
from dragoman.agents.native.settings import NativeSettings, ToolLimits
from dragoman.agents.native.tools.bash import Bash, BashInput
from dragoman.agents.native.tools.tool import Result
from dragoman.hub.events import AnyFact, Json

QUICK = KillSchedule(terminate=0.1, kill=0.3, give_up=3)


class BashContext:
    """Permits everything, unless ``permit`` raises; keeps what it was asked and shown."""

    session = "s1"
    turn = "t1"
    call = "c1"
    subagent: str | None = None

    def __init__(self, cwd: Path, *, permit: Callable[[], object] = lambda: None, **limits: Any) -> None:
        self.cwd = cwd
        self.roots = (cwd,)
        self.guard = PathGuard(cwd, [cwd])
        self.settings = NativeSettings(tools=ToolLimits(**{"command_ending": QUICK, **limits}))
        self.asked: list[tuple[str, Verdict]] = []
        self.shown: list[dict[str, str]] = []
        self._permit = permit

    def record(self, fact: AnyFact) -> None:
        raise AssertionError(f"the tool records nothing of its own: {fact}")

    async def progress(self, output: Json) -> None:
        self.shown.append(msgspec.convert(output, dict[str, str]))

    async def permit_command(self, command: str, verdict: Verdict) -> None:
        self.asked.append((command, verdict))
        self._permit()

    async def permit_edit(self, path: str, given: Json) -> None:
        raise AssertionError(f"a command edits nothing: {path}, {given}")

    async def ask(self, question: str, options: Sequence[str]) -> str:
        raise AssertionError(f"nothing to ask: {question}, {options}")

    def seen(self, stream: str) -> str:
        return "".join(shown[stream] for shown in self.shown)


async def bash(context: BashContext, command: str, timeout: int | None = None) -> Result:
    """Run one command with the tool."""
    return await Bash().run(BashInput(command=command, timeout=timeout), context)


def output(result: Result) -> tuple[str, str, int]:
    """stdout, stderr and exit code."""
    given = msgspec.convert(result.output, dict[str, Any])
    assert set(given) == {"stdout", "stderr", "exitCode"}
    return given["stdout"], given["stderr"], given["exitCode"]


def nap() -> str:
    """A length of sleep in seconds, which is nobody else's, so that its sleepers can be found by it."""
    return f"{random.randrange(10_000, 99_999)}.{random.randrange(10**9):09}"


def running(mark: str) -> list[int]:
    """Who has ``mark`` in its command line, and has not ended."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _has(entry, mark)]


def _has(entry: Path, mark: str) -> bool:
    try:
        line = (entry / "cmdline").read_bytes()
        state = (entry / "stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return False
    return os.fsencode(mark) in line and state not in "ZX"

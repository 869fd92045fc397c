"""The programs that the recorder had: a ``claude`` that does what a prompt's first word says, a ``codex`` that waits.

``programs`` puts both into a folder. Run as a program, this file is that ``claude``: the fake agent, which draws and
hooks as the real one does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()

PERMISSION = "[[permission:rm -rf build]]"
"""What ``perm please`` did in the recordings: it asked for this command."""


def programs(folder: Path) -> str:
    """Make both; the ``PATH`` on which they are found first."""
    folder.mkdir(parents=True, exist_ok=True)
    _program(folder / "claude", f'exec "{sys.executable}" "{HERE}" --record "{folder}/record.jsonl" "$@"')
    _program(folder / "codex", "exec cat")
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


NOTED = 'printf "%s\\n" "${CLAUDECODE-nothing}" >> "$0.inherited"'


def _program(path: Path, line: str) -> None:
    path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> "$0.called"\n{NOTED}\n{line}\n', "utf-8")
    path.chmod(0o755)


def inherited(folder: Path, name: str) -> list[str]:
    """What ``CLAUDECODE`` was for that program, each time."""
    return (folder / f"{name}.inherited").read_text("utf-8").splitlines()


def called(folder: Path, name: str) -> list[str]:
    """With which words that program was started, each time."""
    return (folder / f"{name}.called").read_text("utf-8").splitlines()


def pids(folder: Path) -> list[int]:
    """The pids of the ``claude`` that were started."""
    lines = (folder / "record.jsonl").read_text("utf-8").splitlines()
    return [entry["pid"] for entry in map(json.loads, lines) if "pid" in entry]


def _doing(steps: Callable[..., Any]) -> Callable[..., Any]:
    return lambda prompt, *more: steps(PERMISSION if prompt.startswith("perm") else prompt, *more)


if __name__ == "__main__":
    sys.path[0] = str(HERE.parents[4])
    from tests.fake_agent import scenarios
    from tests.fake_agent.agent import Agent, parse

    scenarios.steps = _doing(scenarios.steps)
    sys.exit(Agent(parse(sys.argv[1:])).run())

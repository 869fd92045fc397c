"""Which hooks each agent gets, where its settings lie, and how an entry of ours looks in them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.hooked.post_script import WAITS

SECONDS = 5
"""That an agent gives a hook of ours: it needs one at most."""

SLACK = 30
"""Seconds on top of ``hooked.answer_seconds`` that an agent gives a permission's hook: it ends before it is ended."""

PROGRAM = "dragoman-hook"
"""The name of what is run: by it an entry is known as one of dragoman's."""

CLAUDE = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PermissionDenied",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Notification",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "SessionEnd",
)
CODEX = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "Interrupt",
    "SessionEnd",
)
GEMINI = (
    "SessionStart",
    "SessionEnd",
    "BeforeAgent",
    "AfterAgent",
    "BeforeTool",
    "AfterTool",
    "Notification",
    "PreCompress",
)

_CODEX_BRIEF = {"Interrupt": 3, "SessionEnd": 3}
"""Seconds that Codex gives these at most; it shortens what is longer, and says so each time."""


class Agent(msgspec.Struct, frozen=True):
    """One agent. ``program`` is what a person types to start it; ``events`` are its hooks that tell something."""

    name: str
    title: str
    program: str
    events: tuple[str, ...]

    def settings(self, environment: Mapping[str, str]) -> Path:
        """The file that its hooks stand in."""
        home = Path(environment.get("HOME") or Path.home())
        if self.name == "claude":
            return Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "settings.json"
        if self.name == "codex":
            return codex_home(environment) / "hooks.json"
        return Path(environment.get("GEMINI_CLI_HOME") or home) / ".gemini" / "settings.json"

    def group(self, event: str, program: Path, socket: Path, answer_seconds: float) -> dict[str, Any]:
        """Our entry for this hook, as it stands in the list of the hook's entries."""
        seconds = int(answer_seconds) + SLACK if event == WAITS else SECONDS
        hook: dict[str, Any] = {"type": "command", "command": command(program, socket, self.name, event)}
        if self.name == "gemini":
            # it shows the name, and counts in milliseconds
            return {"matcher": "*", "hooks": [{"name": "dragoman", **hook, "timeout": seconds * 1000}]}
        if self.name == "codex":
            return {"hooks": [{**hook, "timeout": min(seconds, _CODEX_BRIEF.get(event, seconds))}]}
        return {"matcher": "*", "hooks": [{**hook, "timeout": seconds}]}


AGENTS = {
    agent.name: agent
    for agent in (
        Agent("claude", "Claude Code", "claude", CLAUDE),
        Agent("codex", "Codex", "codex", CODEX),
        Agent("gemini", "Gemini CLI", "gemini", GEMINI),
    )
}


def codex_home(environment: Mapping[str, str]) -> Path:
    """Codex' folder, spelled as Codex does in the names of its hooks: resolved where it is given, else as it is."""
    given = environment.get("CODEX_HOME")
    return Path(given).resolve() if given else Path(environment.get("HOME") or Path.home()) / ".codex"


def command(program: Path, socket: Path, agent: str, event: str) -> str:
    """The line that any shell takes, one that is not POSIX's too: words alone, quoted where need be."""
    return shlex.join([str(program), str(socket), agent, event])


def program_of(hook: object) -> Path | None:
    """What an entry of dragoman's runs, whichever installation's it is; None for an entry of somebody else's."""
    line = hook.get("command") if isinstance(hook, dict) else None
    if not isinstance(line, str) or PROGRAM not in line:
        return None
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    return Path(words[0]) if words and Path(words[0]).name == PROGRAM else None

"""A real agent under way, and the fixtures that are taken of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from . import clis
from .driven import COLS, ROWS, Driven
from .homes import Home

DATA = Path(__file__).parents[1] / "data" / "agents"
PROJECT = Path("/tmp/project")
"""Where every recording works, so that nothing of this machine is in it."""

LOGS = {
    "claude": ".claude/projects/*/*.jsonl",
    "codex": ".codex/sessions/*/*/*/rollout-*.jsonl",
    "gemini": ".gemini/tmp/*/chats/session-*.json*",
    "qwen": ".qwen/projects/*/chats/*.jsonl",
}
MAX_TEXT, MAX_ASIDE = 400, 60
"""Characters kept of one string in a log, and in a record that no reader of logs needs: vendors' prompts are long."""

ASIDE = ("attachment", "api-request", "file-history", "world_state", "turn_context", "session_meta")
"""How the types of such records begin."""


HOOKS = "hooks.jsonl"
"""Where in its HOME an agent's hooks are told of."""

_CLAUDE_HOOKS = (
    "SessionStart SessionEnd UserPromptSubmit PreToolUse PermissionRequest PermissionDenied PostToolUse "
    "PostToolUseFailure Notification Stop StopFailure SubagentStart SubagentStop PreCompact PostCompact"
)
_GEMINI_HOOKS = "SessionStart SessionEnd BeforeAgent AfterAgent BeforeTool AfterTool Notification PreCompress"


def hear_hooks(home: Home) -> tuple[str, ...]:
    """Have every hook write what it is told into ``HOOKS``; returns flags for the agent's command."""
    names = (_GEMINI_HOOKS if home.agent == "gemini" else _CLAUDE_HOOKS).split()
    run = {"type": "command", "command": f"{{ cat; echo; }} >> {home.path / HOOKS}"}
    if home.agent == "gemini":
        run["name"] = "record"
    hooks: dict[str, Any] = {"hooks": {name: [{"matcher": "*", "hooks": [run]}] for name in names}}
    if home.agent == "codex":
        (home.path / ".codex" / "hooks.json").write_text(json.dumps(hooks))
        return ("--dangerously-bypass-hook-trust",)
    settings = home.path / f".{home.agent}" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    given = json.loads(settings.read_text()) if settings.exists() else {}
    settings.write_text(json.dumps(given | hooks))
    return ()


class Stage:
    """An agent under way, and the fixtures that are taken of it."""

    def __init__(self, agent: Driven, *, hooks: bool = False) -> None:
        self.agent = agent
        self.hooks = hooks

    async def take(self, moment: str, *patterns: str, quiet: bool = True) -> None:
        """Write the fixture of this moment, once the screen shows all the patterns (and is quiet)."""
        for pattern in patterns:
            await self.agent.shows(pattern)
        if quiet:
            await self.agent.quiet()
        if self.hooks:
            return
        cli = clis.CLIS[self.agent.home.agent]
        snapshot = self.agent.screen.snapshot()
        fixture: dict[str, Any] = {
            "cli": cli.name,
            "version": cli.version,
            "cols": COLS,
            "rows": ROWS,
            "lines": list(snapshot.lines),
            "cursor": [snapshot.cursor.row, snapshot.cursor.col],
            "title": self.agent.title,
            "status": self.agent.status,
        }
        if cli.name == "opencode":  # its selection is a colour
            fixture["styled"] = msgspec.to_builtins(self.agent.screen.styled())
        text = self.scrub(json.dumps(fixture, ensure_ascii=False, indent=1))
        path = DATA / cli.name / f"{moment}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
        print(f"  {cli.name}/{moment}")

    def scrub(self, text: str) -> str:
        """Nothing of this machine: no folder but the project's."""
        return text.replace(str(self.agent.home.path), "/home/user").replace(str(clis.cache()), "/opt/agents")

    def keep(self, scenario: str) -> None:
        """Keep the agent's own log of this run, or what its hooks were told."""
        if self.hooks:
            self._keep(HOOKS, f"hooks-{scenario}.jsonl")
        elif self.agent.home.agent in LOGS:
            self._keep(LOGS[self.agent.home.agent], f"log-{scenario}.jsonl")

    def _keep(self, pattern: str, name: str) -> None:
        for path in sorted(self.agent.home.path.glob(pattern)):
            lines = [line for line in path.read_text().splitlines() if line.strip()]
            kept = [json.dumps(_trimmed(json.loads(self.scrub(line))), ensure_ascii=False) for line in lines]
            (DATA / self.agent.home.agent / name).write_text("\n".join(kept) + "\n")

    async def ask(self, text: str) -> None:
        await self.agent.submit(text)

    async def key(self, *names: str) -> None:
        await self.agent.key(*names)

    async def shows(self, pattern: str) -> None:
        await self.agent.shows(pattern)
        await self.agent.quiet()


def _trimmed(record: Any) -> Any:
    """A record of a log with its long texts cut."""
    aside = isinstance(record, dict) and str(record.get("type", "")).startswith(ASIDE)
    return _cut(record, MAX_ASIDE if aside else MAX_TEXT)


def _cut(value: Any, limit: int) -> Any:
    if isinstance(value, dict):
        return {name: _cut(entry, limit) for name, entry in value.items()}
    if isinstance(value, list):
        return [_cut(entry, limit) for entry in value[: max(limit // 10, 10)]]
    return value[:limit] + "…" if isinstance(value, str) and len(value) > limit else value

"""Gemini CLI and its relative Qwen Code: hooks by a system settings file that only this launch is told of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.agents.common.logs import read_gemini_line, read_qwen_line
from dragoman.agents.common.observation import Observation
from dragoman.hub.errors import InvalidRequest

from .agent_config import merged, read_settings, with_hooks
from .claude import write_private
from .profile import Launch, LaunchContext

GEMINI_HOOKS = (
    "SessionStart",
    "SessionEnd",
    "BeforeAgent",
    "AfterAgent",
    "BeforeTool",
    "AfterTool",
    "Notification",
    "PreCompress",
)

QWEN_HOOKS = (
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PermissionRequest",
    "Notification",
    "Stop",
)


class Gemini:
    """See the module."""

    name = "gemini"
    hooks: tuple[str, ...] = GEMINI_HOOKS
    settles = 0.3
    interrupt: tuple[str, ...] = ("escape",)
    clear: tuple[str, ...] = ("ctrl-u", "ctrl-c")

    _variable = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"

    def launch(self, context: LaunchContext) -> Launch:
        if context.resume is not None:
            raise InvalidRequest("resume works with claude only")
        if context.plain:
            return Launch()
        settings = merged(self._given(context), context.config.settings or {})
        if context.config.mcp is not None:
            settings["mcpServers"] = context.config.mcp

        def ours(event: str) -> dict[str, Any]:
            command = {"type": "command", "name": f"dragoman-{event}", "command": context.hook_command(event)}
            return {"matcher": "*", "hooks": [command]}

        path = write_private(context.folder / f"{self.name}-settings.json", with_hooks(settings, self.hooks, ours))
        return Launch(environment={self._variable: str(path)})

    def find_log(self, environment: Mapping[str, str], cwd: str, since: float) -> Path | None:
        """None: its hooks name the log, and its folder cannot be told from the working folder."""

    def read_record(self, record: dict[str, Any]) -> Observation:
        return read_gemini_line(record)

    def _given(self, context: LaunchContext) -> dict[str, Any]:
        """System settings that the machine has already: ours take their place, so they are taken over."""
        path = context.environment.get(self._variable)
        if not path:
            return {}
        try:
            return read_settings(Path(path), f"{self._variable} {path!r}", self.hooks)
        except FileNotFoundError:
            return {}


class Qwen(Gemini):
    """Qwen Code: Claude's hook names and log shapes in Gemini's settings."""

    name = "qwen"
    _variable = "QWEN_CODE_SYSTEM_SETTINGS_PATH"
    hooks = QWEN_HOOKS

    def read_record(self, record: dict[str, Any]) -> Observation:
        return read_qwen_line(record)

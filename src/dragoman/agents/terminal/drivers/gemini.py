"""Gemini CLI and its relative Qwen Code: hooks by a system settings file that only this launch is told of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.common.logs import read_gemini_line, read_qwen_line
from dragoman.agents.common.observation import Observation
from dragoman.hub.errors import InvalidRequest

from .claude import merged, write_private
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
    hooked = True
    settles = 0.3
    interrupt: tuple[str, ...] = ("escape",)
    clear: tuple[str, ...] = ("ctrl-u", "ctrl-c")

    _variable = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
    _hooks = GEMINI_HOOKS

    def launch(self, context: LaunchContext) -> Launch:
        if context.resume is not None:
            raise InvalidRequest("resume works with claude only")
        if context.plain:
            return Launch()
        settings = merged(self._given(context), dict(context.config.get("settings") or {}))
        if "mcp" in context.config:
            settings["mcpServers"] = context.config["mcp"]
        hooks = dict(settings.get("hooks") or {})
        for event in self._hooks:
            command = {"type": "command", "name": f"dragoman-{event}", "command": context.hook_command(event)}
            hooks[event] = [*hooks.get(event, ()), {"matcher": "*", "hooks": [command]}]
        path = write_private(context.folder / f"{self.name}-settings.json", {**settings, "hooks": hooks})
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
            return msgspec.json.decode(Path(path).read_bytes(), type=dict[str, Any])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as problem:
            raise InvalidRequest(f"{self._variable} {path!r} cannot be read: {problem}") from problem


class Qwen(Gemini):
    """Qwen Code: Claude's hook names and log shapes in Gemini's settings."""

    name = "qwen"
    _variable = "QWEN_CODE_SYSTEM_SETTINGS_PATH"
    _hooks = QWEN_HOOKS

    def read_record(self, record: dict[str, Any]) -> Observation:
        return read_qwen_line(record)

"""Claude Code: its settings file with our hooks, its transcript."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.common.logs import read_claude_line
from dragoman.agents.common.observation import Observation
from dragoman.hub.errors import InvalidRequest

from .hook_answers import SEND
from .profile import Launch, LaunchContext, home_of, newest
from .tail import MAX_LINE

HOOKS = (
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionRequest",
    "Notification",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
)
"""Hooks that are installed. Not those that fire for each piece of a message: the transcript has them."""

_SESSION_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")
"""What may stand behind ``--resume``: no flag, and no path."""

_OWN_SESSION = ("--session-id", "--resume", "-r", "--continue", "-c", "--from-pr", "--fork-session")


class Claude:
    """See the module."""

    name = "claude"
    hooked = True
    settles = 0.3
    interrupt: tuple[str, ...] = ("escape",)
    clear: tuple[str, ...] = ("ctrl-u", "ctrl-u", "ctrl-c")

    def launch(self, context: LaunchContext) -> Launch:
        """``--session-id`` and ``--settings`` behind the command, unless it names a session of its own."""
        arguments: list[str] = []
        session: str | None = context.agent_session
        from_end = False
        if context.resume is not None:
            session, from_end = _resumed(context), True
            arguments += ["--resume", session]
        elif any(_is_flag(word, _OWN_SESSION) for word in context.command):
            session = None
        else:
            arguments += ["--session-id", context.agent_session]
        if not context.plain:
            arguments += ["--settings", str(self._write_settings(context))]
            if "mcp" in context.config:
                path = write_private(context.folder / "mcp.json", {"mcpServers": context.config["mcp"]})
                arguments += ["--mcp-config", str(path)]
        log = None if session is None else projects(context.environment, context.cwd) / f"{session}.jsonl"
        return Launch(arguments=tuple(arguments), log=log, log_from_end=from_end)

    def find_log(self, environment: Mapping[str, str], cwd: str, since: float) -> Path | None:
        found = newest(list(projects(environment, cwd).glob("*.jsonl")), since)
        return found[0] if found else None

    def read_record(self, record: dict[str, Any]) -> Observation:
        return read_claude_line(record)

    def _write_settings(self, context: LaunchContext) -> Path:
        settings = merged(_given_settings(context.command, context.cwd), dict(context.config.get("settings") or {}))
        hooks = dict(settings.get("hooks") or {})
        for event in HOOKS:
            ours = {"matcher": "", "hooks": [{"type": "command", "command": context.hook_command(event)}]}
            hooks[event] = [*hooks.get(event, ()), ours]
        permissions = dict(settings.get("permissions") or {})
        permissions["allow"] = [*permissions.get("allow", ()), f"Bash({SEND}:*)", "Bash(dragoman send:*)"]
        return write_private(
            context.folder / "claude-settings.json", {**settings, "hooks": hooks, "permissions": permissions}
        )


def projects(environment: Mapping[str, str], cwd: str) -> Path:
    """The folder of the transcripts of sessions in ``cwd``."""
    base = environment.get("CLAUDE_CONFIG_DIR")
    folder = Path(base) if base else home_of(environment) / ".claude"
    return folder / "projects" / re.sub(r"[^A-Za-z0-9-]", "-", os.path.realpath(cwd))


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two settings: the second wins, but hooks of both are kept, the first's before."""
    hooks = {**first.get("hooks", {})}
    for event, entries in (second.get("hooks") or {}).items():
        hooks[event] = [*hooks.get(event, ()), *entries]
    return {**first, **second, **({"hooks": hooks} if hooks else {})}


def _given_settings(command: Sequence[str], cwd: str) -> dict[str, Any]:
    """What the command itself gives with ``--settings``: a file or JSON. Ours comes later and would hide it."""
    given = ""
    for word, following in zip(command, [*command[1:], ""], strict=True):
        if word == "--settings":
            given = following
        elif word.startswith("--settings="):
            given = word.partition("=")[2]
    if not given:
        return {}
    try:
        text = given if given.lstrip().startswith("{") else Path(cwd, given).read_text()
        return msgspec.json.decode(text, type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as problem:
        raise InvalidRequest(f"--settings {given!r} cannot be read: {problem}") from problem


def _resumed(context: LaunchContext) -> str:
    """The agent's id of the session that the hint means: a transcript's path, or words of a project folder's name."""
    hint = context.resume or ""
    path = Path(hint)
    if path.suffix != ".jsonl":
        base = projects(context.environment, context.cwd).parent
        wanted = re.sub(r"[^A-Za-z0-9-]", "-", hint)
        folders = [found for found in base.glob("*") if wanted in found.name or found.name.strip("-") in wanted]
        transcripts = newest([file for folder in folders for file in folder.glob("*.jsonl")], 0.0)
        if not transcripts:
            raise InvalidRequest(f"no session of claude matches {hint!r}: give the path of its .jsonl")
        path = transcripts[0]
    session = _session_in(path)
    if session is None or not _SESSION_ID.fullmatch(session):
        raise InvalidRequest(f"{str(path)!r} names no session: it is no transcript of claude")
    return session


def _session_in(path: Path) -> str | None:
    try:
        if not path.is_file():
            raise InvalidRequest(f"{str(path)!r} is no file: give the path of a transcript")
        with path.open("rb") as file:
            while line := file.readline(MAX_LINE):
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                for key in ("sessionId", "conversationId"):
                    if isinstance(record, dict) and isinstance(record.get(key), str):
                        return str(record[key])
    except (OSError, ValueError) as problem:
        raise InvalidRequest(f"{str(path)!r} cannot be read: {problem}") from problem
    return None


def _is_flag(word: str, flags: Sequence[str]) -> bool:
    return word in flags or word.partition("=")[0] in flags


def write_private(path: Path, content: object) -> Path:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(content)))
    return path

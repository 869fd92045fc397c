"""Claude Code: its settings file with our hooks, its transcript."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.common.files import open_regular
from dragoman.agents.common.json_lines import read_line
from dragoman.agents.common.logs import read_claude_line
from dragoman.agents.common.observation import Observation
from dragoman.hub.errors import InvalidRequest, LimitReached
from dragoman.hub.limits import HubLimits

from .agent_config import merged, parse_settings, read_settings, with_hooks
from .hook_answers import SEND
from .profile import RESUME_HINT, Launch, LaunchContext, home_of, newest

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

NAMED_WITHIN = 8 * 1024 * 1024
"""Bytes of a transcript within which it must name its session."""

_OWN_SESSION = ("--session-id", "--resume", "-r", "--continue", "-c", "--from-pr", "--fork-session")


class Claude:
    """See the module."""

    name = "claude"
    hooks: tuple[str, ...] = HOOKS
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
            if context.config.mcp is not None:
                path = write_private(context.folder / "mcp.json", {"mcpServers": context.config.mcp})
                arguments += ["--mcp-config", str(path)]
        log = None if session is None else projects(context.environment, context.cwd) / f"{session}.jsonl"
        return Launch(arguments=tuple(arguments), log=log, log_from_end=from_end)

    def find_log(self, environment: Mapping[str, str], cwd: str, since: float) -> Path | None:
        found = newest(list(projects(environment, cwd).glob("*.jsonl")), since)
        return found[0] if found else None

    def read_record(self, record: dict[str, Any]) -> Observation:
        return read_claude_line(record)

    def _write_settings(self, context: LaunchContext) -> Path:
        settings = merged(_given_settings(context.command, context.cwd), context.config.settings or {})
        permissions = dict(settings.get("permissions") or {})
        permissions["allow"] = [*(permissions.get("allow") or ()), f"Bash({SEND}:*)", "Bash(dragoman send:*)"]

        def ours(event: str) -> dict[str, Any]:
            return {"matcher": "", "hooks": [{"type": "command", "command": context.hook_command(event)}]}

        return write_private(
            context.folder / "claude-settings.json",
            with_hooks({**settings, "permissions": permissions}, self.hooks, ours),
        )


def projects(environment: Mapping[str, str], cwd: str) -> Path:
    """The folder of the transcripts of sessions in ``cwd``."""
    base = environment.get("CLAUDE_CONFIG_DIR")
    folder = Path(base) if base else home_of(environment) / ".claude"
    return folder / "projects" / re.sub(r"[^A-Za-z0-9-]", "-", os.path.realpath(cwd))


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
    what = f"--settings {_short(given)}"
    if given.lstrip().startswith("{"):
        return parse_settings(given, what, HOOKS)
    try:
        return read_settings(Path(cwd, given), what, HOOKS)
    except FileNotFoundError as problem:
        raise InvalidRequest(f"{what} cannot be read: there is no such file") from problem


def _short(text: str) -> str:
    """For a message: what may be a whole file of JSON."""
    return repr(text if len(text) <= 200 else f"{text[:200]}…")


def _resumed(context: LaunchContext) -> str:
    """The agent's id of the session that the hint means: that id, a transcript's path, words of a folder's name."""
    hint = context.resume or ""
    path = Path(hint) if Path(hint).suffix == ".jsonl" else _transcript(context, hint)
    session = _session_in(path)
    if session is None or not _SESSION_ID.fullmatch(session):
        raise InvalidRequest(f"{str(path)!r} names no session: it is no transcript of claude")
    return session


def _transcript(context: LaunchContext, hint: str) -> Path:
    """The one with this id, else the newest of the project folders with these words in their names."""
    base = projects(context.environment, context.cwd).parent
    if _SESSION_ID.fullmatch(hint) and (named := newest(list(base.glob(f"*/{hint}.jsonl")), 0.0)):
        return named[0]
    wanted = re.sub(r"[^A-Za-z0-9-]", "-", hint)
    folders = [found for found in base.glob("*") if _means(wanted, found.name)]
    transcripts = newest([file for folder in folders for file in folder.glob("*.jsonl")], 0.0)
    if not transcripts:
        raise InvalidRequest(f"no session of claude matches {hint!r}: give {RESUME_HINT}")
    return transcripts[0]


def _means(wanted: str, folder: str) -> bool:
    """Whether the hint is part of the folder's name, or a path that goes on below it."""
    words, bare = wanted.strip("-"), folder.strip("-")
    return wanted == folder or (words != "" and bare != "" and (wanted in folder or bare in wanted))


def _session_in(path: Path) -> str | None:
    """The id in a transcript, which names it near its beginning."""
    try:
        with open_regular(path) as file:
            left = NAMED_WITHIN
            while line := file.readline(left):
                left -= len(line)
                session = _session_of(line)
                if session is not None:
                    return session
    except OSError as problem:
        raise InvalidRequest(f"{str(path)!r} cannot be read: {problem.strerror}; give a transcript") from problem
    except ValueError as problem:
        raise InvalidRequest(f"{str(path)!r} is no path; give a transcript's") from problem
    return None


def _session_of(line: bytes) -> str | None:
    try:
        record = read_line(line, HubLimits())
    except LimitReached:
        return None
    if record is None:
        return None
    names = (record.get(key) for key in ("sessionId", "conversationId"))
    return next((name for name in names if isinstance(name, str)), None)


def _is_flag(word: str, flags: Sequence[str]) -> bool:
    return word in flags or word.partition("=")[0] in flags


def write_private(path: Path, content: object) -> Path:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(content)))
    return path

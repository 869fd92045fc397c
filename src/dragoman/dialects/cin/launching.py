"""What ``POST /sessions`` starts: the agents that can be asked for, and the flags of each as its own words (spec §3.2).

The words stand in the session's options, so a restart remembers them. What lets an agent do more than it would by
itself needs the approve right.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from dragoman.hub.real_path import real_path

from .calls import Problem, checked_text

PATH_CHARS = 4096
"""Characters of a folder's path."""

DEFAULT_AGENT = "claude"

Flag = dict[str, object]

Model = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]{0,199}\Z")]
"""A model's name, which must not look like a flag."""

_TMUX_NAME = re.compile(r"[A-Za-z0-9_-]{1,200}")


class Launch(msgspec.Struct, frozen=True):
    """A program with its words. ``widens``: it is to ask less, or may do more, than it would by itself."""

    command: tuple[str, ...]
    widens: bool = False


class Flags(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What any agent takes. ``open_terminal`` means something on a desktop that has a terminal to open only."""

    open_terminal: bool = False
    skip_permissions: bool = False


class ClaudeFlags(Flags, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Of Claude Code."""

    go_on: bool = msgspec.field(default=False, name="continue")
    permission_mode: Literal["default", "acceptEdits", "plan", "dontAsk"] | None = None
    chrome: bool = False
    model: Model | None = None


class CodexFlags(Flags, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Of Codex. The first that is given of ``skip_permissions``, ``full_auto`` and the last two counts."""

    model: Model | None = None
    full_auto: bool = False
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] | None = None
    approval: Literal["untrusted", "on-failure", "on-request", "never"] | None = None


class GeminiFlags(Flags, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Of Gemini CLI and Qwen Code."""

    model: Model | None = None


class OpenCodeFlags(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Of OpenCode, which cannot be told to ask less."""

    open_terminal: bool = False
    skip_permissions: Literal[False] = False
    go_on: bool = msgspec.field(default=False, name="continue")
    model: Model | None = None


def launch_of(agent: str, flags: Flag) -> Launch:
    """How this agent is started with these flags. Raises ``Problem`` (400) for an agent or a flag that is unknown."""
    make = _AGENTS.get(agent)
    if make is None:
        raise Problem(400, f"No adapter registered for agent: {agent[:100]}")
    return make(flags)


def tmux_of(name: str) -> str:
    """A tmux session's name as the option ``attach``. Raises ``Problem`` (400) for what can be none."""
    if not _TMUX_NAME.fullmatch(name):
        raise Problem(400, "tmuxSession must be the name of a tmux session: letters, digits, - and _")
    return f"tmux:{name}"


async def folder_of(cwd: str | None, default: Path) -> str:
    """The real path of an existing folder. Raises ``Problem`` (400)."""
    if cwd:
        checked_text(cwd, "cwd", PATH_CHARS)
    return await asyncio.to_thread(_folder, cwd or str(default))


def _folder(cwd: str) -> str:
    if not cwd.startswith("/"):
        raise Problem(400, f"cwd must be an absolute path, not {cwd!r}")
    try:
        folder = real_path(cwd)
        if not folder.exists():
            raise Problem(400, f"Directory does not exist: {cwd}")
        if not folder.is_dir():
            raise Problem(400, f"Not a directory: {cwd}")
    except (OSError, ValueError) as problem:
        raise Problem(400, f"Directory cannot be used: {cwd}: {problem}") from None
    return str(folder)


Given = TypeVar("Given")


def _read(flags: Flag, shape: type[Given]) -> Given:
    try:
        return msgspec.convert(flags, shape)
    except msgspec.ValidationError as problem:
        raise Problem(400, f"Invalid flags: {problem}") from None


def _with(name: str, value: str | None) -> tuple[str, ...]:
    return () if value is None else (name, value)


def _claude(flags: Flag) -> Launch:
    given = _read(flags, ClaudeFlags)
    words: tuple[str, ...] = ("claude",)
    if given.go_on:
        words += ("--continue",)
    if given.skip_permissions:
        words += ("--permission-mode", "bypassPermissions", "--dangerously-skip-permissions")
    else:
        words += _with("--permission-mode", given.permission_mode)
    if given.chrome:
        words += ("--chrome",)
    words += _with("--model", given.model)
    # The user's own browser, too, is more than it has by itself.
    looser = given.permission_mode not in (None, "default", "plan", "dontAsk")
    return Launch(words, widens=given.skip_permissions or given.chrome or looser)


def _codex(flags: Flag) -> Launch:
    given = _read(flags, CodexFlags)
    words = ("codex", *_with("--model", given.model))
    if given.skip_permissions:
        return Launch((*words, "--dangerously-bypass-approvals-and-sandbox"), widens=True)
    sandbox, approval = given.sandbox, given.approval
    if given.full_auto:  # what --full-auto stands for, which newer versions have no word for
        sandbox, approval = "workspace-write", "on-request"
    words += (*_with("--sandbox", sandbox), *_with("--ask-for-approval", approval))
    return Launch(words, widens=sandbox not in (None, "read-only") or approval not in (None, "untrusted"))


def _gemini(program: str) -> Callable[[Flag], Launch]:
    def launch(flags: Flag) -> Launch:
        given = _read(flags, GeminiFlags)
        words = (program, *_with("--model", given.model), *(("--yolo",) if given.skip_permissions else ()))
        return Launch(words, widens=given.skip_permissions)

    return launch


def _opencode(flags: Flag) -> Launch:
    given = _read(flags, OpenCodeFlags)
    return Launch(("opencode", *(("--continue",) if given.go_on else ()), *_with("--model", given.model)))


_AGENTS: Mapping[str, Callable[[Flag], Launch]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini("gemini"),
    "qwen": _gemini("qwen"),
    "opencode": _opencode,
}

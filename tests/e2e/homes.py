"""A HOME of its own for one run of an agent: pointed at the model server, its start-up dialogs answered or left."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import clis

KEY = "sk-scripted-0123456789abcdefghijklmnopqrstuvwxyz"
MODEL = "scripted-1"


@dataclass(frozen=True)
class Home:
    """How to start one agent: its whole environment and the words of its command; run it in ``cwd``."""

    agent: str
    path: Path
    cwd: Path
    env: dict[str, str]
    command: tuple[str, ...]


def make_home(
    agent: str, path: Path, cwd: Path, port: int, *, answered: bool = True, args: tuple[str, ...] = ()
) -> Home:
    """Write the files of a fresh HOME at ``path`` for an agent that works in ``cwd`` with the model at ``port``.

    Unless ``answered``, the dialogs that the agent can show without a network are left for whoever drives it.
    ``args`` are added to its command. Raises ``clis.Unavailable``.
    """
    start = clis.command(agent)
    path.mkdir(parents=True, exist_ok=True)
    cwd.mkdir(parents=True, exist_ok=True)
    # Nothing is inherited but the search path: neither keys nor proxies of whoever runs the tests.
    env = {
        "HOME": str(path),
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }
    added, flags = _MAKERS[agent](path, cwd, f"http://127.0.0.1:{port}", answered)
    return Home(agent, path, cwd, env | added, (*start, *flags, *args))


Made = tuple[dict[str, str], tuple[str, ...]]


def _claude(home: Path, cwd: Path, url: str, answered: bool) -> Made:
    # Its onboarding asks the vendor's host and ends without a network, so that is always over.
    state: dict[str, Any] = {"hasCompletedOnboarding": True, "theme": "dark"}
    if answered:
        state["customApiKeyResponses"] = {"approved": [KEY[-20:]], "rejected": []}
        state["projects"] = {str(cwd): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}
    _write(home / ".claude.json", json.dumps(state))
    env = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ENABLE_TOOL_SEARCH": "0",
    }
    # Its own default asks a classifier on the vendor's side.
    return env, ("--permission-mode", "default")


def _codex(home: Path, cwd: Path, url: str, answered: bool) -> Made:
    lines = [
        'model = "scripted-1"',
        'model_provider = "scripted"',
        'approval_policy = "on-request"',
        'sandbox_mode = "read-only"',
        "check_for_update_on_startup = false",
        "[analytics]",
        "enabled = false",
        "[model_providers.scripted]",
        'name = "Scripted"',
        f'base_url = "{url}/v1"',
        'env_key = "SCRIPTED_KEY"',
        'wire_api = "responses"',
        "request_max_retries = 0",
        "stream_max_retries = 0",
    ]
    # Without a provider it asks how to sign in.
    _write(home / ".codex" / "config.toml", "\n".join(lines if answered else lines[4:7]) + "\n")
    return {"SCRIPTED_KEY": KEY}, ("--no-daemon",)


def _gemini(home: Path, cwd: Path, url: str, answered: bool) -> Made:
    settings: dict[str, Any] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": not answered}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    }
    _write(home / ".gemini" / "settings.json", json.dumps(settings))
    env = {
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": KEY,
        # Otherwise a child of its own holds the terminal.
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }
    return env, ()


def _qwen(home: Path, cwd: Path, url: str, answered: bool) -> Made:
    settings = {"security": {"auth": {"selectedType": "openai"}}, "general": {"enableAutoUpdate": False}}
    _write(home / ".qwen" / "settings.json", json.dumps(settings))
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY, "OPENAI_MODEL": MODEL}, ()


def _opencode(home: Path, cwd: Path, url: str, answered: bool) -> Made:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {MODEL: {"name": "Scripted"}},
    }
    settings = {
        "$schema": "https://opencode.ai/config.json",
        "provider": {"scripted": provider},
        "model": f"scripted/{MODEL}",
        "permission": {"bash": "ask", "edit": "ask"},
        "autoupdate": False,
    }
    _write(cwd / "opencode.json", json.dumps(settings))
    return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}, ()


_MAKERS: dict[str, Callable[[Path, Path, str, bool], Made]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "qwen": _qwen,
    "opencode": _opencode,
}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)

"""Whether a person has trusted a folder in Claude Code itself.

Headless it asks nobody: hooks, servers and variables that a folder's own settings name would be run and used at once,
also in a folder that somebody only cloned. So they count only where a person has said so at the program's own dialog.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from dragoman.hub.errors import NOT_JSON

FILE_BYTES = 64 * 1024 * 1024
"""Bytes of its state; it keeps a history in it, and a larger one is none of its own."""

_OWN_FILES = (".claude", ".mcp.json", "CLAUDE.md", "CLAUDE.local.md")


class _Project(msgspec.Struct, rename={"trusted": "hasTrustDialogAccepted"}):
    trusted: bool = False


class _State(msgspec.Struct):
    projects: dict[str, _Project] = {}


def is_trusted(folder: Path, environment: Mapping[str, str]) -> bool:
    """Whether the folder, or one that it lies in, was trusted. Reads the program's state; nothing there is no."""
    trusted = _trusted(environment)
    places = {folder, Path(os.path.realpath(folder))}
    return any(str(place) in trusted for start in places for place in (start, *start.parents))


def has_settings(folder: Path) -> bool:
    """Whether the folder has anything that the program would take for its own there."""
    return any((folder / name).exists() for name in _OWN_FILES)


def _trusted(environment: Mapping[str, str]) -> frozenset[str]:
    file = Path(environment.get("CLAUDE_CONFIG_DIR") or environment.get("HOME") or "/", ".claude.json")
    try:
        if file.stat().st_size > FILE_BYTES:
            return frozenset()
        state = msgspec.json.decode(file.read_bytes(), type=_State)
    except (OSError, *NOT_JSON):
        return frozenset()
    return frozenset(path for path, project in state.projects.items() if project.trusted)

"""Which hooks an installed Claude Code knows: one that is older skips a whole settings file over a name it does not."""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from .agents import Agent

_BASIC = ("PreToolUse", "PostToolUse", "Stop")
"""Without these in it, it is no program with hooks, but something that starts one."""


def unknown_hooks(agent: Agent, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Those of the agent's hooks whose names do not occur in its program; none where that cannot be told.

    Reads through the program (hundreds of megabytes, a second or some). The others skip single names that they do not
    know, so only Claude Code is looked at.
    """
    found = shutil.which(agent.program, path=environment.get("PATH"))
    if agent.name != "claude" or found is None:
        return ()
    try:
        with Path(found).resolve().open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as program:
            return _missing(agent.events, program)
    except (OSError, ValueError):  # not ours to read; or empty
        return ()


def _missing(events: Collection[str], program: mmap.mmap) -> tuple[str, ...]:
    def has(name: str) -> bool:
        return any(program.find(quote + name.encode() + quote) >= 0 for quote in (b'"', b"'"))

    return tuple(event for event in events if not has(event)) if all(map(has, _BASIC)) else ()

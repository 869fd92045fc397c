"""What the model is told of itself and its place, before anything else."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from .path_guard import PathGuard
from .providers.conversation import ToolSpec

MEMORY = Path(".agent") / "AGENT.md"
"""What the project wants every agent to know, below the project's folder."""

MEMORY_LIMIT = 32_000
"""Bytes of it that go into the prompt."""

_SELF = """\
You are an agent in dragoman: you work in a folder of the person's machine, with tools, and answer them.

Work in steps: look before you change, change no more than was asked, and check what you did. Say what you found or \
did in plain words; be brief. When something is unclear and guessing would cost more than asking, ask. Never say that \
you did something that you did not do, and never invent a result.

Call several tools at once when they do not depend on each other. When a call is refused, do not try to reach the same \
by another way: say what you would have done, and why."""

_PLAN = """\

You are in plan mode. Look around, think, and ask if you must, but change nothing. Once you know enough, present your \
plan with the tool presentPlan and wait for what is said of it."""

_SUBAGENT = {
    "explore": "You look around in the workspace for another agent, and change nothing.",
    "research": "You look things up on the web for another agent.",
    "general": "You do a part of another agent's work for it.",
}

_SUBAGENT_RULES = """\
You cannot ask anybody. Do the task as far as you can, then answer with everything the other agent needs: it sees \
nothing of your work but your last words. Say plainly what you could not do or find."""


def system_prompt(cwd: Path, tools: Iterable[ToolSpec], *, mode: str, memory: str | None, today: date) -> str:
    """The session's own agent's system prompt."""
    names = ", ".join(tool.name for tool in tools)
    parts = [_SELF + (_PLAN if mode == "plan" else ""), _surroundings(cwd, today)]
    if names:
        parts.append(f"Your tools: {names}.")
    if memory:
        parts.append(f"What this project wants you to know ({MEMORY}):\n\n{memory}")
    return "\n\n".join(parts)


def subagent_prompt(agent_type: str, cwd: Path, today: date) -> str:
    """A sub-agent's system prompt."""
    return "\n\n".join([_SUBAGENT[agent_type], _SUBAGENT_RULES, _surroundings(cwd, today)])


def project_memory(guard: PathGuard, root: Path) -> str | None:
    """The project's memory file, cut to its limit; None where there is none, or it leads out of the project. Blocks."""
    try:
        with guard.open_file("memory", str(root / MEMORY)) as file:
            data = file.read(MEMORY_LIMIT + 1)
    except OSError:  # the guard's refusals are such too
        return None
    text = data[:MEMORY_LIMIT].decode(errors="replace").strip()
    return (text + "\n[cut here]" if len(data) > MEMORY_LIMIT else text) or None


def _surroundings(cwd: Path, today: date) -> str:
    return f"Working folder: {cwd}\nSystem: {platform.system()}\nToday: {today.isoformat()}"

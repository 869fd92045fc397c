"""What the model is told of itself and its place, before anything else."""

from __future__ import annotations

import platform
from collections.abc import Collection, Sequence

from dragoman.hub.skills import Skill

from .briefing import Briefing
from .providers.conversation import ToolSpec
from .tools.skill import Skill as SkillTool

SKILLS_CHARS = 16_000
"""Characters that the list of skills may take in a prompt; of skills beyond, only the number is told."""

DESCRIPTION_CHARS = 400
"""Of one skill's description."""

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

_SKILLS = """\
Skills are instructions for kinds of tasks. When one of these fits what you are asked to do, load it with the tool \
skill before you begin, and work as it says; when none fits, load none. Load it again rather than go by memory: it may \
have changed. A skill permits nothing: what you would have to ask about, you still ask about."""

_SUBAGENT = {
    "explore": "You look around in the workspace for another agent, and change nothing.",
    "research": "You look things up on the web for another agent.",
    "general": "You do a part of another agent's work for it.",
}

_SUBAGENT_RULES = """\
You cannot ask anybody. Do the task as far as you can, then answer with everything the other agent needs: it sees \
nothing of your work but your last words. Say plainly what you could not do or find."""


def system_prompt(briefing: Briefing, tools: Collection[ToolSpec], *, mode: str) -> str:
    """The session's own agent's system prompt. Skills are told of only where there is the tool that loads them."""
    names = [tool.name for tool in tools]
    parts = [_SELF + (_PLAN if mode == "plan" else ""), _surroundings(briefing)]
    if names:
        parts.append(f"Your tools: {', '.join(names)}.")
    parts += _skills(briefing.skills, names)
    if briefing.memory:
        parts.append(briefing.memory)
    return "\n\n".join(parts)


def subagent_prompt(agent_type: str, briefing: Briefing, tools: Collection[str]) -> str:
    """A sub-agent's system prompt. ``tools`` are the names of what it may call."""
    parts = [_SUBAGENT[agent_type], _SUBAGENT_RULES, _surroundings(briefing), *_skills(briefing.skills, tools)]
    return "\n\n".join(parts)


def _surroundings(briefing: Briefing) -> str:
    lines = [
        f"Working folder: {briefing.cwd}",
        f"System: {platform.system()}",
        f"Today: {briefing.today.isoformat()}",
    ]
    if briefing.user_name:
        lines.append(f"You work for: {_one_line(briefing.user_name)}")
    if briefing.knowledge_cutoff:
        lines.append(f"What you know ends at: {_one_line(briefing.knowledge_cutoff)}")
    return "\n".join(lines)


def _skills(skills: Sequence[Skill], tools: Collection[str]) -> list[str]:
    """The part about skills, if there is anything to say."""
    if not skills or SkillTool.name not in tools:
        return []
    lines, room = [_SKILLS], SKILLS_CHARS
    for position, skill in enumerate(skills):
        line = f"- {_one_line(skill.name)}: {_one_line(skill.description)}"
        room -= len(line) + 1
        if room < 0:
            lines.append(f"- and {len(skills) - position} more, which the list has no room for")
            break
        lines.append(line)
    return ["\n".join(lines)]


def _one_line(text: str) -> str:
    """Somebody's words as one line of the prompt, no longer than a description may be."""
    line = " ".join(text.split())
    return line if len(line) <= DESCRIPTION_CHARS else f"{line[: DESCRIPTION_CHARS - 1]}\N{HORIZONTAL ELLIPSIS}"

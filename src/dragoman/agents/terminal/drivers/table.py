"""The agents that can be driven, by the word of ``--agent``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.agents.terminal.terminal import PtyTerminal
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.session import Session

from .agent_config import agent_config
from .claude import Claude
from .codex import Codex
from .driver import AgentDriver
from .gemini import Gemini, Qwen
from .opencode import OpenCode
from .profile import RESUME_HINT, GroomMode, Profile
from .settings import DriverSettings

PROFILES: Mapping[str, Profile] = {
    profile.name: profile for profile in (Claude(), Codex(), Gemini(), Qwen(), OpenCode())
}


def make_driver(
    agent: str,
    session: Session,
    terminal: PtyTerminal,
    settings: DriverSettings,
    *,
    groom: GroomMode,
    config: Mapping[str, Any],
    resume: str | None,
) -> AgentDriver | None:
    """The driver for this agent; None for a program that none of them knows."""
    profile = PROFILES.get(agent)
    if profile is None:
        return None
    return AgentDriver(session, terminal, profile, settings, groom=groom, config=config, resume=resume)


def check_driver_options(agent: str, *, groom: GroomMode, config: Mapping[str, Any], resume: str | None) -> None:
    """Raise ``InvalidRequest`` for options that this agent's driver cannot have."""
    if resume is not None and not resume.strip():
        raise InvalidRequest(f"resume names no session: give {RESUME_HINT}")
    if resume is not None and agent != "claude":
        raise InvalidRequest("resume works with claude only")
    if resume is not None and groom == "pristine":
        raise InvalidRequest("resume needs hooks, and pristine installs none")
    if config:
        check_agent_config(agent, config, groom=groom)


def check_agent_config(agent: str, config: Mapping[str, Any], *, groom: str) -> None:
    """Raise ``InvalidRequest`` for a config that this agent could not be launched with, or that has no effect."""
    able = [profile.name for profile in PROFILES.values() if profile.hooks]
    if agent not in able:
        raise InvalidRequest(f"agent_config is for {', '.join(able)}, not for {agent!r}")
    if groom == "pristine":
        raise InvalidRequest("agent_config needs our settings file, and pristine writes none")
    agent_config(config, PROFILES[agent].hooks)

"""What is particular to one agent: how it is launched so that we hear of it, where its log lies, its keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from dragoman.agents.common.observation import Observation

from .agent_config import AgentConfig

GroomMode = Literal["auto", "manual", "pristine"]
"""What becomes of set-up dialogs that need no human: ``auto`` answers them, ``manual`` leaves them to clients,
``pristine`` also leaves the agent's own settings alone."""


RESUME_HINT = "its id, words of its project folder, or the path of its .jsonl"
"""What a session to be resumed is named by."""


class LaunchContext(msgspec.Struct, frozen=True, kw_only=True):
    """One launch. ``folder`` is the session's own (0700); files made there are for this launch alone.

    ``agent_session`` is a fresh id for the agent's session; ``resume`` is what the session should go on from, in the
    words of coop's ``--resume``; ``config`` is coop's ``--agent-config``. ``plain`` leaves the agent's own settings as
    they are (``--groom pristine``): no hooks.
    """

    folder: Path
    cwd: str
    command: Sequence[str]
    environment: Mapping[str, str]
    agent_session: str
    resume: str | None = None
    config: AgentConfig = AgentConfig()
    plain: bool = False
    hook_command: Callable[[str], str]


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How to launch it: arguments to append, environment to add, where its session log will be (if that is known)."""

    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    log: Path | None = None
    log_from_end: bool = False


class Profile(Protocol):
    """One agent. ``name`` is the word of ``--agent``."""

    name: str

    hooks: tuple[str, ...]
    """The hooks that are installed, by its own names; none where they cannot be."""

    settles: float
    """Seconds for which its input box must have stood there before it is ready at its start: some draw the box, call
    themselves idle, and then work for a moment more, or are not yet listening."""

    interrupt: tuple[str, ...]
    """Keys that break off what it does."""

    clear: tuple[str, ...]
    """Keys that empty its input box, to be tried one after the other."""

    def launch(self, context: LaunchContext) -> Launch:
        """Write what the launch needs. Raises ``InvalidRequest`` for a resume or a config that cannot be used."""

    def find_log(self, environment: Mapping[str, str], cwd: str, since: float) -> Path | None:
        """The log of a session that began at ``since`` (seconds since 1970) in this folder, once there is one."""

    def read_record(self, record: dict[str, Any]) -> Observation:
        """One record of its session log."""


def home_of(environment: Mapping[str, str]) -> Path:
    """The home folder as the agent will see it."""
    return Path(environment.get("HOME") or Path.home())


def newest(paths: Sequence[Path], since: float) -> list[Path]:
    """Those written to since then, the newest first."""
    found: list[tuple[float, Path]] = []
    for path in paths:
        try:
            changed = path.stat().st_mtime
        except OSError:
            continue
        if changed >= since:
            found.append((changed, path))
    return [path for _, path in sorted(found, reverse=True)]

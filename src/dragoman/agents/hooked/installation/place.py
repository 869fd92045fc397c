"""One person's installation: where its own files lie, where hooks are to post to, and what is wanted of each agent."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from .agents import PROGRAM, Agent
from .hook_entries import entries
from .json_text import read_json
from .problems import CannotInstall
from .settings_file import SettingsFile


class Place:
    """``folder`` is the installation's own (``hooks`` in the configuration's), ``socket`` the server's.

    ``environment`` says where the agents' files lie.
    """

    def __init__(self, folder: Path, socket: Path, answer_seconds: float, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.program = folder / PROGRAM
        self.socket = socket
        self.environment = environment
        self._answer_seconds = answer_seconds

    def check(self) -> None:
        """Raise ``CannotInstall`` for names that no settings file can hold."""
        try:
            f"{self.program}{self.socket}".encode()
        except UnicodeEncodeError:
            raise CannotInstall(f"{self.program!s} or {self.socket!s} is not UTF-8: no settings can name it") from None

    def path(self, agent: Agent) -> Path:
        """The file that the agent's hooks stand in."""
        return agent.settings(self.environment)

    def config(self, agent: Agent) -> Path:
        """Codex' other file."""
        return self.path(agent).with_name("config.toml")

    def present(self, agent: Agent) -> bool:
        """Whether the agent has been used here, or can be started."""
        program = shutil.which(agent.program, path=self.environment.get("PATH"))
        return self.path(agent).parent.is_dir() or program is not None

    def wanted(self, agent: Agent, left_out: Collection[str]) -> dict[str, dict[str, Any]]:
        """Our entry for each hook of the agent's that it knows."""
        return {
            event: agent.group(event, self.program, self.socket, self._answer_seconds)
            for event in agent.events
            if event not in left_out
        }

    def settings(self, agent: Agent) -> dict[str, Any]:
        """What the file holds now. Raises ``CannotInstall``."""
        path = self.path(agent)
        text = SettingsFile(path).text
        return read_json(text, str(path)) if text and text.strip() else {}

    def in_use(self, agents: Collection[Agent]) -> bool:
        """Whether any of them runs our program, or that cannot be told."""
        try:
            return any(entry.program == self.program for agent in agents for entry in entries(self.settings(agent)))
        except CannotInstall:
            return True

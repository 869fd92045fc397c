"""OpenCode: known by its screen alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.agents.common.observation import Observation
from dragoman.hub.errors import InvalidRequest

from .profile import Launch, LaunchContext


class OpenCode:
    """See the module."""

    name = "opencode"
    hooks: tuple[str, ...] = ()
    settles = 0.5
    interrupt: tuple[str, ...] = ("escape", "escape")
    clear: tuple[str, ...] = ("ctrl-u", "ctrl-c")

    def launch(self, context: LaunchContext) -> Launch:
        if context.resume is not None:
            raise InvalidRequest("resume works with claude only")
        return Launch()

    def find_log(self, environment: Mapping[str, str], cwd: str, since: float) -> Path | None:
        """None: it keeps a database."""

    def read_record(self, record: dict[str, Any]) -> Observation:  # noqa: ARG002
        return Observation()

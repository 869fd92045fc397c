"""Makes native agents (session kind ``native``), and ends what a lost server left running for them.

The agent and its tools are imported with the first session that needs them: every start of the server would wait for
them, and the first such session waits for a model anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.agents.common.processes import ProcessTable
from dragoman.hub.clock import Clock
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import Json, LogWritten
from dragoman.hub.previews import Previews
from dragoman.hub.session import Session
from dragoman.hub.skills import Skills
from dragoman.hub.standing import Executor
from dragoman.hub.workspace_config import WorkspaceConfigs

from .mcp.consents import Consents
from .modes import MODES, loosens
from .settings import NativeSettings

if TYPE_CHECKING:
    from .agent import Models, NativeAgent
    from .mcp.servers import McpServers
    from .offered import Offers
    from .tools.tool import Tool

log = logging.getLogger("dragoman.native")

_SWITCHES = frozenset({"enable_mcp"})
_TEXTS = frozenset({"provider", "model", "system_prompt", "instructions", "output_directory"})
_LISTS = frozenset({"enabled_tools", "disabled_tools"})

_NAMES = frozenset({"provider", "model"})

NAME_CHARS = 1000
"""Characters of the name of a model or a provider: every piece of an answer carries both."""


class NativeFactory:
    """One for a server. A session's settings say what it runs with: ``provider``, ``model``, ``mode``.

    ``search_key`` gives the key that goes by this name (``BRAVE_API_KEY``), or None. ``private`` are files and folders
    of the server's own (keys, logs of sessions), which no tool may touch wherever a session works. ``skills`` and
    ``configs`` say what a session's folder offers and wants. ``home`` is the person's folder, whose ``.agent/AGENT.md``
    the tool ``memory`` reads where the project has none; None for nobody's. ``consents`` is the file of those MCP
    servers of projects that a person permitted for good; without it none is.
    """

    kind = "native"
    elsewhere = False

    def __init__(
        self,
        models: Models,
        settings: NativeSettings,
        *,
        search_key: Callable[[str], str | None] = lambda _service: None,
        private: Collection[Path] = (),
        skills: Skills | None = None,
        configs: WorkspaceConfigs | None = None,
        home: Path | None = None,
        consents: Path | None = None,
    ) -> None:
        self._models = models
        self._settings = settings
        self._search_key = search_key
        self._private = tuple(private)
        self._skills = skills
        self._configs = configs
        self._home = home
        self._consents = Consents(consents)
        self._processes = ProcessTable()
        self._offers: Offers | None = None
        """What all sessions share of the tools that their models are offered."""

    def validate(self, agent: str, cwd: str, options: dict[str, object]) -> dict[str, object]:  # noqa: ARG002
        if options:
            raise InvalidRequest(f"a native session takes no options, got {', '.join(sorted(options))}: use settings")
        return {}

    def check_settings(self, changes: Mapping[str, Json]) -> None:
        """A word that is no mode would silently permit as little as ``ask``; text that is none, name no model."""
        mode = changes.get("mode")
        if mode is not None and mode not in MODES:
            raise InvalidRequest(f"mode: {str(mode)[:40]!r} is none of {', '.join(MODES)}")
        for key, value in changes.items():
            if key in _TEXTS and value is not None and not isinstance(value, str):
                raise InvalidRequest(f"{key}: it is a text")
            if key in _NAMES and isinstance(value, str) and len(value) > NAME_CHARS:
                raise InvalidRequest(f"{key}: it has at most {NAME_CHARS} characters")
            if key in _LISTS and value is not None and not _are_names(value):
                raise InvalidRequest(f"{key}: it is a list of names")
            if key in _SWITCHES and value is not None and not isinstance(value, bool):
                raise InvalidRequest(f"{key}: it is true or false")

    def widens(self, before: Mapping[str, Json], changes: Mapping[str, Json]) -> bool:
        """A looser mode does, and any other folder."""
        if "output_directory" in changes:
            return True
        return "mode" in changes and loosens(before.get("mode"), changes["mode"], self._settings.mode)

    def adopt(self, session: str, options: dict[str, object]) -> None:
        """There is nothing to keep."""

    def make(self, session: Session) -> NativeAgent:
        from .agent import NativeAgent  # noqa: PLC0415 - see the module
        from .offered import Offers  # noqa: PLC0415

        self._offers = self._offers or Offers()
        return NativeAgent(
            session,
            self._models,
            self._tools(),
            self._settings,
            private=self._private,
            skills=self._skills,
            configs=self._configs,
            mcp=self._servers(session, self._configs) if self._configs is not None else None,
            offers=self._offers,
        )

    def previews(self, clock: Clock) -> Previews:
        """What shows what its sessions would give their models."""
        from .preview import NativePreviews  # noqa: PLC0415 - see the module

        return NativePreviews(
            self._models,
            self._tools(),
            self._settings,
            clock=clock,
            private=self._private,
            skills=self._skills,
            configs=self._configs,
        )

    def tool_names(self) -> Collection[str]:
        """What the model of a new session is offered, before its folder and its mode say otherwise."""
        return [tool.name for tool in self._tools()]

    def _tools(self) -> Sequence[Tool]:
        from .tools.table import built_in_tools  # noqa: PLC0415 - see the module

        return built_in_tools(
            processes=self._processes, search_key=self._search_key, skills=self._skills, home=self._home
        )

    def _servers(self, session: Session, configs: WorkspaceConfigs) -> McpServers:
        from .mcp.servers import McpServers  # noqa: PLC0415 - see the module
        from .tools.environment import plain_environment  # noqa: PLC0415

        return McpServers(
            session,
            configs,
            self._settings.mcp,
            consents=self._consents,
            processes=self._processes,
            environment=plain_environment(self._settings),
        )

    async def sweep(self, kept: Collection[str]) -> Collection[str]:
        """The sessions of which commands still run; nothing lies beside the log."""
        markers = [process.marker for process in await self._processes.read() if process.marker]
        return {session for marker in markers if (session := marker.partition("/")[0]) != marker and session in kept}

    async def recover(self, session: Session, lost: Executor | None) -> None:  # noqa: ARG002
        """End the commands that the lost server left running, and say in the log what was found."""
        from .tools.command import end_lost_commands  # noqa: PLC0415 - see the module

        reports = await end_lost_commands(session.id, limits=self._settings.tools, processes=self._processes)
        for line in filter(None, (report.line for report in reports)):
            session.record(LogWritten(line=line, level="warning"), settling=True)
            log.warning("session %s: %s", session.id, line)

    def dropped(self, session: str) -> None:
        """Nothing is kept beside the log."""


def _are_names(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)

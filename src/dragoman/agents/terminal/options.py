"""What a terminal session is made of, and whether it can be made of that."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from dragoman.agents.common.program import check_command, resolve_folder, resolve_program
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import Json

from .drivers.profile import GroomMode
from .drivers.table import check_driver_options
from .limits import check_size
from .settings import TerminalSettings
from .tmux import check_attach, tmux_command

PRIVATE_OPTIONS = {"env": "environment", "agent_config": "agent-config"}
"""Options that may hold keys, and the name under which each is kept beside the log: they are never in it."""


class TerminalOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a terminal session is made of. ``env`` is added to the server's environment and never logged.

    ``attach`` (``tmux:NAME``) stands in place of ``command``; without ``cols`` and ``rows`` the pane keeps its size.
    The last three are for sessions with a driver, and are coop's: ``--groom``, ``--agent-config``, ``--resume``.
    """

    command: tuple[str, ...] = ()
    attach: str | None = None
    cols: int | None = None
    rows: int | None = None
    model: bool | None = None
    record: bool | None = None
    env: dict[str, str] = {}
    groom: GroomMode = "auto"
    agent_config: dict[str, Json] = {}
    resume: str | None = None

    def size(self, settings: TerminalSettings) -> tuple[int, int]:
        """Columns and rows, from the settings where none are given."""
        cols = settings.cols if self.cols is None else self.cols
        return cols, settings.rows if self.rows is None else self.rows


def options_from(given: Mapping[str, object]) -> TerminalOptions:
    """Raises ``InvalidRequest`` for what is none."""
    try:
        return msgspec.convert(given, TerminalOptions)
    except msgspec.ValidationError as problem:
        raise InvalidRequest(f"options of a terminal session: {problem}") from problem


def check_options(agent: str, cwd: str, given: TerminalOptions, settings: TerminalSettings) -> None:
    """Raise ``InvalidRequest`` for what can be known to fail before a session exists."""
    environment = {**os.environ, **given.env}
    if given.attach is None:
        check_command(given.command, given.env)
        resolve_program(given.command[0], folder=resolve_folder(cwd), env=environment)
    else:
        _check_attached(given, environment)
        resolve_folder(cwd)
    check_size(*given.size(settings))
    check_driver_options(agent, groom=given.groom, config=given.agent_config, resume=given.resume)


def _check_attached(given: TerminalOptions, environment: Mapping[str, str]) -> None:
    """What cannot be given to a program that runs already."""
    assert given.attach is not None
    check_attach(given.attach)
    if given.command:
        raise InvalidRequest("command and attach cannot go together")
    if given.resume is not None or given.agent_config:
        raise InvalidRequest("resume and agent_config are for a program that we start, not for attach")
    check_command(tmux_command(environment), given.env)

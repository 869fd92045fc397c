"""``dragoman run -- CMD``: one program on a terminal, served over coop at the root."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.terminal.drivers.agent_config import CONFIG_BYTES, parse_object
from dragoman.agents.terminal.drivers.profile import RESUME_HINT
from dragoman.agents.terminal.drivers.table import check_agent_config
from dragoman.agents.terminal.tmux import check_attach
from dragoman.hub.errors import HubError, InvalidRequest
from dragoman.hub.events import Json
from dragoman.hub.hook_config import START_CONFIG, STOP_CONFIG, check_hook_settings
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.server.serve import Server
from dragoman.server.settings import Settings
from dragoman.server.use import UseError

from . import coop_environment
from .main import complain
from .serving import flags_of, run_server, settings_of
from .stopping import drain, idle_for

log = logging.getLogger("dragoman.server")

DEFAULT_COLS, DEFAULT_ROWS = 200, 50
"""Coop's own default size."""

DRAIN = 2.0
"""Seconds that links get to read the end, with ``--exit-with-child``, before the server stops."""

AGENTS = ("unknown", "claude", "codex", "gemini", "qwen", "opencode")
"""The words of ``--agent``: a program that nobody knows, and those with a driver."""

GROOM = ("auto", "manual", "pristine")

HURRIED = 130
"""Exit code after a second signal: as a shell says that one ended a program."""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """The session to be made."""

    agent: str
    options: dict[str, Json]
    settings: dict[str, Json]


def run(arguments: argparse.Namespace) -> int:
    """Serve the program until shutdown, a signal, long idleness, or (with ``--exit-with-child``) its end.

    The exit code is the program's, 1 when a signal ended it, 130 when the server was told twice to stop.
    """
    try:
        made = asked_for(arguments)
    except UseError as problem:
        return complain(f"run: {problem}")
    flags = flags_of(arguments)
    flags["server"]["dialect"] = "coop"
    flags["terminal"] = {"tape": arguments.ring_size}
    own_folder = None if arguments.data else tempfile.mkdtemp(prefix="dragoman-run-")
    if own_folder is not None:
        flags["data"]["folder"] = own_folder
    try:
        settings = settings_of(arguments, flags, usual=coop_environment.settings_from(os.environ))
        settings = with_shutdown_timeout(settings)
        program = Program(made, leave=arguments.exit_with_child)
        return run_server(
            settings, announce=arguments.json, only_session=True, prepare=program.start, work=program.attend
        )
    finally:
        if own_folder is not None and not arguments.record:
            shutil.rmtree(own_folder, ignore_errors=True)


def with_shutdown_timeout(settings: Settings) -> Settings:
    """The schedule by which programs are ended here, and the time for it."""
    kill = settings.run.shutdown_timeout
    terminal, server = settings.terminal, settings.server
    schedule = msgspec.structs.replace(
        terminal.schedule, terminate=min(terminal.schedule.terminate, kill), kill=kill, give_up=kill + 2
    )
    return msgspec.structs.replace(
        settings,
        terminal=msgspec.structs.replace(terminal, schedule=schedule),
        server=msgspec.structs.replace(server, stop_budget=max(server.stop_budget, 2.5 * kill)),
    )


def asked_for(arguments: argparse.Namespace) -> Made:
    """The session that flags and coop's environment ask for. Raises ``UseError``."""
    command = arguments.argv[1:] if arguments.argv[:1] == ["--"] else arguments.argv
    given = {name: _given(arguments, name) for name in coop_environment.OPTIONS}
    agent, groom = (given["agent"] or "unknown").lower(), given["groom"] or "auto"
    if agent not in AGENTS:
        raise UseError(f"--agent: {agent!r} is not known; known: {', '.join(AGENTS)}")
    if groom not in GROOM:
        raise UseError(f"--groom: {groom!r} is not known; known: {', '.join(GROOM)}")
    _check_source(command, given["attach"])
    _check_resume(given["resume"], agent, groom, given["attach"])
    # What runs in tmux has a size already.
    options: dict[str, Json] = (
        {"command": command, "cols": DEFAULT_COLS, "rows": DEFAULT_ROWS}
        if given["attach"] is None
        else {"attach": given["attach"]}
    )
    options |= {name: _size(name, size) for name in ("cols", "rows") if (size := given[name]) is not None}
    if arguments.record:
        options["record"] = True
    if arguments.no_model:
        options["model"] = False
    if groom != "auto":
        options["groom"] = groom
    if given["resume"] is not None:
        options["resume"] = given["resume"]
    config = _agent_config(given["agent_config"], agent)
    # What hooks are told can change while the agent runs: it is a setting.
    hooks = ((STOP_CONFIG, "stop"), (START_CONFIG, "start"))
    settings = {name: config.pop(key) for name, key in hooks if key in config}
    try:
        check_hook_settings(settings)
        if given["agent_config"] is not None:
            check_agent_config(agent, config, groom=groom)
    except HubError as problem:
        raise UseError(f"--agent-config: {problem}") from None
    if config and given["attach"] is not None:
        raise UseError("--agent-config: settings and mcp are for a program that we start, not for --attach")
    if config:
        options["agent_config"] = config
    return Made(agent=agent, options=options, settings=settings)


def _given(arguments: argparse.Namespace, name: str) -> str | None:
    """A flag, else coop's variable; an empty one is none."""
    flag = getattr(arguments, name)
    return str(flag) if flag is not None else os.environ.get(coop_environment.OPTIONS[name]) or None


def _check_source(command: list[str], attach: str | None) -> None:
    if attach is None:
        if not command:
            raise UseError("a program is missing: dragoman run [flags] -- CMD ...")
        return
    if command:
        raise UseError("a program and --attach cannot go together")
    try:
        check_attach(attach)
    except InvalidRequest as problem:
        raise UseError(f"--attach: {problem}") from None


def _check_resume(resume: str | None, agent: str, groom: str, attach: str | None) -> None:
    if resume is None:
        return
    if not resume.strip():
        raise UseError(f"--resume names no session: give {RESUME_HINT}")
    if agent != "claude":
        raise UseError("--resume works with --agent claude only")
    if attach is not None:
        raise UseError("--resume and --attach cannot go together")
    if groom == "pristine":
        raise UseError("--resume and --groom pristine cannot go together")


def _size(name: str, given: str) -> int:
    try:
        return int(given)
    except ValueError:
        raise UseError(f"--{name}: {given!r} is not a number") from None


def _agent_config(file: str | None, agent: str) -> dict[str, Any]:
    if file is None:
        return {}
    if agent == "unknown":
        raise UseError("--agent-config needs --agent")
    try:
        with Path(file).open("rb") as opened:
            return parse_object(opened.read(CONFIG_BYTES + 1), f"--agent-config {file!r}")
    except OSError as problem:
        raise UseError(f"--agent-config {file!r} cannot be read: {problem.strerror}") from None
    except InvalidRequest as problem:
        raise UseError(str(problem)) from None


class Program:
    """The one program of this server."""

    def __init__(self, made: Made, *, leave: bool) -> None:
        self._made = made
        self._leave = leave
        self._session: Session | None = None

    async def start(self, server: Server) -> None:
        """Start it. Raises ``UseError`` when it cannot be."""
        made = self._made
        try:
            self._session = await server.registry.create(
                LOCAL,
                kind="terminal",
                agent=made.agent,
                cwd=str(Path.cwd()),
                options=made.options,
                settings=made.settings,
            )
            await self._session.start(LOCAL)
        except HubError as problem:
            raise UseError(str(problem)) from problem

    async def attend(self, server: Server) -> int:
        """Wait for what ends the server, bring the agent to rest, end it; then the exit code."""
        session = self._session
        assert session is not None
        await self._until_the_end(session, server)
        limits = server.settings.run
        # What runs in tmux is only detached from: it may go on with what it does.
        stays = session.shown.exit is not None or "attach" in self._made.options
        if not stays and not await drain(
            session, limit=limits.drain_timeout, interval=limits.drain_interval, hurried=server.hurried
        ):
            log.warning("the agent did not come to rest")
        await server.end_sessions()
        if server.hurried.is_set():
            return HURRIED
        ended = session.state.exit
        return 1 if ended is None or ended.code is None else ended.code

    async def _until_the_end(self, session: Session, server: Server) -> None:
        """Until a stop request, long idleness, or, if the server leaves with it, the program's end."""
        stop = asyncio.ensure_future(server.stop_requested.wait())
        waits: list[asyncio.Future[Any]] = [stop]
        if self._leave:
            waits.append(asyncio.ensure_future(_end_of(session)))
        idle = server.settings.run.idle_timeout
        if idle > 0:
            waits.append(asyncio.ensure_future(idle_for(session, idle)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if server.stop_requested.is_set():
            return
        if self._leave and session.shown.exit is not None:
            await server.links_gone(DRAIN)
        else:
            log.info("stopping: the agent has been idle for %g s", idle)
            server.request_stop()


async def _end_of(session: Session) -> None:
    """Return once the program's end is in the log."""
    changed = asyncio.Event()
    stop = session.watch(changed.set)
    try:
        while session.shown.exit is None:
            changed.clear()
            await changed.wait()
    finally:
        stop()

"""``dragoman run -- CMD``: one program on a terminal, served over coop at the root."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from pathlib import Path

from dragoman.hub.errors import HubError
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.server.serve import Server, UseError

from .main import complain
from .serving import flags_of, run_server, settings_of

DEFAULT_COLS, DEFAULT_ROWS = 200, 50
"""Coop's own default size."""

DRAIN = 2.0
"""Seconds that links get to read the end, with ``--exit-with-child``, before the server stops."""


def run(arguments: argparse.Namespace) -> int:
    """Serve the program until shutdown, a signal, or (with ``--exit-with-child``) its end.

    The exit code is the program's, or 1 when a signal ended it.
    """
    command = arguments.argv[1:] if arguments.argv[:1] == ["--"] else arguments.argv
    if not command:
        return complain("run: a program is missing: dragoman run [flags] -- CMD ...")
    flags = flags_of(arguments)
    flags["server"]["dialect"] = "coop"
    own_folder = None if arguments.data else tempfile.mkdtemp(prefix="dragoman-run-")
    if own_folder is not None:
        flags["data"]["folder"] = own_folder
    try:
        settings = settings_of(arguments, flags)
        options: dict[str, object] = {
            "command": command,
            "cols": DEFAULT_COLS if arguments.cols is None else arguments.cols,
            "rows": DEFAULT_ROWS if arguments.rows is None else arguments.rows,
        }
        if arguments.record:
            options["record"] = True
        if arguments.no_model:
            options["model"] = False

        program = Program(arguments.agent, options, leave=arguments.exit_with_child)
        return run_server(
            settings, announce=arguments.json, only_session=True, prepare=program.start, work=program.attend
        )
    finally:
        if own_folder is not None and not arguments.record:
            shutil.rmtree(own_folder, ignore_errors=True)


class Program:
    """The one program of this server."""

    def __init__(self, agent: str, options: dict[str, object], *, leave: bool) -> None:
        self._agent = agent
        self._options = options
        self._leave = leave
        self._session: Session | None = None

    async def start(self, server: Server) -> None:
        """Start it. Raises ``UseError`` when it cannot be."""
        try:
            self._session = await server.registry.create(
                LOCAL, kind="terminal", agent=self._agent, cwd=str(Path.cwd()), options=self._options
            )
            await self._session.start(LOCAL)
        except HubError as problem:
            raise UseError(str(problem)) from problem

    async def attend(self, server: Server) -> int:
        """Wait for a stop request, or for the program's end if the server leaves with it; then its exit code."""
        session = self._session
        assert session is not None
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(server.stop_requested.wait())]
        if self._leave:
            waits.append(asyncio.ensure_future(_end_of(session)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if not server.stop_requested.is_set():
            await server.links_gone(DRAIN)
        await server.end_sessions()
        ended = session.state.exit
        return 1 if ended is None or ended.code is None else ended.code


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

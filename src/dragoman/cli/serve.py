"""``dragoman serve``: every session, every dialect."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from dragoman.server.serve import Server
from dragoman.server.use import UseError
from dragoman.server.workplace import enter, workplace

from .main import complain
from .serving import flags_of, run_server, settings_of, until_stopped


def run(arguments: argparse.Namespace) -> int:
    """Serve until stopped."""
    try:
        folder = _workplace(arguments.dir)
    except UseError as problem:
        return complain(f"serve: {problem}")
    flags = flags_of(arguments)
    flags["server"]["dialect"] = arguments.dialect
    flags["dialects"] = {"coworker": {"yolo": arguments.yolo, "make_folders": arguments.make_folders}}
    settings = settings_of(arguments, flags)
    return run_server(settings, announce=arguments.json, workplace=folder, prepare=_make_folders, work=until_stopped)


def _workplace(folder: str | None) -> Path:
    if folder is not None:
        return enter(folder, os.environ)
    return workplace(os.environ, Path(os.path.expanduser("~")))  # noqa: PTH111  Path.home() raises where there is none


async def _make_folders(server: Server) -> None:
    if server.settings.dialects.coworker.make_folders:
        await server.make_folders()

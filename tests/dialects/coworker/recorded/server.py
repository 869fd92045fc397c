"""Our server as a user starts it: a process of its own, in the world of a recording."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

from .worlds import World

START = 20.0
STOP = 5.0
"""Seconds; a machine may be busy."""


@dataclass(frozen=True)
class Running:
    """A server that listens. ``ready`` is the line that it said so with."""

    ready: dict[str, Any]
    log: Path

    @property
    def url(self) -> str:
        """Where coworker clients connect to."""
        return str(self.ready["url"])

    @property
    def hub_url(self) -> str:
        """Where everything of a session can be seen."""
        return str(self.ready["dialects"]["hub"])


@contextlib.asynccontextmanager
async def running(world: World) -> AsyncIterator[Running]:
    """Start it, and stop it in the end."""
    log = world.root / "server.log"
    flags = ["serve", "--json", "--port", "0", "--dialect", "coworker"]
    flags += ["--dir", str(world.project), "--data", str(world.data), "--make-folders", *world.flags]
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dragoman", *flags),
            stdout=PIPE,
            stderr=errors,
            cwd=world.root,
            env=world.environment,
        )
        try:
            assert process.stdout is not None
            line = await asyncio.wait_for(process.stdout.readline(), START)
            assert line, f"the server did not start:\n{log.read_text('utf-8')}"
            yield Running(json.loads(line), log)
        finally:
            await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.communicate(), STOP)
    except TimeoutError:
        process.kill()
        await process.communicate()


def commands(folder: Path, *arguments: str) -> list[int]:
    """Processes with exactly these arguments that run in a folder."""
    wanted = b"".join(argument.encode() + b"\0" for argument in arguments)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # it has ended meanwhile, or is somebody else's
            if (entry / "cmdline").read_bytes() == wanted and (entry / "cwd").readlink() == folder:
                found.append(int(entry.name))
    return found

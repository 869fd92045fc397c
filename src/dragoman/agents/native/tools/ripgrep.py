"""The ``rg`` program: where it is, and running it so that it ends when it has to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from importlib import metadata
from typing import IO

from .settled import settled
from .tool import ToolFailed

_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""All of it: no search needs the server's, and its keys least of all."""

_CHUNK = 64 * 1024

NAMED = "COWORK_RIPGREP_PATH"
"""Environment variable that may say where the program is; one that is none is passed over."""


def find_ripgrep() -> str:
    """The one that the environment names, or that of the ``ripgrep`` package, which installs it with this one; else the
    one on the PATH.

    Raises ``ToolFailed``. It blocks.
    """
    named = os.environ.get(NAMED)
    if named and os.access(named, os.X_OK):
        return named
    with contextlib.suppress(metadata.PackageNotFoundError):
        for file in metadata.files("ripgrep") or ():
            program = os.fspath(file.locate())
            if file.name == "rg" and os.access(program, os.X_OK):
                return program
    if on_path := shutil.which("rg"):
        return on_path
    raise ToolFailed("grep: ripgrep (rg) is not installed; the Python package ripgrep brings it")


@contextlib.asynccontextmanager
async def running(arguments: Sequence[str], cwd: str, stdin: IO[bytes] | None) -> AsyncIterator[Process]:
    """``rg`` in a process group of its own; whatever happens, it has ended when the block is left."""
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=stdin if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=cwd,
            env=_ENVIRONMENT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # arguments that are too long, or hold a NUL
        raise ToolFailed(f"grep: rg cannot be started: {error}") from None
    try:
        yield process
    finally:
        await settled(_ended(process))


def kill(process: Process) -> None:
    """End it at once, with all in its group."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


async def head(stream: asyncio.StreamReader, most: int) -> bytes:
    """Reads to the end and gives the beginning."""
    first = b""
    while chunk := await stream.read(_CHUNK):
        first = (first + chunk)[:most]
    return first


async def _ended(process: Process) -> None:
    kill(process)
    assert process.stdout is not None
    assert process.stderr is not None
    await head(process.stdout, 0)  # a pipe with something in it keeps the process unreaped
    await head(process.stderr, 0)
    await process.wait()

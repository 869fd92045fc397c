"""The server that a chat has of its own, where none is named or runs already, for as long as it lasts."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TextIO

import msgspec

from dragoman.server.logs import Scrubber, set_up
from dragoman.server.settings import Settings, secrets_of
from dragoman.server.use import UseError

from .reaching import Reach


class NoServer(Exception):
    """One of its own cannot be started: one line that says why."""


LOG_BYTES = 4 * 1024 * 1024
"""A log file that is larger is begun anew by the next chat."""

OTHERS_NOTICED = 0.3
"""Seconds after which it is said that other clients keep the server up."""


@contextlib.asynccontextmanager
async def own_server(settings: Settings) -> AsyncIterator[Reach]:
    """A server with the data folder and the settings of ``dragoman serve``, but a free port on loopback and no other
    address. It ends with the block, once no other client uses it. Raises ``NoServer``.
    """
    from dragoman.server.serve import Server  # noqa: PLC0415  needless where one runs

    own = Server(private(settings))
    try:
        await own.start()
    except UseError as problem:
        raise NoServer(str(problem)) from problem
    try:
        await own.listen()
        note = f"· no server runs: this chat has one of its own, with the data in {settings.data.path()}"
        yield Reach(own.http_url, settings.server.token, note=note)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, own.request_stop)
        others = asyncio.ensure_future(own.links_gone(math.inf))
        await asyncio.wait({others}, timeout=OTHERS_NOTICED)
        if not others.done():
            print("other clients use this server: it ends when they leave (Ctrl-C ends it now)", file=sys.stderr)
        await others
    finally:
        await own.stop()


def private(settings: Settings) -> Settings:
    """The settings with no address but a free port of loopback."""
    server = msgspec.structs.replace(
        settings.server, host="127.0.0.1", port=0, socket=None, health_port=None, dialect=None
    )
    return msgspec.structs.replace(settings, server=server)


@contextlib.contextmanager
def quiet_logs(settings: Settings) -> Iterator[None]:
    """Send logs to ``chat.log`` in the data folder: the terminal is for the talk."""
    scrubber = Scrubber()
    for secret in secrets_of(settings):
        scrubber.add(secret)
    scrubber.add(os.environ.get("DRAGOMAN_TOKEN"))
    with _log_file(settings.data.path()) as stream:
        set_up(settings.log.level, as_json=settings.log.json, scrubber=scrubber, stream=stream)
        yield


def _log_file(folder: Path) -> TextIO:
    file = private_file(folder, "chat.log")
    if file is None:
        return Path(os.devnull).open("w")
    return file.open("w" if file.stat().st_size > LOG_BYTES else "a", encoding="utf-8", errors="replace")


def private_file(folder: Path, name: str) -> Path | None:
    """A file that only this user can read, made if need be; None where it cannot be."""
    file = folder / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        file.chmod(0o600)
    except OSError:
        return None
    return file

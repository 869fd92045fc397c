"""What ``serve`` and ``run`` share: settings from flags, the event loop, the ready line, the way out."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

from dragoman.server.logs import Scrubber, set_up
from dragoman.server.serve import Server, handle_signals
from dragoman.server.settings import Settings, default_file, load, secrets_of
from dragoman.server.use import UseError

from .leaving import leave_without_waiting, own_threads

log = logging.getLogger("dragoman.server")

Flags = dict[str, dict[str, Any]]


def flags_of(arguments: argparse.Namespace) -> Flags:
    """The listening flags as a settings tree; what was not given is None and changes nothing."""
    return {
        "server": {
            "host": arguments.host,
            "port": arguments.port,
            "socket": arguments.socket,
            "health_port": arguments.port_health,
            "token": arguments.token,
            "allow_host": arguments.allow_host,
            "allow_origin": arguments.allow_origin,
        },
        "data": {"folder": arguments.data},
        "log": {"level": arguments.log_level, "json": _as_json(arguments)},
    }


def _as_json(arguments: argparse.Namespace) -> bool | None:
    if arguments.log_format is None:
        return bool(arguments.log_json) or None
    return bool(arguments.log_format == "json")


def settings_of(arguments: argparse.Namespace, flags: Flags, *, usual: Flags | None = None) -> Settings:
    """Settings from file, environment and flags; ``usual`` yields to all but the file. Raises ``SettingsError``."""
    file = Path(arguments.config) if arguments.config else default_file(os.environ)
    return load(file, os.environ, flags, usual=usual)


SHORTEST_CODE = 6
"""Characters of an invite code from which on no log line shows it; a shorter one may be part of any word."""


def run_server(
    settings: Settings,
    *,
    announce: bool,
    only_session: bool = False,
    workplace: Path | None = None,
    prepare: Callable[[Server], Awaitable[None]] | None = None,
    work: Callable[[Server], Awaitable[int]],
) -> int:
    """Start the server, ``prepare`` it, say that it is ready, do ``work`` until it returns an exit code, stop.

    Errors of use are one line on stderr and exit code 2.
    """
    scrubber = Scrubber()
    for secret in secrets_of(settings):
        scrubber.add(secret)
    set_up(settings.log.level, as_json=settings.log.json, scrubber=scrubber)

    async def living() -> int:
        threads = own_threads()
        code = await serving()
        leave_without_waiting(threads, code)
        return code

    async def serving() -> int:
        server = Server(settings, only_session=only_session, workplace=workplace)
        await server.start()
        for code in server.codes:
            scrubber.add(code if len(code) >= SHORTEST_CODE else None)
        handle_signals(server)
        try:
            if prepare is not None:
                await prepare(server)
            await server.listen()
            _say_ready(server, announce=announce)
            return await work(server)
        finally:
            await server.stop()
            if server.listening:
                log.info("stopped")

    try:
        return uvloop.run(living())
    except UseError as problem:
        print(f"dragoman: {problem}", file=sys.stderr)
        return 2


def _say_ready(server: Server, *, announce: bool) -> None:
    log.info("listening on %s", server.http_url)
    for name, url in server.addresses().items():
        log.info("%-8s %s", name, url)
    if announce:
        print(json.dumps(server.ready_line()), flush=True)


async def until_stopped(server: Server) -> int:
    """Serve until a signal or a client asks to stop."""
    await server.stop_requested.wait()
    return 0

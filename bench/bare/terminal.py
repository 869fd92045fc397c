"""A terminal served by bare uvicorn: ``python -m bench.bare.terminal HOW -- PROGRAM ARG...``

HOW is ``read`` (a frame for each read from the PTY) or ``joined`` (after a large frame, whatever came in 5 ms makes the
next). ``/ws`` is one terminal for all links, ``/own`` one for each link, ``/idle`` none at all. Nothing is kept, and
nothing is lost: the PTY waits for the slowest link.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import uvicorn
import uvloop

LARGE = 1024
GAP = 0.005
ROOM = 1024 * 1024
"""Bytes read ahead of the links before the PTY has to wait."""

Send = Callable[[dict[str, Any]], Awaitable[None]]


class Terminal:
    """One PTY and the links that watch it."""

    def __init__(self, command: list[str], *, joined: bool) -> None:
        self.links: list[Send] = []
        self._joined = joined
        self._pending: list[bytes] = []
        self._size = 0
        self._arrived = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.set_blocking(self._master, False)
        self._program = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        self._loop.add_reader(self._master, self._readable)
        self._delivery = asyncio.ensure_future(self._deliver())

    def type(self, data: bytes) -> None:
        os.write(self._master, data)

    def end(self) -> None:
        """Hang up, and reap the program."""
        self._program.kill()
        self._program.wait()

    def _readable(self) -> None:
        try:
            chunk = os.read(self._master, 65536)
        except OSError:
            chunk = b""
        self._pending.append(chunk)
        self._size += len(chunk)
        self._arrived.set()
        if not chunk or self._size > ROOM:
            self._loop.remove_reader(self._master)

    async def _deliver(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            was_full, taken = self._size > ROOM, self._pending
            self._pending, self._size = [], 0
            if was_full:
                self._loop.add_reader(self._master, self._readable)
            for frame in [b"".join(taken)] if self._joined else taken:
                for send in self.links:
                    with contextlib.suppress(Exception):
                        await send({"type": "websocket.send", "bytes": frame})
            if self._joined and sum(map(len, taken)) >= LARGE:
                await asyncio.sleep(GAP)


class App:
    """The ASGI application."""

    def __init__(self, command: list[str], *, joined: bool) -> None:
        self._command = command
        self._joined = joined
        self._shared: Terminal | None = None
        self._own: list[Terminal] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        if scope["type"] != "websocket":
            return
        await receive()
        await send({"type": "websocket.accept"})
        terminal = self._terminal(scope["path"])
        if terminal is not None:
            terminal.links.append(send)
        while (message := await receive())["type"] != "websocket.disconnect":
            if terminal is not None:
                terminal.type(message.get("bytes") or message["text"].encode())
        if terminal is not None:
            terminal.links.remove(send)

    def end(self) -> None:
        """End every program."""
        for terminal in filter(None, (self._shared, *self._own)):
            terminal.end()

    def _terminal(self, path: str) -> Terminal | None:
        if path == "/ws":
            self._shared = self._shared or Terminal(self._command, joined=self._joined)
            return self._shared
        if path == "/own":
            self._own.append(Terminal(self._command, joined=self._joined))
            return self._own[-1]
        return None


class Served(Protocol):
    """An ASGI application that has something to end."""

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None: ...
    def end(self) -> None: ...


async def serve(app: Served) -> None:
    """Serve on a free port until a signal, and print the port once connections are accepted."""
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        lifespan="off",
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.001)
    print(json.dumps({"port": server.servers[0].sockets[0].getsockname()[1]}), flush=True)
    await serving
    app.end()


async def main() -> None:
    how, command = sys.argv[1], sys.argv[3:]
    await serve(App(command, joined=how == "joined"))


if __name__ == "__main__":
    uvloop.run(main())

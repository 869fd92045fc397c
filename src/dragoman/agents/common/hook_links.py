"""How hooks are let in by a unix socket and how their posts are read: in bounds, and only while there is room."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from dragoman.hub.errors import LimitReached
from dragoman.hub.limits import HubLimits
from dragoman.hub.tasks import TaskOwner

from .paced_log import PacedLog

BACKLOG = 1024
"""Hooks that may wait to be let in: an agent may run hundreds at once."""

AGAIN = 0.1
"""Seconds after which hooks are let in again when that failed: there was no descriptor for one."""

READ_AT_ONCE = 256 * 1024
"""Bytes of a post taken in one read."""

POST_LIMIT = 5.0
"""Seconds in which a post must have come, and in which its answer must be taken."""

PATH_BYTES = 107
"""Of a unix socket's path (Linux)."""

Serve = Callable[[socket.socket], Awaitable[None]]


class HookLinks:
    """Listens, and has ``serve`` hear each link in a task of its own; the link is closed after it.

    ``links`` are heard at once: the others wait in the backlog, where they cost nothing. ``log`` gets the warnings.
    """

    def __init__(self, serve: Serve, *, links: int, log: logging.Logger) -> None:
        self._serve = serve
        self._room = asyncio.Semaphore(max(1, links))
        self._log = log
        self.said = PacedLog(log)
        self._tasks = TaskOwner("hooks")
        self._letting_in: asyncio.Task[None] | None = None

    def listen(self, path: str) -> None:
        """Begin, at a path that is free; only this user may connect. Raises ``OSError``."""
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.setblocking(False)
            # Where the system heeds it (Linux) it is nobody else's from its first moment on.
            with contextlib.suppress(OSError):
                os.fchmod(listener.fileno(), 0o600)
            listener.bind(path)
            os.chmod(path, 0o600)  # noqa: PTH101
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
        self._letting_in = self._tasks.start(self._let_in(listener), "let in")
        self._letting_in.add_done_callback(lambda _: listener.close())

    def stop(self) -> None:
        """Let nobody in any more. Those who were let in are still heard."""
        if self._letting_in is not None:
            self._letting_in.cancel()
            self._letting_in = None
        self.said.close()

    async def close(self, budget: float) -> None:
        """Stop, and leave those who are being heard too."""
        self.stop()
        await self._tasks.close(budget)

    async def _let_in(self, listener: socket.socket) -> None:
        """Accept only while there is room."""
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                link, _ = await loop.sock_accept(listener)
            except OSError as problem:
                self._room.release()
                self.said.warn("accept", f"a hook cannot be let in at this moment: {problem}")
                await asyncio.sleep(AGAIN)
                continue
            link.setblocking(False)
            self._tasks.start(self._hear(link), "serve").add_done_callback(lambda _: self._room.release())

    async def _hear(self, link: socket.socket) -> None:
        with link:
            await self._serve(link)


async def rest_of_post(link: socket.socket, first: bytes, limits: HubLimits) -> bytes:
    """One line, of which ``first`` came already; or all there is. Raises ``LimitReached`` without having read it all.

    ``OSError`` where the hook is gone.
    """
    loop = asyncio.get_running_loop()
    body = bytearray(first)
    while not body.endswith(b"\n") and (part := await loop.sock_recv(link, READ_AT_ONCE)):
        body += part
        if len(body) > limits.hook_bytes:
            raise LimitReached(f"a hook brings more than {limits.hook_bytes} bytes (hub.hook_bytes)")
    return bytes(body)


async def answer(link: socket.socket, line: bytes) -> None:
    """Send it, if it is still wanted."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(POST_LIMIT):
            await asyncio.get_running_loop().sock_sendall(link, line)


def short_path(path: Path, folder: int) -> str:
    """A way to a socket that the system takes, however long its path is. ``folder`` is the descriptor of its folder."""
    return str(path) if len(os.fsencode(path)) <= PATH_BYTES else f"/proc/self/fd/{folder}/{path.name}"

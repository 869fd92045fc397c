"""The private way in for an agent's hooks: one unix socket for each session, 0600 in a 0700 folder, with a secret."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import secrets
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from dragoman.agents.common.paced_log import PacedLog
from dragoman.hub.errors import NOT_JSON, HubError, LimitReached
from dragoman.hub.events import Json
from dragoman.hub.hook_payload import check_hook_payload
from dragoman.hub.limits import HubLimits
from dragoman.hub.tasks import TaskOwner

from .hook_folder import HookFolder
from .settings import DriverSettings

log = logging.getLogger("dragoman.terminal")

BACKLOG = 1024
"""Hooks that may wait to be let in: an agent may run hundreds at once."""

AGAIN = 0.1
"""Seconds after which hooks are let in again when that failed: there was no descriptor for one."""

SECRET_BYTES = 1024
"""Bytes that are read of one that has not proven to be a hook."""

READ_AT_ONCE = 256 * 1024
"""Bytes of a post taken in one read."""

POST_LIMIT = 5.0
"""Seconds in which a payload must have come."""

SCRIPT = Path(__file__).with_name("hook_script.py")


class Post(msgspec.Struct, frozen=True):
    """One hook's post. ``at`` is when the hook ran, in milliseconds since 1970."""

    event: str
    at: int | None = None
    data: Json = None


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the hook is to do: ``print`` this, run this ``script``."""

    print: str = ""
    script: str = ""


Take = Callable[[Post], Awaitable[Reply]]

_decoder = msgspec.json.Decoder(Post)
_encoder = msgspec.json.Encoder()


class HookSocket:
    """Listens for one session's hooks; ``take`` answers each. Close it when the session's program is gone.

    A hook sends two lines, the secret and its post, and is sent one.
    """

    def __init__(
        self, take: Take, limits: HubLimits | None = None, *, links: int = DriverSettings().hook_links
    ) -> None:
        """``limits.hook_bytes`` and ``hook_values`` bound a post, ``links`` how many are heard at once.

        Raises ``OSError``.
        """
        self._take = take
        self._limits = limits or HubLimits()
        self._room = asyncio.Semaphore(max(1, links))
        self._folder = HookFolder()
        self._said = PacedLog(log)
        self._secret = secrets.token_urlsafe(24)
        self._tasks = TaskOwner("hooks")
        self._letting_in: asyncio.Task[None] | None = None

    @property
    def path(self) -> str:
        return self._folder.socket

    def proves(self, secret: str) -> bool:
        """Whether this is this session's secret."""
        return hmac.compare_digest(secret.encode(), self._secret.encode())

    def environment(self) -> dict[str, str]:
        """What the agent's environment needs so that its hooks find us."""
        return {"DRAGOMAN_HOOKS": self.path, "DRAGOMAN_HOOK_SECRET": self._secret}

    async def open(self) -> None:
        """Listen. Must be open before the agent starts: its first hook comes early."""
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.setblocking(False)
            listener.bind(self.path)
            os.chmod(self.path, 0o600)  # noqa: PTH101
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
        self._letting_in = self._tasks.start(self._let_in(listener), "let in")
        self._letting_in.add_done_callback(lambda _: listener.close())

    def close(self) -> None:
        """Stop listening and remove the socket. Hooks that were let in are still answered."""
        if self._letting_in is not None:
            self._letting_in.cancel()
            self._letting_in = None
        self._folder.close()
        self._said.close()

    async def _let_in(self, listener: socket.socket) -> None:
        """Accept only while there is room: the others wait in the backlog and cost us nothing."""
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                link, _ = await loop.sock_accept(listener)
            except OSError as problem:
                self._room.release()
                self._said.warn("accept", f"a hook cannot be let in at this moment: {problem}")
                await asyncio.sleep(AGAIN)
                continue
            link.setblocking(False)
            self._tasks.start(self._serve(link), "serve").add_done_callback(lambda _: self._room.release())

    async def _serve(self, link: socket.socket) -> None:
        reply = Reply()
        with link:
            try:
                async with asyncio.timeout(POST_LIMIT):
                    line = await self._post(link)
                if line is not None:
                    check_hook_payload(line, self._limits)
                    reply = await self._take(_decoder.decode(line))
            except (*NOT_JSON, TimeoutError, OSError) as problem:
                self._said.warn("unreadable", f"a hook's post cannot be read: {problem}")
            except HubError as problem:
                self._said.warn(problem.code, f"a hook is not taken: {problem}")
            except Exception:
                log.exception("a hook is not taken")
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(POST_LIMIT):
                    await asyncio.get_running_loop().sock_sendall(link, _encoder.encode(reply) + b"\n")

    async def _post(self, link: socket.socket) -> bytes | None:
        """What was posted, by one who knows the secret. Raises ``LimitReached`` without having read it all."""
        loop = asyncio.get_running_loop()
        held = b""
        while b"\n" not in held:
            part = await loop.sock_recv(link, SECRET_BYTES - len(held))
            held += part
            if not part or len(held) == SECRET_BYTES:
                break
        secret, end, first = held.partition(b"\n")
        if not end or not self.proves(secret.decode("ascii", "replace")):
            self._said.warn("secret", "a hook came with a wrong secret and is not taken")
            return None
        body = bytearray(first)
        while not body.endswith(b"\n") and (part := await loop.sock_recv(link, READ_AT_ONCE)):
            body += part
            if len(body) > self._limits.hook_bytes:
                raise LimitReached(f"a hook brings more than {self._limits.hook_bytes} bytes (hub.hook_bytes)")
        return bytes(body)


def hook_command(event: str) -> str:
    """The shell command that posts this hook. ``-I -S``: nothing of the user's Python is looked at, and it is fast."""
    return f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(SCRIPT))} {shlex.quote(event)}"

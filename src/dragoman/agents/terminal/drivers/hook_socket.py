"""The private way in for an agent's hooks: one unix socket for each session, 0600 in a 0700 folder, with a secret."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import secrets
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from dragoman.agents.terminal.paced_log import PacedLog
from dragoman.hub.errors import NOT_JSON, HubError, LimitReached
from dragoman.hub.events import Json
from dragoman.hub.hook_payload import check_hook_payload
from dragoman.hub.limits import HubLimits

from .hook_folder import HookFolder

log = logging.getLogger("dragoman.terminal")

BACKLOG = 1024
"""Hooks that may wait to be let in: an agent may run hundreds at once."""

POST_LIMIT = 5.0
"""Seconds in which a payload must have come."""

SCRIPT = Path(__file__).with_name("hook_script.py")


class Post(msgspec.Struct, frozen=True):
    """One hook's post. ``at`` is when the hook ran, in milliseconds since 1970."""

    secret: str
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
    """Listens for one session's hooks; ``take`` answers each. Close it when the session's program is gone."""

    def __init__(self, take: Take, limits: HubLimits | None = None) -> None:
        """``limits.hook_bytes`` and ``hook_values`` bound a post. Raises ``OSError``."""
        self._take = take
        self._limits = limits or HubLimits()
        self._folder = HookFolder()
        self._said = PacedLog(log)
        self._secret = secrets.token_urlsafe(24)
        self._server: asyncio.Server | None = None

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
        self._server = await asyncio.start_unix_server(
            self._serve, self.path, limit=self._limits.hook_bytes, backlog=BACKLOG
        )
        os.chmod(self.path, 0o600)  # noqa: PTH101

    def close(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._folder.close()
        self._said.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reply = Reply()
        try:
            async with asyncio.timeout(POST_LIMIT):
                line = await self._line(reader)
            check_hook_payload(line, self._limits)
            post = _decoder.decode(line)
            if self.proves(post.secret):
                reply = await self._take(post)
            else:
                self._said.warn("secret", "a hook came with a wrong secret and is not taken")
        except (*NOT_JSON, TimeoutError, OSError) as problem:
            self._said.warn("unreadable", f"a hook's post cannot be read: {problem}")
        except HubError as problem:
            self._said.warn(problem.code, f"a hook is not taken: {problem}")
        except Exception:
            log.exception("a hook is not taken")
        with contextlib.suppress(OSError):
            writer.write(_encoder.encode(reply) + b"\n")
            await writer.drain()
        writer.close()

    async def _line(self, reader: asyncio.StreamReader) -> bytes:
        """What was posted. Raises ``LimitReached`` without having read it all."""
        try:
            return await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as problem:
            return problem.partial
        except asyncio.LimitOverrunError as problem:
            raise LimitReached(f"a hook brings more than {self._limits.hook_bytes} bytes (hub.hook_bytes)") from problem


def hook_command(event: str) -> str:
    """The shell command that posts this hook. ``-I -S``: nothing of the user's Python is looked at, and it is fast."""
    return f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(SCRIPT))} {shlex.quote(event)}"

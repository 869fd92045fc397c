"""The private way in for an agent's hooks: one unix socket for each session, 0600 in a 0700 folder, with a secret."""

from __future__ import annotations

import asyncio
import logging
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from dragoman.agents.common.hook_links import POST_LIMIT, HookLinks, answer, rest_of_post
from dragoman.agents.common.hook_secret import SECRET, new_secret, same_secret
from dragoman.hub.errors import NOT_JSON, HubError
from dragoman.hub.events import Json
from dragoman.hub.hook_payload import check_hook_payload
from dragoman.hub.limits import HubLimits

from .hook_folder import HookFolder
from .settings import DriverSettings

log = logging.getLogger("dragoman.terminal")

SECRET_BYTES = 1024
"""Bytes that are read of one that has not proven to be a hook."""

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
        self,
        take: Take,
        limits: HubLimits | None = None,
        *,
        links: int = DriverSettings().hook_links,
        secret: str | None = None,
    ) -> None:
        """``limits.hook_bytes`` and ``hook_values`` bound a post, ``links`` how many are heard at once.

        ``secret`` is the session's; a new one unless given. Raises ``OSError``.
        """
        self._take = take
        self._limits = limits or HubLimits()
        self._links = HookLinks(self._serve, links=links, log=log)
        self._folder = HookFolder()
        self._secret = secret or new_secret()

    @property
    def path(self) -> str:
        return self._folder.socket

    def proves(self, secret: str) -> bool:
        """Whether this is this session's secret."""
        return same_secret(secret, self._secret)

    def environment(self) -> dict[str, str]:
        """What the agent's environment needs so that its hooks find us."""
        return {"DRAGOMAN_HOOKS": self.path, SECRET: self._secret}

    async def open(self) -> None:
        """Listen. Must be open before the agent starts: its first hook comes early."""
        self._links.listen(self.path)

    def close(self) -> None:
        """Stop listening and remove the socket. Hooks that were let in are still answered."""
        self._links.stop()
        self._folder.close()

    async def _serve(self, link: socket.socket) -> None:
        reply = Reply()
        try:
            async with asyncio.timeout(POST_LIMIT):
                line = await self._post(link)
            if line is not None:
                check_hook_payload(line, self._limits)
                reply = await self._take(_decoder.decode(line))
        except (*NOT_JSON, TimeoutError, OSError) as problem:
            self._links.said.warn("unreadable", f"a hook's post cannot be read: {problem}")
        except HubError as problem:
            self._links.said.warn(problem.code, f"a hook is not taken: {problem}")
        except Exception:
            log.exception("a hook is not taken")
        await answer(link, _encoder.encode(reply) + b"\n")

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
            self._links.said.warn("secret", "a hook came with a wrong secret and is not taken")
            return None
        return await rest_of_post(link, first, self._limits)


def hook_command(event: str) -> str:
    """The shell command that posts this hook. ``-I -S``: nothing of the user's Python is looked at, and it is fast."""
    return f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(SCRIPT))} {shlex.quote(event)}"

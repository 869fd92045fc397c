"""A socket of installed hooks with an intake that a test leads, and hooks as agents run them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from dragoman.agents.hooked import post_script
from dragoman.agents.hooked.settings import HookedSettings
from dragoman.agents.hooked.user_hooks import UserHooks
from dragoman.hub.limits import HubLimits
from dragoman.hub.ports import HookPost

LIMIT = 20.0

PERMISSION = {"hook_event_name": "PermissionRequest", "session_id": "s", "tool_name": "Bash", "tool_input": {}}


class Taken:
    """Implements the hub's ``HookIntake``: what came. ``answers`` is what each ask is answered, one after the other."""

    def __init__(self) -> None:
        self.posts: list[HookPost] = []
        self.asked: list[HookPost] = []
        self.given_up: list[HookPost] = []
        self.answers: asyncio.Queue[str] = asyncio.Queue()
        self.problem: Exception | None = None
        self.free = asyncio.Event()
        self.free.set()

    async def take(self, post: HookPost) -> None:
        self.posts.append(post)
        await self.free.wait()
        if self.problem is not None:
            raise self.problem

    async def ask(self, post: HookPost) -> str:
        self.asked.append(post)
        if self.problem is not None:
            raise self.problem
        try:
            return await self.answers.get()
        except asyncio.CancelledError:
            self.given_up.append(post)
            raise


class Place:
    """The socket, the intake, and what posts to them."""

    def __init__(self, path: Path, limits: HubLimits | None = None, **settings: Any) -> None:
        self.path = path
        self.taken = Taken()
        self.hooks = UserHooks(self.taken, path, limits or HubLimits(), HookedSettings(**settings))

    @property
    def posts(self) -> list[HookPost]:
        return self.taken.posts

    async def connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(str(self.path))

    async def posted(self, line: bytes) -> bytes:
        """What these bytes are answered."""
        async with asyncio.timeout(LIMIT):
            reader, writer = await self.connected()
            try:
                writer.write(line)
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()

    def run(self, agent: str, event: str, **more: Any) -> Any:
        """Start the script as an agent does; its standard input is to be given."""
        return script(self.path, agent, event, **more)


def line(data: Any, **more: Any) -> bytes:
    """A post as the script sends it."""
    return json.dumps({"agent": "claude", "event": data.get("hook_event_name"), **more, "data": data}).encode() + b"\n"


async def script(path: Path | str, agent: str, event: str, **more: Any) -> asyncio.subprocess.Process:
    """The script, with nothing in its environment but what is given."""
    command = (sys.executable, "-I", "-S", post_script.__file__, str(path), agent, event)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return await asyncio.create_subprocess_exec(*command, **{**pipes, "env": {}, **more})


async def ran(process: asyncio.subprocess.Process, payload: bytes) -> tuple[int | None, bytes]:
    """Its exit code, and all that it said."""
    async with asyncio.timeout(LIMIT):
        said, _ = await process.communicate(payload)
    return process.returncode, said


@contextlib.asynccontextmanager
async def listening(path: Path, limits: HubLimits | None = None, **settings: Any) -> AsyncIterator[Place]:
    place = Place(path, limits, **settings)
    await place.hooks.open()
    try:
        yield place
    finally:
        await place.hooks.close()

"""One server of one session: waiting to be permitted, being reached, there, lost and reached again, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from dragoman.agents.native.tools.tool import ToolFailed
from dragoman.hub.events import Json
from dragoman.hub.workspace_config import McpServer

from .hiding import EntrySecrets
from .port import Connect, Link, LinkFailed, ListedTool, Progress
from .program import Spawning
from .settings import McpSettings

State = Literal["asked", "refused", "connecting", "ready", "resting"]
"""``asked``: a person has not said yet whether it may be had. ``resting``: tried in vain, until a turn needs it."""

Say = Callable[[str, Literal["info", "warning"]], None]

_REASON = 2000
"""Characters of the reason why something failed, which may be a server's own words."""

_NEWS_PAUSE = 0.5
"""Seconds between two looks at the tools of a server that says that they changed."""


class Server:
    """See the module. ``run`` is a task of its own, for as long as the server is wanted."""

    def __init__(
        self,
        entry: McpServer,
        *,
        trusted: bool,
        spawning: Spawning,
        settings: McpSettings,
        connect: Connect,
        say: Say,
    ) -> None:
        self.entry = entry
        self.trusted = trusted
        self.secrets = EntrySecrets(entry)
        self.tools: Sequence[ListedTool] = ()
        """What it lists; what it last listed while it is lost."""
        self.state: State = "connecting"
        self.problem = ""
        """Why it is not there, for people."""
        self.waited_for = False
        """Whether a turn has waited for it once."""
        self._spawning = spawning
        self._settings = settings
        self._connect = connect
        self._say = say
        self._link: Link | None = None
        self._moved = asyncio.Event()
        self._wanted = asyncio.Event()
        self._rested_at = 0.0

    # For the session

    async def run(self, permitted: Awaitable[bool] | None) -> None:
        """Reach the server and stay with it, until cancelled.

        ``permitted`` is a person's answer, where one is needed.
        """
        if permitted is not None:
            self._move("asked", "nobody has said yet whether it may be used")
            if not await permitted:
                self._move("refused", "it was not permitted")
                return
        try:
            while True:
                await self._round()
                await self._rest()
        except Exception:
            self._move("refused", "it failed unexpectedly; the server's log says why")
            raise

    async def until(self, *states: State) -> None:
        """Wait until it is in one of these."""
        while self.state not in states:
            await self._moved.wait()

    def want(self, *, at_once: bool) -> None:
        """A turn needs it: if it rests, and has rested long enough (or ``at_once``), it is tried again."""
        now = asyncio.get_running_loop().time()
        if self.state == "resting" and (at_once or now - self._rested_at >= self._settings.rest_seconds):
            self._move("connecting")
            self._wanted.set()

    async def call(self, tool: str, arguments: dict[str, Json], show: Progress) -> Json:
        """A tool's result. Raises ``ToolFailed``; at once when the server is not there."""
        name = self.entry.name
        problem = self.problem or "it is being connected" if self._link is None else self._link.problem
        if self._link is None or problem is not None:
            raise ToolFailed(f"The MCP server {name} is not there: {self.secrets.clean(problem or '')[:_REASON]}")
        try:
            return await self._link.call(tool, arguments, show)
        except LinkFailed as failure:
            why = self._words(failure)
            if failure.lost:
                raise ToolFailed(
                    f"The MCP server {name} was lost during the call, and it is not known whether the call had any "
                    f"effect: {why}"
                ) from failure
            raise ToolFailed(f"The MCP server {name} did not do it: {why}") from failure

    # Inside

    async def _round(self) -> None:
        """Reach it, stay while it is there, reach it again once it is lost; until it was tried in vain too often."""
        loop, settings = asyncio.get_running_loop(), self._settings
        failures = losses = 0
        while True:
            began: float | None = None
            try:
                async with self._connect(self.entry, self._spawning, settings) as link:
                    self.tools = await link.tools()
                    began = loop.time()
                    await self._stay(link)
            except LinkFailed as failure:
                problem = self._words(failure)
            finally:
                self._link = None
            if began is None:
                failures += 1
            else:
                # One that is lost ever again soon after it came is tried ever later.
                losses = 0 if loop.time() - began >= settings.steady_seconds else losses + 1
                failures = 0
                self._say(f"Lost {self.entry.name}: {problem}", "warning")
            if failures > self.entry.retries:
                self._say(f"Failed to connect to {self.entry.name} after {failures} attempts: {problem}", "warning")
                self.tools = ()
                self._move("resting", problem)
                return
            self._move("connecting", problem)
            await asyncio.sleep(pause(failures + losses, settings))
            self._say(f"Retrying {self.entry.name} (attempt {failures + 1})...", "info")

    async def _stay(self, link: Link) -> None:
        """Until it is lost, which raises ``LinkFailed``."""
        self._link = link
        self._say(f"Connected to {self.entry.name}: {len(self.tools)} tools", "info")
        self._move("ready")
        try:
            while True:
                await link.news()
                await self._list_again(link)
                await asyncio.sleep(_NEWS_PAUSE)
        except LinkFailed as failure:
            # At once, and not only when its program is ended: nobody is to call it any more.
            self._link = None
            self._move("connecting", self._words(failure))
            raise

    async def _list_again(self, link: Link) -> None:
        try:
            self.tools = await link.tools()
        except LinkFailed as failure:
            if failure.lost:
                raise
            self._say(f"{self.entry.name} does not say how its tools changed: {self._words(failure)}", "warning")

    def _words(self, failure: LinkFailed) -> str:
        return self.secrets.clean(str(failure))[:_REASON]

    async def _rest(self) -> None:
        self._rested_at = asyncio.get_running_loop().time()
        self._wanted.clear()
        await self._wanted.wait()

    def _move(self, state: State, problem: str = "") -> None:
        self.state, self.problem = state, problem
        self._moved.set()
        self._moved = asyncio.Event()


def pause(times: int, settings: McpSettings) -> float:
    """Seconds before a server is tried again that could not be had, or was soon lost, so many times in a row."""
    return min(settings.retry_delay * max(times, 1), settings.retry_longest)

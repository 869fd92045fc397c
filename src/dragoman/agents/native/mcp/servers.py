"""All MCP servers of one session: which there are to be, who may have them, and the tools that they give to a step."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from dragoman.agents.common.processes import ProcessTable
from dragoman.agents.native.tools.found import FoundTool
from dragoman.hub.errors import HubError
from dragoman.hub.events import Answer, DecisionResolved, LogWritten, Problem
from dragoman.hub.session import Session
from dragoman.hub.turns import TurnContext, TurnFailed
from dragoman.hub.workspace_config import McpServer, WorkspaceConfig, WorkspaceConfigs

from .asking import LONGEST, for_good, question, rule, shown_place
from .consents import Consents
from .library import LibraryMissing, connector
from .offers import Offers
from .port import Connect
from .program import Spawning
from .server import Server
from .settings import McpSettings

log = logging.getLogger("dragoman.mcp")

ENABLE = "enable_mcp"
"""The session's setting: true, false, or unset, and then the folder's configuration says."""


class _Held(msgspec.Struct):
    """A server, the task that is at it, and, while a person is asked, the question and where its answer goes."""

    server: Server
    task: asyncio.Task[None]
    mark: str
    decision: str | None = None
    permitted: asyncio.Future[bool] | None = None


class McpServers:
    """See the module. One for a session; nothing runs before a turn needs it, nor after ``close``."""

    def __init__(
        self,
        session: Session,
        configs: WorkspaceConfigs,
        settings: McpSettings,
        *,
        consents: Consents,
        processes: ProcessTable,
        environment: Mapping[str, str],
    ) -> None:
        """``environment`` is what programs get beside what their entries say; ``processes`` one table for a server."""
        self._session = session
        self._configs = configs
        self._settings = settings
        self._consents = consents
        self._schedule = settings.ending
        self._spawning = Spawning(
            session=session.id,
            cwd=Path(session.state.cwd),
            environment=environment,
            processes=processes,
            schedule=lambda: self._schedule,
        )
        self._held: dict[str, _Held] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._offers = Offers(settings, self._say)
        self._connect: Connect | None = None
        self._told_missing = False
        self._answers: dict[str, bool] = {}
        """What a person said of servers, by mark: for as long as this session is in memory."""
        self._configured: tuple[str, tuple[McpServer, ...], bool] | None = None
        self._idle: asyncio.TimerHandle | None = None

    # For the agent

    @property
    def holds(self) -> bool:
        """Whether anything runs that ``close`` would end."""
        return bool(self._held or self._ending)

    @property
    def names(self) -> Collection[str]:
        """What the tools are called that a step was last given."""
        return self._offers.names

    def configure(self, turn: str, config: WorkspaceConfig) -> None:
        """What the folder's configuration says, for a turn whose beginning has just read it."""
        self._configured = (turn, config.mcp_servers, config.enable_mcp)

    async def find(self, turn: TurnContext, taken: Collection[str]) -> Mapping[str, FoundTool]:
        """See ``ToolFinder``. Waits as ``McpSettings.first_wait`` says, and for what is required."""
        wanted = await self._wanted(turn)
        self._retire(wanted)
        if not wanted:
            return self._offers.made((), taken)
        try:
            self._connect = self._connect or await connector()
        except LibraryMissing as missing:
            return self._without_library(missing, wanted.values())
        self._watch_idle()
        for entry in wanted.values():
            if entry.name not in self._held:
                await self._begin(entry, self._connect)
        for held in self._held.values():
            held.server.want(at_once=held.server.entry.required)
        await self._wait()
        return self._offers.made([(held.server, held.mark) for held in self._held.values()], taken)

    def resolved(self, outcome: DecisionResolved, answer: Answer | None) -> None:
        """A person said whether a server may be had."""
        held = next((held for held in self._held.values() if held.decision == outcome.decision), None)
        if held is None or held.permitted is None or held.permitted.done():
            return
        accepted = outcome.outcome == "answered" and answer is not None and bool(answer.accept)
        if outcome.outcome == "answered":
            self._answers[held.mark] = accepted
        if accepted and answer is not None and answer.scope == for_good(held.mark):
            self._session.tasks.start(self._consents.add(held.mark), f"mcp-consent:{self._session.id}")
        held.permitted.set_result(accepted)

    async def close(self, budget: float) -> None:
        """End every server within ``budget`` seconds; a later turn begins them anew."""
        self._schedule = self._settings.ending.within(budget)
        self._retire({})
        if self._ending:
            _, late = await asyncio.wait(set(self._ending), timeout=budget)
            if late:
                log.warning("session %s: %d MCP servers did not end within %.1f s", self._session.id, len(late), budget)
        self._schedule = self._settings.ending

    # Which there are to be

    async def _wanted(self, turn: TurnContext) -> dict[str, McpServer]:
        enabled = self._session.state.settings.get(ENABLE)
        if enabled is False:
            return {}
        if self._configured is None or self._configured[0] != turn.turn:
            self.configure(turn.turn, await self._configs.read(Path(self._session.state.cwd)))
        assert self._configured is not None
        _, entries, usual = self._configured
        if enabled is not True and not usual:
            return {}
        ignored = self._settings.project_servers == "ignore"
        return {entry.name: entry for entry in entries if not (ignored and entry.layer == "project")}

    def _retire(self, wanted: Mapping[str, McpServer]) -> None:
        """End what is not wanted any more, or not in this form; nobody waits for that."""
        for name, held in list(self._held.items()):
            if wanted.get(name) == held.server.entry:
                continue
            del self._held[name]
            if held.decision is not None:
                self._session.cancel_decision(held.decision, "the server is not wanted any more")
            held.task.cancel()
            self._ending.add(held.task)
            held.task.add_done_callback(self._ending.discard)
        if not self._held and self._idle is not None:
            self._idle.cancel()
            self._idle = None

    async def _begin(self, entry: McpServer, connect: Connect) -> None:
        mark = await self._consents.mark(Path(self._session.state.cwd), entry)
        permitted, decision = await self._permission(entry, mark)
        foreign = entry.layer == "project" and self._settings.project_servers != "trust"
        server = Server(
            entry,
            # What a project says of its own servers is no reason to trust them.
            trusted=entry.trusted and not foreign,
            spawning=self._spawning,
            settings=self._settings,
            connect=connect,
            say=self._say,
        )
        task = self._session.tasks.start(server.run(permitted), f"mcp:{self._session.id}")
        self._held[entry.name] = _Held(server, task, mark, decision, permitted)

    async def _permission(self, entry: McpServer, mark: str) -> tuple[asyncio.Future[bool] | None, str | None]:
        """What the server has to wait for, and the question that it waits for; nothing where it may be had."""
        if await self._is_permitted(entry, mark):
            return None, None
        permitted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if len(shown_place(entry)) > LONGEST:
            self._say(f"Skipped {entry.name}: its command is too long to be shown to a person", "warning")
            self._answers[mark] = False
        if mark in self._answers:
            permitted.set_result(False)
            return permitted, None
        opened = question(entry, decision=self._session.ids(), mark=mark, cwd=self._session.state.cwd)
        try:
            self._session.open_decision(opened)
        except HubError as problem:
            self._say(f"Skipped {entry.name}: nobody could be asked: {problem}", "warning")
            permitted.set_result(False)
            return permitted, None
        return permitted, opened.decision

    async def _is_permitted(self, entry: McpServer, mark: str) -> bool:
        if entry.layer != "project" or self._settings.project_servers == "trust" or self._answers.get(mark):
            return True
        granted = {rule(mark), for_good(mark)}
        return not granted.isdisjoint(self._session.state.grants) or await self._consents.has(mark)

    def _without_library(self, missing: LibraryMissing, wanted: Iterable[McpServer]) -> Mapping[str, FoundTool]:
        if not self._told_missing:
            self._told_missing = True
            self._say(str(missing), "warning")
        for entry in wanted:
            if entry.required:
                raise _required(entry.name, str(missing))
        return {}

    # Waiting

    async def _wait(self) -> None:
        servers = [held.server for held in self._held.values()]
        new = [server for server in servers if not server.waited_for]
        for server in new:
            server.waited_for = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.first_wait):
                for server in new:
                    await server.until("asked", "refused", "ready", "resting")
        for server in servers:
            if server.entry.required:
                await server.until("refused", "ready", "resting")
                if server.state != "ready":
                    raise _required(server.entry.name, server.problem)

    def _watch_idle(self) -> None:
        """From here on, end the servers when no turn runs for long."""
        if self._idle is not None:
            self._idle.cancel()
        seconds = self._settings.idle_seconds
        self._idle = asyncio.get_running_loop().call_later(seconds, self._idled) if seconds > 0 else None

    def _idled(self) -> None:
        self._idle = None
        if self._session.state.turn is not None:
            self._watch_idle()
        elif self._held:
            self._say("Ended the servers: no turn needed them for long", "info")
            self._retire({})

    def _say(self, line: str, level: Literal["info", "warning"]) -> None:
        turn = self._session.state.turn
        with contextlib.suppress(HubError):  # the log may be over, or full: the servers go on all the same
            shown = " ".join(line.split())
            written = LogWritten(line=f"[MCP] {shown}", level=level, turn=turn.turn if turn is not None else None)
            self._session.record(written)


def _required(name: str, why: str) -> TurnFailed:
    message = f"the MCP server {name}, which this folder requires, is not there: {why}"
    return TurnFailed(Problem(code="mcp_required", message=message, source="tool"))

"""A server's tool, as the model's own."""

from __future__ import annotations

import asyncio
from typing import cast

import msgspec

from dragoman.agents.native.providers.conversation import ToolSpec
from dragoman.agents.native.tools.found import FoundTool
from dragoman.agents.native.tools.tool import ForeignCall, Result, ToolContext, ToolFailed
from dragoman.hub.events import Json

from .port import ListedTool
from .results import read_result
from .server import Server
from .settings import McpSettings

_DESCRIPTION = 4000
"""Characters of a tool's description that a model is given."""

_TITLE = 200
"""Characters of a tool's title."""

_SHOWN = 1000
"""Characters of a call's arguments that a person is shown beside them."""


class McpTool(FoundTool):
    """See the module. ``mark`` stands for its server's entry: permissions do not outlive a change of that."""

    def __init__(
        self,
        server: Server,
        listed: ListedTool,
        *,
        name: str,
        schema: dict[str, Json],
        mark: str,
        settings: McpSettings,
    ) -> None:
        hide = server.secrets.hide
        shown = hide({"description": listed.description, "title": listed.title or listed.name, "schema": schema})
        assert isinstance(shown, dict)
        super().__init__(
            ToolSpec(name, str(shown["description"])[:_DESCRIPTION], cast("dict[str, Json]", shown["schema"])),
            title=f"{server.entry.name}: {shown['title']}"[:_TITLE],
            for_subagents=server.trusted,
        )
        self._server = server
        self._listed = listed
        self._mark = mark
        self._settings = settings

    def is_of(self, server: Server, listed: ListedTool) -> bool:
        """Whether this is what the server lists there."""
        return self._server is server and self._listed is listed

    async def run(self, given: dict[str, Json], context: ToolContext) -> Result:
        """Ask where that is needed, call it, and give its result in MCP's form."""
        await context.permit_foreign(self._asked(given))
        progress = _Progress(self._server, context)
        answer = await self._server.call(self._listed.name, given, progress.tell)
        result = read_result(self._server.secrets.hide(answer), self._settings.result_chars)
        if result.failed:
            raise ToolFailed(result.text or "The tool failed, and did not say why.")
        return Result(result.output, result.text or "(no output)")

    def _asked(self, given: dict[str, Json]) -> ForeignCall:
        server = self._server.entry.name
        arguments = msgspec.json.encode(given).decode()
        shown = arguments if len(arguments) <= _SHOWN else arguments[:_SHOWN] + "..."
        return ForeignCall(
            tool=self.name,
            owner=f"the MCP server {server}",
            text=f"{server}: {self._listed.name} {shown}",
            given=given,
            grant=f"mcp({self._mark})/{self._listed.name}",
            rule=f"mcp({self._mark})",
            trusted=self._server.trusted,
            read_only=self._listed.read_only,
        )


class _Progress:
    """Shows how far a call is, no more often than a command's output."""

    def __init__(self, server: Server, context: ToolContext) -> None:
        self._server = server
        self._context = context
        self._next = 0.0

    async def tell(self, said: dict[str, Json]) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._next:
            return
        self._next = now + self._context.settings.tools.command_progress
        told = cast("dict[str, Json]", self._server.secrets.hide(said))  # before it is cut: half a secret is one, too
        message = told.get("message")
        if isinstance(message, str):
            told = {**told, "message": message[:_SHOWN]}
        await self._context.progress(told)

"""A server as the official library reaches it: handshake, list, call. Imported when a server is first needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from mcp import types
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from pydantic import FileUrl

from dragoman.hub.errors import HubError
from dragoman.hub.events import Json
from dragoman.hub.workspace_config import McpServer

from .http import reached
from .port import LinkFailed, ListedTool, Progress
from .program import Spawning
from .settings import McpSettings
from .stdio import Pipes, piped

_PAGES = 100
"""Pages of a list of tools that are read; one that goes on is a circle."""

_MOST_LISTED = 1000
"""Tools of a list that are looked at, usable or not."""

_GRACE = 5.0
"""Seconds beyond its time-out for a call to be given up: the server is told, which may take a moment."""

_OVER = frozenset({"Connection closed", "Session terminated"})
"""How the library says that a connection is over, and that a server at a URL does not know us any more."""


class McpLink:
    """See ``port.Link``.

    Lists and results are taken as they come, not as the library's types: one odd tool does not cost all others.
    """

    def __init__(self, dispatcher: JSONRPCDispatcher[Any], settings: McpSettings, pipes: Pipes | None) -> None:
        self._dispatcher = dispatcher
        self._settings = settings
        self._pipes = pipes
        self._lost = pipes.over if pipes is not None else asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def problem(self) -> str | None:
        return self._why_lost() if self._lost.is_set() else None

    async def tools(self) -> Sequence[ListedTool]:
        tools: list[ListedTool] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            params = {} if cursor is None else {"cursor": cursor}
            try:
                page = await self._ask("tools/list", params, self._settings.connect_seconds)
            except LinkFailed as failure:
                if isinstance(failure.__cause__, MCPError) and failure.__cause__.error.code == types.METHOD_NOT_FOUND:
                    return ()
                raise
            listed = page.get("tools")
            tools += (
                [_listed(tool) for tool in listed[:_MOST_LISTED] if _is_tool(tool)] if isinstance(listed, list) else []
            )
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or len(tools) > self._settings.tools:
                break
        return tools[:_MOST_LISTED]

    async def call(self, tool: str, arguments: dict[str, Json], show: Progress) -> Json:
        async def tell(progress: float, total: float | None, message: str | None) -> None:
            told = {"progress": progress, "total": total, "message": message}
            await show({key: value for key, value in told.items() if value is not None})

        params = {"name": tool, "arguments": arguments}
        return await self._ask("tools/call", params, self._settings.call_seconds, on_progress=tell)

    async def news(self) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (self._lost, self._changed)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self._lost.is_set():
            raise await self._loss()
        self._changed.clear()

    async def heard(self, message: object) -> None:
        """Take a notification."""
        if isinstance(message, types.ToolListChangedNotification):
            self._changed.set()

    async def _ask(
        self, method: str, params: dict[str, Any], seconds: float, on_progress: ProgressFnT | None = None
    ) -> dict[str, Any]:
        options: CallOptions = {"timeout": seconds}
        if on_progress is not None:
            options["on_progress"] = on_progress
        try:
            async with asyncio.timeout(seconds + _GRACE):
                return await self._dispatcher.send_raw_request(method, params, options)
        except MCPError as error:
            raise await self._failure(error, seconds) from error
        except TimeoutError:
            raise LinkFailed(f"it gave no answer within {seconds:g} s") from None

    async def _failure(self, error: MCPError, seconds: float) -> LinkFailed:
        code, said = error.error.code, error.error.message
        if code == types.REQUEST_TIMEOUT and "timed out" in said:
            return LinkFailed(f"it gave no answer within {seconds:g} s")
        if said in _OVER or self._lost.is_set():
            self._lost.set()
            return await self._loss()
        return LinkFailed(f"{said or 'it failed'} (error {code})")

    async def _loss(self) -> LinkFailed:
        if self._pipes is not None:
            await self._pipes.ended()
        return LinkFailed(self._why_lost(), lost=True)

    def _why_lost(self) -> str:
        return self._pipes.problem if self._pipes is not None else "the connection is lost"


@asynccontextmanager
async def connect(entry: McpServer, spawning: Spawning, settings: McpSettings) -> AsyncGenerator[McpLink, None]:
    """See ``port.Connect``. The handshake is that of MCP up to 2025-11-25."""
    pipes: list[Pipes] = []
    shaken = False
    try:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(settings.connect_seconds):
                link = await _shaken(stack, pipes, entry, spawning, settings)
            shaken = True
            yield link
    except Exception as error:
        cause = _cause(error)
        if isinstance(cause, TimeoutError) and not shaken:
            raise LinkFailed(f"it was not there within {settings.connect_seconds:g} s", lost=True) from error
        raise _failed(cause, pipes) from error


async def _shaken(
    stack: AsyncExitStack, pipes: list[Pipes], entry: McpServer, spawning: Spawning, settings: McpSettings
) -> McpLink:
    if entry.transport == "stdio":
        piped_ = await stack.enter_async_context(piped(entry, spawning, settings))
        pipes.append(piped_)
        streams: tuple[Any, Any] = (piped_.incoming, piped_.outgoing)
    else:
        streams = await stack.enter_async_context(reached(entry, settings))
    dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(*streams)
    link = McpLink(dispatcher, settings, pipes[0] if pipes else None)

    async def roots(context: object) -> types.ListRootsResult:  # noqa: ARG001
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(spawning.cwd.as_uri()), name=spawning.cwd.name)])

    session = ClientSession(
        dispatcher=dispatcher,
        list_roots_callback=roots,
        message_handler=link.heard,
        client_info=types.Implementation(name="dragoman", version="1"),
    )
    await stack.enter_async_context(session)
    await session.initialize()
    return link


def _cause(error: BaseException) -> BaseException:
    """What went wrong, in whatever depth of the library."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _failed(cause: BaseException, pipes: Sequence[Pipes]) -> LinkFailed:
    """By now the program is ended, and it is known how."""
    over = (isinstance(cause, MCPError) and cause.error.message in _OVER) or (
        isinstance(cause, LinkFailed) and cause.lost
    )
    if over and pipes:
        return LinkFailed(pipes[0].problem, lost=True)
    if isinstance(cause, MCPError):
        return LinkFailed(cause.error.message or "it failed", lost=True)
    if isinstance(cause, LinkFailed | HubError):
        return LinkFailed(str(cause), lost=True)
    return LinkFailed(f"{type(cause).__name__}: {cause}", lost=True)


def _is_tool(given: object) -> bool:
    return isinstance(given, dict) and isinstance(given.get("name"), str) and bool(given["name"])


def _listed(given: dict[str, Any]) -> ListedTool:
    notes = given.get("annotations")
    notes = notes if isinstance(notes, dict) else {}
    description, title = given.get("description"), given.get("title") or notes.get("title")
    return ListedTool(
        given["name"],
        description if isinstance(description, str) else "",
        given.get("inputSchema"),
        title if isinstance(title, str) else None,
        notes.get("readOnlyHint") is True,
    )
